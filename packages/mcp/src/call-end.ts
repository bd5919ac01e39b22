/**
 * How a call ended, and what that means for its effects. Pure.
 *
 * I1  `refused` is said only if the server certainly did not run the tool. Whatever left and got no answer is `lost`.
 */
import { classify, Fault, type FaultCategory, isFault } from '@breakfall/faults'
import { ProtocolError, SdkError, SdkErrorCode, SdkHttpError, UnauthorizedError } from '@modelcontextprotocol/client'
import type { TaskHandle, TrackedCall } from './tap.ts'

export type CallEnd =
  /** The server answered. */
  | { readonly kind: 'answered'; readonly text: string; readonly isError: boolean }
  /** It certainly did not run. */
  | { readonly kind: 'refused'; readonly fault: Fault }
  /** It may have run. */
  | { readonly kind: 'lost'; readonly fault: Fault }
  | { readonly kind: 'cancelled' }
  /** The server works on it; the handle outlives us. */
  | { readonly kind: 'task'; readonly task: TaskHandle }

/** Who was called, for messages. */
export type Callee = { readonly name: string; readonly address?: string | undefined }

export function endOf(thrown: unknown, call: TrackedCall, callee: Callee): CallEnd {
  const fault = (category: FaultCategory, detail: string, sideEffects: 'none' | 'unknown'): Fault =>
    new Fault(category, { cause: thrown, sideEffects, facts: { ...callee, detail } })
  const lost = (category: FaultCategory, detail: string): CallEnd => ({
    kind: 'lost',
    fault: fault(category, detail, 'unknown'),
  })
  const refused = (category: FaultCategory, detail: string): CallEnd => ({
    kind: 'refused',
    fault: fault(category, detail, 'none'),
  })
  const away: FaultCategory = callee.address === undefined ? 'mcp_server_failed' : 'mcp_unreachable'
  if (call.isCut) return lost(away, 'its response was cut off')
  const isUnrefreshed = isFault(thrown) && thrown.category === 'mcp_unreachable' && thrown.report.sideEffects === 'none'
  if (isUnrefreshed) return { kind: 'refused', fault: thrown } // the server refused the token, and there is no new one yet
  if (SdkHttpError.isInstance(thrown)) return httpEnd(thrown, callee)
  if (UnauthorizedError.isInstance(thrown)) return refused('mcp_auth_failed', 'it asks for credentials')
  if (ProtocolError.isInstance(thrown)) {
    const { message } = thrown
    if (!call.isSent) return refused('mcp_protocol_error', messageOf(thrown))
    return { kind: 'answered', isError: true, text: message }
  }
  if (!call.isSent) return refused(away, messageOf(thrown))
  if (SdkError.isInstance(thrown)) return sdkEnd(thrown, lost, away)
  if (isFault(thrown) && thrown.category === 'payload_too_large')
    return { kind: 'answered', isError: true, text: `This was not run: ${thrown.error}` }
  const classified = classify(thrown, { boundary: 'mcp', ...callee })
  const isUnsent = classified.report.phase === 'connect'
  if (isUnsent) return { kind: 'refused', fault: classified.with({ sideEffects: 'none' }) }
  return classified.category === 'other'
    ? lost(away, messageOf(thrown))
    : { kind: 'lost', fault: classified.with({ sideEffects: 'unknown' }) }
}

/** The server does not know our session any more, so it has not run anything. */
export const isSessionLost = (thrown: unknown): boolean => SdkHttpError.isInstance(thrown) && thrown.status === 404

/** The call took too long, and says nothing about the connection. */
export const isTimeout = (thrown: unknown): boolean =>
  SdkError.isInstance(thrown) && thrown.code === SdkErrorCode.RequestTimeout

/** The server answered, and what it said cannot be used. */
export const isWrongAnswer = (thrown: unknown): boolean =>
  ProtocolError.isInstance(thrown) ||
  (SdkError.isInstance(thrown) && !SdkHttpError.isInstance(thrown) && !ABOUT_THE_LINE.has(thrown.code)) ||
  (thrown instanceof Error && thrown.name === 'ZodError')

// ---- details ----

const ABOUT_THE_LINE: ReadonlySet<SdkErrorCode> = new Set([
  SdkErrorCode.RequestTimeout,
  SdkErrorCode.ConnectionClosed,
  SdkErrorCode.NotConnected,
  SdkErrorCode.SendFailed,
])

const DETAIL_CHARS = 300

/** On one line: the SDK's messages contain indented JSON. */
export const messageOf = (thrown: unknown): string =>
  (thrown instanceof Error ? thrown.message : String(thrown)).replace(/\s+/g, ' ').slice(0, DETAIL_CHARS)

/** A server that answers 4xx has refused the request. After a 5xx, nobody knows what happened behind a proxy. */
function httpEnd(thrown: InstanceType<typeof SdkHttpError>, callee: Callee): CallEnd {
  const { status } = thrown
  const sideEffects = status < 500 ? 'none' : 'unknown'
  const context = { boundary: 'mcp', ...callee, response: { status, body: thrown.data['text'] }, sideEffects } as const
  const fault = classify(thrown, context)
  return { kind: status < 500 ? 'refused' : 'lost', fault }
}

function sdkEnd(
  thrown: InstanceType<typeof SdkError>,
  lost: (category: FaultCategory, detail: string) => CallEnd,
  away: FaultCategory,
): CallEnd {
  if (isTimeout(thrown)) return lost(away, 'it did not answer in time')
  if (!UNUSABLE.has(thrown.code)) return lost(away, messageOf(thrown))
  const text = `The tool ran, but its server sent a result that cannot be used: ${messageOf(thrown)}`
  return { kind: 'answered', isError: true, text }
}

const UNUSABLE: ReadonlySet<SdkErrorCode> = new Set([
  SdkErrorCode.InvalidResult,
  SdkErrorCode.UnsupportedResultType,
  SdkErrorCode.InputRequiredRoundsExceeded,
])
