/** An answer that came as one JSON document, although a stream was asked for. */
import { Fault } from '@breakfall/faults'

export function wholeJson(body: Buffer, contentType: string): object {
  const text = body.toString('utf8')
  try {
    const json: unknown = JSON.parse(text)
    if (typeof json === 'object' && json !== null) return json
  } catch (cause) {
    throw notAnAnswer(text, contentType, cause)
  }
  throw notAnAnswer(text, contentType, undefined)
}

/** Cut JSON is a broken answer; anything else is somebody who is no model: a proxy's page, a captive portal. */
function notAnAnswer(text: string, contentType: string, cause: unknown): Fault {
  const isCut = contentType.includes('json')
  return new Fault(isCut ? 'model_stream_interrupted' : 'model_server_error', {
    phase: 'stream',
    facts: { detail: isCut ? undefined : `it answered ${contentType || 'something'} instead of an event stream` },
    errorRaw: `${contentType}: ${text.slice(0, 500)}`,
    cause,
  })
}
