/** Sends one recorded answer to every client, as fast as the client reads. A separate process, so its CPU time is not counted. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const PIECES = 256

/** A chunk as OpenAI sends it, with the given text. */
export const chunkFrame = (text: string): string =>
  JSON.stringify({
    id: 'chatcmpl-123',
    object: 'chat.completion.chunk',
    created: 1_763_000_000,
    model: 'a-model',
    system_fingerprint: 'fp_44709d6fcb',
    choices: [{ index: 0, delta: { content: text }, logprobs: null, finish_reason: null }],
  })

/**
 * Frames of a whole answer of so many chunks of text; with `stamped`, each text is the time at which it was made. The space
 * is behind it: a digit at the end may be the beginning of a token, and would wait for what follows.
 */
export function* answerFrames(chunks: number, stamped = false): Iterable<string> {
  for (let index = 0; index < chunks; index++)
    yield chunkFrame(stamped ? `${process.hrtime.bigint()} ` : ` word${index % 97}`)
  yield JSON.stringify({ id: 'chatcmpl-123', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
  yield '[DONE]'
}

/** `chunks` and the pause after each (none: 0, and then as fast as it goes) come with the request's query, or first in its path: `/c400-p3/…`. */
export async function startStreamServer(): Promise<string> {
  const server = createServer((req, res) => {
    req.resume()
    const { searchParams: query, pathname } = new URL(req.url ?? '/', 'http://x')
    const inPath = /^\/c(\d+)-p(\d+)\//.exec(pathname)
    const chunks = Number(inPath?.[1] ?? query.get('chunks') ?? 1_000)
    const pauseMs = Number(inPath?.[2] ?? query.get('pauseMs') ?? 0)
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    void (async () => {
      let batch = ''
      let count = 0
      for (const frame of answerFrames(chunks, pauseMs > 0)) {
        batch += `data: ${frame}\n\n`
        if (++count % (pauseMs > 0 ? 1 : PIECES) !== 0) continue
        if (!res.write(batch)) await once(res, 'drain')
        batch = ''
        if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs))
      }
      res.end(batch)
    })()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

if (import.meta.main) {
  process.stdout.write(`${await startStreamServer()}\n`)
}
