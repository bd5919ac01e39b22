/**
 * Whether a local server is the one that its port suggests, by its own word. A port says nothing: 8080 is the usual one of
 * many things, and a server that is taken for another is trusted with what only the other can do.
 */

export const LOCAL_PROFILES = { Ollama: 'ollama', 'llama-server': 'llama-cpp' } as const
export type LocalName = keyof typeof LOCAL_PROFILES

export async function saysItIs(name: LocalName, baseUrl: string): Promise<boolean> {
  if (name === 'Ollama') return (await look(new URL('/', baseUrl).href))?.text.trim() === 'Ollama is running'
  const list = await look(`${baseUrl}/models`)
  return list?.server === 'llama.cpp' || /"owned_by"\s*:\s*"llamacpp"/.test(list?.text ?? '')
}

// ---- details ----

const LOOK_MS = 2_000

async function look(url: string): Promise<{ readonly server: string | null; readonly text: string } | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(LOOK_MS) })
    return { server: response.headers.get('server'), text: await response.text() }
  } catch {
    return undefined // it says nothing, so it is nobody that we know
  }
}
