/**
 * `fetch` for a server at a URL: a response, or one event of a stream, may not be larger than a message. The end of a stream also
 * ends its last event: a server that sends a whole answer without the blank line after it has answered.
 */
import { MCP_LIMITS } from './config.ts'
import { type MessageLimits, MessageMeter } from './message-meter.ts'

export function boundedFetch(limits: MessageLimits = MCP_LIMITS): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, init)
    if (response.body === null) return response
    const { status, statusText, headers, ok } = response
    // A refusal, or what was asked for as a document, is read as a whole, even if it calls itself a stream.
    const isAsked = new Headers(init?.headers).get('accept')?.includes(EVENTS) === true
    const isStream = ok && isAsked && headers.get('content-type')?.startsWith(EVENTS) === true
    return new Response(response.body.pipeThrough(counter(limits, isStream)), { status, statusText, headers })
  }
}

// ---- details ----

const EVENTS = 'text/event-stream'
const BLANK_LINE = new TextEncoder().encode('\n\n')

function counter(
  limits: MessageLimits,
  isStream: boolean,
): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  const meter = new MessageMeter(limits, isStream)
  return new TransformStream({
    transform(chunk, controller) {
      const excess = meter.add(chunk)
      if (excess === undefined) controller.enqueue(chunk)
      else controller.error(new Error(`a message of ${excess}`))
    },
    flush(controller) {
      if (isStream) controller.enqueue(BLANK_LINE)
    },
  })
}
