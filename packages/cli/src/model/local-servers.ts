/**
 * Model servers on this machine: where to look for them, and whether a server is what its port suggests. Many
 * programs use port 8080, and a server taken for another one would be trusted with what only the other one can do.
 */

export const LOCAL_PROFILES = { Ollama: 'ollama', 'llama-server': 'llama-cpp' } as const
export type LocalName = keyof typeof LOCAL_PROFILES

export type LocalServer = { readonly name: LocalName; readonly baseUrl: string; readonly where: string }

/** On their default ports, or where the variables say that those servers read themselves. */
export function localServers(env: Readonly<Record<string, string | undefined>>): readonly LocalServer[] {
  const ollama = env['OLLAMA_HOST'] ?? ''
  const [host, port] = [env['LLAMA_ARG_HOST'] ?? '', env['LLAMA_ARG_PORT'] ?? '']
  const where = (variable: string): string =>
    variable === '' ? 'on its default port' : 'at the address in its environment variables'
  return [
    { name: 'Ollama', baseUrl: localUrl(ollama, '11434'), where: where(ollama) },
    { name: 'llama-server', baseUrl: localUrl(`${host}:${port}`, '8080'), where: where(host + port) },
  ]
}

/** Whether the server identifies itself as this one. */
export async function identifiesAs(name: LocalName, baseUrl: string): Promise<boolean> {
  if (name === 'Ollama') return (await get(new URL('/', baseUrl).href))?.text.trim() === 'Ollama is running'
  const list = await get(`${baseUrl}/models`)
  return list?.server === 'llama.cpp' || /"owned_by"\s*:\s*"llamacpp"/.test(list?.text ?? '')
}

// ---- details, in the order they are used above ----

/** Takes `host`, `:port`, `host:port` or a whole URL. A server that binds all addresses is called at loopback. */
function localUrl(given: string, defaultPort: string): string {
  const [, scheme = 'http', host = '', port = ''] = /^(?:(https?):\/\/)?([^/:\s]*):?(\d*)\/?$/.exec(given.trim()) ?? []
  return `${scheme}://${host === '' || host === '0.0.0.0' ? '127.0.0.1' : host}:${port || defaultPort}/v1`
}

const IDENTIFY_MS = 2_000

async function get(url: string): Promise<{ readonly server: string | null; readonly text: string } | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(IDENTIFY_MS) })
    return { server: response.headers.get('server'), text: await response.text() }
  } catch {
    return undefined // no answer: not a server that we know
  }
}
