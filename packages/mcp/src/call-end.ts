/**
 * How a call ended, and what that means for its effects. Pure.
 *
 * I1  `refused` is said only if the server certainly did not run the tool. Whatever left and got no answer is `lost`.
 */
import { classify, Fault, type FaultCategory, isFault } from '@breakfall/faults'
import { isObject } from '@breakfall/faults/internal'
import {
  InsufficientScopeError,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  UnauthorizedError,
} from '@modelcontextprotocol/client'
import { firstMessage, type InputRequired } from './question.ts'
import type { TaskHandle, TrackedCall } from './tap.ts'

export type Answered = { readonly kind: 'answered'; readonly text: string; readonly isError: boolean }

export type CallEnd =
  /** The server answered. */
  | Answered
  /** It certainly did not run. */
  | { readonly kind: 'refused'; readonly fault: Fault }
  /** It may have run. */
  | { readonly kind: 'lost'; readonly fault: Fault }
  | { readonly kind: 'cancelled' }
  /** The server works on it; the handle outlives us. */
  | { readonly kind: 'task'; readonly task: TaskHandle }

/** How one request of a call ended: the server may also need something before it answers. */
export type RequestEnd = CallEnd | { readonly kind: 'asks'; readonly input: InputRequired }

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
  if (InsufficientScopeError.isInstance(thrown)) return { kind: 'refused', fault: scopeFault(thrown, callee) }
  if (UnauthorizedError.isInstance(thrown)) return refused('mcp_auth_failed', 'it asks for credentials')
  if (ProtocolError.isInstance(thrown)) {
    const { message } = thrown
    if (!call.isSent) return refused('mcp_protocol_error', messageOf(thrown))
    return { kind: 'answered', isError: true, text: message }
  }
  if (!call.isSent) return refused(away, messageOf(thrown))
  if (SdkError.isInstance(thrown)) return sdkEnd(thrown, lost, away, callee)
  if (isFault(thrown) && thrown.category === 'payload_too_large')
    return { kind: 'refused', fault: thrown.with({ sideEffects: 'none' }) }
  const classified = classify(thrown, { boundary: 'mcp', ...callee })
  const isUnsent = classified.report.phase === 'connect'
  if (isUnsent) return { kind: 'refused', fault: classified.with({ sideEffects: 'none' }) }
  return classified.category === 'other'
    ? lost(away, messageOf(thrown))
    : { kind: 'lost', fault: classified.with({ sideEffects: 'unknown' }) }
}

/** The server may have done a part of the call before it asked. `why`: why there is no answer. */
export function asksEnd(input: InputRequired, why: string): CallEnd {
  const question = firstMessage(input).slice(0, 1_000)
  const asked =
    question === ''
      ? 'its server asked for it again and again.'
      : `its server asks for input, ${why}. It asks: ${question}`
  return { kind: 'answered', isError: true, text: `This call was not completed: ${asked}` }
}

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

function scopeFault(thrown: InstanceType<typeof InsufficientScopeError>, { name }: Callee): Fault {
  const { requiredScope } = thrown
  const scope = requiredScope === undefined ? '' : ` (scope ${requiredScope.slice(0, 200)})`
  const message = {
    happened: `The MCP server ${name} needs more rights for this call than your login has${scope}.`,
    advice: `Log in again with "breakfall mcp login ${name}", which asks for them too.`,
  }
  return new Fault('mcp_auth_failed', { cause: thrown, sideEffects: 'none', facts: { name }, message })
}

/**
 * By their meaning, some answers are given before anything runs. Any other may come from a proxy that lost the server's answer, or
 * from a second server that was sent the request after the first: those do not know our session.
 */
function httpEnd(thrown: InstanceType<typeof SdkHttpError>, callee: Callee): CallEnd {
  const { status } = thrown
  const body = thrown.data['text']
  const isRefused = REFUSING.has(status) || REFUSING_CODES.has(errorCodeIn(body))
  const sideEffects = isRefused ? 'none' : 'unknown'
  const context = { boundary: 'mcp', ...callee, response: { status, body }, sideEffects } as const
  const fault = classify(thrown, context)
  if (isRefused) return { kind: 'refused', fault }
  const isSession = status === 404 || status === 400
  const message = {
    happened: `The MCP server ${callee.name} lost its session with Breakfall (HTTP ${status}).`,
    advice: '',
  }
  const lost = new Fault('mcp_unreachable', { cause: thrown, status, sideEffects, facts: callee, message })
  return { kind: 'lost', fault: isSession ? lost : fault }
}

const REFUSING: ReadonlySet<number> = new Set([401, 403, 405, 406, 413, 415, 429])

/** JSON-RPC: not parsed, not valid, no such method; MCP: wrong headers, a capability or a version that is missing. */
const REFUSING_CODES: ReadonlySet<unknown> = new Set([-32_700, -32_600, -32_601, -32_020, -32_021, -32_022])

function errorCodeIn(body: unknown): unknown {
  try {
    const message: unknown = typeof body === 'string' ? JSON.parse(body) : undefined
    return isObject(message) && isObject(message['error']) ? message['error']['code'] : undefined
  } catch {
    return undefined // it is not JSON
  }
}

function sdkEnd(
  thrown: InstanceType<typeof SdkError>,
  lost: (category: FaultCategory, detail: string) => CallEnd,
  away: FaultCategory,
  callee: Callee,
): CallEnd {
  if (isTimeout(thrown)) return { kind: 'lost', fault: timeoutFault(thrown, away, callee) }
  if (!UNUSABLE.has(thrown.code)) return lost(away, messageOf(thrown))
  const text = `The tool ran, but its server sent a result that cannot be used: ${messageOf(thrown)}`
  return { kind: 'answered', isError: true, text }
}

/** The client of the SDK has told the server to stop. */
export function timeoutFault(cause: unknown, category: FaultCategory, callee: Callee): Fault {
  const message = {
    happened: `The MCP server ${callee.name} did not answer in time; a stop request was sent.`,
    advice: `callMs of [mcp.${callee.name}] says how long a call may go without an answer or progress.`,
  }
  return new Fault(category, { cause, sideEffects: 'unknown', facts: callee, message })
}

const UNUSABLE: ReadonlySet<SdkErrorCode> = new Set([SdkErrorCode.InvalidResult, SdkErrorCode.UnsupportedResultType])
