/** Upstreams for the tests of the fault proxy: event streams of both APIs, each event one chunk. */
import type { RequestListener } from 'node:http'
import { event } from '../../../test/kit/anthropic-frames.ts'
import { callMore, callStart, done, finish, role, text } from '../../../test/kit/openai-frames.ts'

export { type HttpServer as Upstream, httpServer as startUpstream } from '../../../test/kit/http-server.ts'

/** Ten pieces of text, the finish reason, the end. */
export const TEXT_EVENTS: readonly string[] = [
  ...Array.from({ length: 10 }, (_, i) => text(`piece ${i} `)),
  finish(),
  done,
]

export const TOOL_EVENTS: readonly string[] = [
  role,
  callStart('call_1', 'bash'),
  callMore('{"comma'),
  callMore('nd":"ls"}'),
  finish('tool_calls'),
  done,
]

export const ANTHROPIC_EVENTS: readonly string[] = [
  event('message_start', { message: { id: 'm' } }),
  event('content_block_start', { index: 0, content_block: { type: 'tool_use', id: 't', name: 'bash', input: {} } }),
  event('content_block_delta', { index: 0, delta: { type: 'input_json_delta', partial_json: '{"command":"ls"}' } }),
  event('content_block_stop', { index: 0 }),
  event('message_delta', { delta: { stop_reason: 'tool_use' } }),
  event('message_stop'),
]

export const sse =
  (events: readonly string[]): RequestListener =>
  (_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const one of events) res.write(one)
    res.end()
  }
