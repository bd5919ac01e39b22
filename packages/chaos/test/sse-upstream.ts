/** An upstream for tests: sends the same events (or body) to every request, and records what happened to it. */
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Upstream = { readonly url: string; readonly port: number; readonly count: number; close(): Promise<void> }

export async function startUpstream(listener: RequestListener): Promise<Upstream> {
  let count = 0
  const server = createServer((req, res) => {
    count += 1
    listener(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    get count() {
      return count
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

const chunk = (delta: unknown, finish: string | null = null): string =>
  `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`

/** Ten text deltas, the finish reason, the end. */
export const TEXT_EVENTS: readonly string[] = [
  ...Array.from({ length: 10 }, (_, i) => chunk({ content: `piece ${i} ` })),
  chunk({}, 'stop'),
  'data: [DONE]\n\n',
]

export const TOOL_EVENTS: readonly string[] = [
  chunk({ role: 'assistant', content: '' }),
  chunk({ tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'bash', arguments: '' } }] }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: '{"comma' } }] }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: 'nd":"ls"}' } }] }),
  chunk({}, 'tool_calls'),
  'data: [DONE]\n\n',
]

const named = (json: { type: string } & Record<string, unknown>): string =>
  `event: ${json.type}\ndata: ${JSON.stringify(json)}\n\n`

export const ANTHROPIC_EVENTS: readonly string[] = [
  named({ type: 'message_start', message: { id: 'm' } }),
  named({
    type: 'content_block_start',
    index: 0,
    content_block: { type: 'tool_use', id: 't', name: 'bash', input: {} },
  }),
  named({
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'input_json_delta', partial_json: '{"command":"ls"}' },
  }),
  named({ type: 'content_block_stop', index: 0 }),
  named({ type: 'message_delta', delta: { stop_reason: 'tool_use' } }),
  named({ type: 'message_stop' }),
]

export const sse =
  (events: readonly string[]): RequestListener =>
  (_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const event of events) res.write(event)
    res.end()
  }
