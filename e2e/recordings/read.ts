/** Recorded answers of model servers in a folder: our own files (`fixtures/streams`), and cassettes of go-vcr. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

export type Recording = {
  readonly name: string
  readonly url: URL
  /** The request's body. */
  readonly asked: string
  readonly type: string
  readonly body: Buffer
}

/** Answers with status 200 to a POST. What is no recording is left out. */
export async function recordingsIn(folder: string): Promise<readonly Recording[]> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
  const found: Recording[] = []
  for (const file of files) {
    const name = relative(folder, file)
    if (name.endsWith('.json')) found.push(...ownIn(name, readFileSync(file, 'utf8')))
    if (/\.ya?ml$/.test(name)) found.push(...(await cassetteIn(name, readFileSync(file, 'utf8'))))
  }
  return found
}

// ---- details ----

type Own = {
  readonly url?: string
  readonly request?: unknown
  readonly response?: { readonly type?: string; readonly body?: string; readonly base64?: string }
}

function ownIn(name: string, text: string): readonly Recording[] {
  const { url = '', request, response } = JSON.parse(text) as Own
  if (response === undefined || !URL.canParse(url)) return []
  const { type = 'text/event-stream', body = '', base64 } = response
  const bytes = base64 === undefined ? Buffer.from(body) : Buffer.from(base64, 'base64')
  return [{ name, url: new URL(url), asked: JSON.stringify(request), type, body: bytes }]
}

type Cassette = {
  readonly interactions?: readonly {
    readonly request: { readonly url: string; readonly method: string; readonly body?: string }
    readonly response: {
      readonly code: number
      readonly headers?: Readonly<Record<string, readonly string[]>>
      readonly body?: string | Uint8Array
    }
  }[]
}

async function cassetteIn(name: string, text: string): Promise<readonly Recording[]> {
  const { parse } = await import('yaml')
  const { interactions = [] } = (parse(text) ?? {}) as Cassette
  return interactions.flatMap(({ request, response }, at) => {
    const { url, method, body: asked = '' } = request
    if (method !== 'POST' || response.code !== 200 || !URL.canParse(url)) return []
    const type = response.headers?.['Content-Type']?.[0] ?? ''
    return [{ name: `${name}#${at}`, url: new URL(url), asked, type, body: Buffer.from(response.body ?? '') }]
  })
}
