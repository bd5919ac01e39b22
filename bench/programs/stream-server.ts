/** Sends one recorded answer to every client, as fast as the client reads. A separate process, so its CPU time is not counted. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const PIECES = 256

export type StreamDialect = 'chat' | 'messages' | 'responses'

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

/** What is around the text of an answer. */
type Shape = {
  readonly begin: readonly object[]
  readonly delta: (text: string, index: number) => string
  readonly end: readonly object[]
}

const SHAPES: Readonly<Record<StreamDialect, Shape>> = {
  chat: {
    begin: [],
    delta: (text) => `data: ${chunkFrame(text)}\n\n`,
    end: [{ id: 'chatcmpl-123', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }],
  },
  messages: {
    begin: [
      {
        type: 'message_start',
        message: {
          id: 'msg_1',
          type: 'message',
          role: 'assistant',
          model: 'a-model',
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: 9, output_tokens: 1 },
        },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    ],
    delta: (text) => named({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }),
    end: [
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 9 } },
      { type: 'message_stop' },
    ],
  },
  responses: {
    begin: [
      {
        type: 'response.created',
        sequence_number: 0,
        response: { id: 'resp_1', object: 'response', status: 'in_progress', output: [] },
      },
      {
        type: 'response.output_item.added',
        sequence_number: 1,
        output_index: 0,
        item: { id: 'msg_1', type: 'message', status: 'in_progress', role: 'assistant', content: [] },
      },
      {
        type: 'response.content_part.added',
        sequence_number: 2,
        item_id: 'msg_1',
        output_index: 0,
        content_index: 0,
        part: { type: 'output_text', text: '', annotations: [] },
      },
    ],
    delta: (text, index) =>
      named({
        type: 'response.output_text.delta',
        sequence_number: index + 3,
        item_id: 'msg_1',
        output_index: 0,
        content_index: 0,
        delta: text,
        logprobs: [],
      }),
    // The text is repeated three times at the end of a real answer; one empty repetition is enough to end this one.
    end: [
      {
        type: 'response.completed',
        response: {
          id: 'resp_1',
          object: 'response',
          status: 'completed',
          output: [
            {
              id: 'msg_1',
              type: 'message',
              status: 'completed',
              role: 'assistant',
              content: [{ type: 'output_text', text: 'x', annotations: [] }],
            },
          ],
        },
      },
    ],
  },
}

/**
 * The text of a whole answer of so many chunks, event by event; with `stamped`, each text is the time at which it was made. The space
 * is behind it: a digit at the end may be the beginning of a token, and would wait for what follows.
 */
export function* answerEvents(dialect: StreamDialect, chunks: number, stamped = false): Iterable<string> {
  const { begin, delta, end } = SHAPES[dialect]
  const write = (json: object): string => (dialect === 'chat' ? `data: ${JSON.stringify(json)}\n\n` : named(json))
  yield begin.map(write).join('')
  for (let index = 0; index < chunks; index++)
    yield delta(stamped ? `${process.hrtime.bigint()} ` : ` word${index % 97}`, index)
  yield end.map(write).join('') + (dialect === 'chat' ? 'data: [DONE]\n\n' : '')
}

/** `chunks` and the pause after each (none: 0, and then as fast as it goes) come with the request's query, or first in its path: `/c400-p3/…`. */
export async function startStreamServer(): Promise<string> {
  const server = createServer((req, res) => {
    req.resume()
    const { searchParams: query, pathname } = new URL(req.url ?? '/', 'http://x')
    const inPath = /^\/c(\d+)-p(\d+)\//.exec(pathname)
    const chunks = Number(inPath?.[1] ?? query.get('chunks') ?? 1_000)
    const pauseMs = Number(inPath?.[2] ?? query.get('pauseMs') ?? 0)
    const dialect = pathname.endsWith('/messages') ? 'messages' : pathname.endsWith('/responses') ? 'responses' : 'chat'
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    void (async () => {
      let batch = ''
      let count = 0
      for (const event of answerEvents(dialect, chunks, pauseMs > 0)) {
        batch += event
        if (++count % (pauseMs > 0 ? 1 : PIECES) !== 0) continue
        if (res.destroyed) return
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

function named(json: object): string {
  return `event: ${'type' in json ? String(json.type) : ''}\ndata: ${JSON.stringify(json)}\n\n`
}

if (import.meta.main) {
  process.stdout.write(`${await startStreamServer()}\n`)
}
