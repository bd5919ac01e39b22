/** Failures in the words of the two APIs: as an answer with a status, and as a frame inside a stream. */
import { FAULTS, type FaultClass, type FaultReport } from '@breakfall/faults'
import { encodeSse } from '@breakfall/wire'
import type { ApiName } from './answer.ts'
import type { Refusal } from './attempt.ts'
import { clientHeaders } from './relay-request.ts'

export type ErrorAnswer = {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: string | Buffer
}

/** Our tries are spent: the server's own answer where it gave one, so that nobody's error handling has to learn a new one. */
export function errorAnswer(api: ApiName, fault: FaultReport, refusal: Refusal | undefined): ErrorAnswer {
  const status = refusal?.status ?? FAULTS[fault.category].http
  const headers: Record<string, string> =
    refusal === undefined ? { 'content-type': 'application/json' } : clientHeaders(refusal.headers)
  headers['x-breakfall-category'] = fault.category
  // The official clients try these again by themselves, which would multiply the tries already made.
  if (isRetriedByClients(status)) headers['x-should-retry'] = 'false'
  if (refusal === undefined && fault.retryAfterMs !== undefined)
    headers['retry-after'] = String(Math.ceil(fault.retryAfterMs / 1000))
  return { status, headers, body: refusal?.body ?? JSON.stringify(errorBody(api, fault)) }
}

/** An error that the server told with status 200, inside a stream or in its place: its own words, under the status they mean. */
export function toldInBand(fault: FaultReport, body: string | Buffer): Refusal {
  const headers = { 'content-type': 'application/json' }
  return { status: FAULTS[fault.category].http, headers, body: Buffer.from(body) }
}

/** The end of a stream that cannot be healed. */
export function errorFrames(api: ApiName, fault: FaultReport): string {
  const data = JSON.stringify(errorBody(api, fault))
  return api === 'openai-chat' ? encodeSse({ data }) + DONE_FRAME : encodeSse({ event: 'error', data })
}

export const DONE_FRAME = 'data: [DONE]\n\n'

export function errorBody(api: ApiName, fault: FaultReport): object {
  const { category: code, error: message } = fault
  if (api === 'openai-chat') return { error: { message, type: OPENAI_TYPE[fault.class], param: null, code } }
  return { type: 'error', error: { type: code, message } }
}

// ---- details ----

const isRetriedByClients = (status: number): boolean =>
  status === 408 || status === 409 || status === 429 || status >= 500

const OPENAI_TYPE: Readonly<Record<FaultClass, string>> = {
  transient: 'server_error',
  throttled: 'server_error',
  needs_action: 'server_error',
  invalid: 'invalid_request_error',
  cancelled: 'server_error',
  internal: 'server_error',
  unknown_outcome: 'server_error',
}
