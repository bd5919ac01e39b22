/**
 * `fetch` for a server at a URL: a response, or one event of a stream, may not be larger than a message. The end of a stream also
 * ends its last event: a server that sends a whole answer without the blank line after it has answered.
 */

export function boundedFetch(bytesMax: number): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, init)
    if (response.body === null) return response
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
    const { status, statusText, headers } = response
    return new Response(response.body.pipeThrough(counter(bytesMax, isStream)), { status, statusText, headers })
  }
}

// ---- details ----

const LF = 0x0a
const BLANK_LINE = new TextEncoder().encode('\n\n')

function counter(
  bytesMax: number,
  isStream: boolean,
): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  let bytes = 0
  return new TransformStream({
    transform(chunk, controller) {
      const last = isStream ? chunk.lastIndexOf(LF) : -1
      bytes = last === -1 ? bytes + chunk.length : chunk.length - last - 1
      if (bytes > bytesMax) controller.error(new Error(`a message of more than ${Math.round(bytesMax / 2 ** 20)} MiB`))
      else controller.enqueue(chunk)
    },
    flush(controller) {
      if (isStream) controller.enqueue(BLANK_LINE)
    },
  })
}
