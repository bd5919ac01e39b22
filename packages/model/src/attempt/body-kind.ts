/** What kind of body a response has, by its status and headers. */
import type { IncomingHttpHeaders } from 'node:http'
import { Fault } from '@breakfall/faults'

export type BodyKind = 'events' | 'whole' | 'refusal'

/**
 * Servers have been seen to stream without a content type, or with `text/plain`. So if a stream was asked for, only a body
 * that is certainly not one is read whole.
 */
export function bodyKind(status: number, headers: IncomingHttpHeaders, prefersWhole: boolean): BodyKind {
  if (status > 299) return 'refusal'
  const type = contentType(headers)
  if (prefersWhole) return type.includes('event-stream') ? 'events' : 'whole'
  return type.includes('json') || type.includes('html') ? 'whole' : 'events'
}

export const contentType = (headers: IncomingHttpHeaders): string => String(headers['content-type'] ?? '').toLowerCase()

/** We asked for `identity`. Compressed bytes would look like an answer that says nothing, so this one is asked for again. */
export function checkEncoding(headers: IncomingHttpHeaders): void {
  if (!isCompressed(headers)) return
  throw new Fault('model_server_error', {
    phase: 'stream',
    facts: { detail: `it compressed its answer (${headers['content-encoding']}) although it was asked not to` },
  })
}

export function isCompressed(headers: IncomingHttpHeaders): boolean {
  const encoding = headers['content-encoding'] ?? ''
  return encoding !== '' && encoding !== 'identity'
}
