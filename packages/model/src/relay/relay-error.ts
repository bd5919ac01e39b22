/** Failures in the terms of the client's API: as a response with a status, and as frames inside a stream. */
import { FAULTS, type FaultReport } from '@breakfall/faults'
import type { Refusal } from '../attempt/attempt.ts'
import { DIALECTS } from '../dialects/dialects.ts'
import type { RelayApiName } from '../contract/names.ts'
import { clientHeaders } from './relay-request.ts'
import type { RepairNote } from '../repair/request-repair.ts'
import type { ReturnedHeaders } from './relay.ts'

export type ErrorAnswer = {
  readonly status: number
  readonly headers: ReturnedHeaders
  readonly body: string | Buffer
}

/** The server's own answer if it gave one, because the client's error handling knows it. */
export function errorAnswer(api: RelayApiName, fault: FaultReport, refusal: Refusal | undefined): ErrorAnswer {
  const status = refusal?.status ?? FAULTS[fault.category].http
  const headers: Record<string, string | readonly string[]> =
    refusal === undefined ? { 'content-type': 'application/json' } : clientHeaders(refusal.headers)
  headers['x-breakfall-category'] = fault.category
  // The official clients would retry these themselves and multiply the attempts already made. If the server was only away, a
  // client may keep waiting for it: that costs nothing.
  if (isRetriedByClients(status) && fault.stopped !== 'patience_spent') headers['x-should-retry'] = 'false'
  if (refusal === undefined && fault.retryAfterMs !== undefined)
    headers['retry-after'] = String(Math.ceil(fault.retryAfterMs / 1000))
  return { status, headers, body: refusal?.body ?? JSON.stringify(DIALECTS[api].errorBody(fault)) }
}

/** What was repaired, as the client's developer reads it: `call_without_result; messages.12`. */
export function repairHeaders(notes: readonly RepairNote[], isUnrepairable = false): ReturnedHeaders {
  if (isUnrepairable) return { 'x-breakfall-repair': 'failed' }
  if (notes.length === 0) return {}
  return { 'x-breakfall-repaired': notes.map(({ cause, place }) => `${cause}; ${place}`).join(', ') }
}

/** An error that the server reported with status 200, under the status that it means. */
export function inBandRefusal(fault: FaultReport, body: string | Buffer): Refusal {
  const headers = { 'content-type': 'application/json' }
  return { status: FAULTS[fault.category].http, headers, body: Buffer.from(body) }
}

/** The end of a stream that cannot be healed. */
export function errorFrames(api: RelayApiName, fault: FaultReport): string {
  const dialect = DIALECTS[api]
  return dialect.errorFrames(dialect.errorBody(fault))
}

/** However an answer broke, a client that holds a part of it reads one code: the message says what happened. */
export const asBreak = (fault: FaultReport): FaultReport =>
  isFinal(fault) ? fault : { ...fault, category: 'model_stream_interrupted' }

/** The same request would fail again. */
export const isFinal = ({ class: of }: FaultReport): boolean => of !== 'transient' && of !== 'throttled'

// ---- details ----

const isRetriedByClients = (status: number): boolean =>
  status === 408 || status === 409 || status === 429 || status >= 500
