/**
 * Gives a thrown value, or an HTTP error response, its category. By boundary and phase first, then the typed cause, then
 * the HTTP status, and text last.
 *
 * I1  Never throws and never loses the cause, for any input.
 * I2  Our own signal decides whether it is a cancel, never an error's name: a provider's AbortError is not the user's cancel.
 * I3  The same cause at another boundary is another category: a refused connection to a model is not an unreachable runner.
 */
import { causeChain, type CauseLink, describeCause } from './cause.ts'
import { extended, Fault } from './fault.ts'
import { type Facts } from './messages.ts'
import { fromProblem } from './problem.ts'
import { isReadable, read } from './read.ts'
import { redactStart } from './redact.ts'
import type { FaultIds, FaultInit, SideEffects } from './report.ts'
import { isFault } from './reported-fault.ts'
import { headerOf, type HeaderSource, retryAfterMs } from './retry-after.ts'
import { bodyRetryMs, statusCategory } from './status.ts'
import { type Boundary, type FaultCategory } from './categories.ts'
import { failedToConnect, type TransportKind, transportKind } from './transport.ts'

export type ClassifyContext = FaultIds & {
  readonly boundary: Boundary
  /** How far the call got: `connect`, `headers`, `stream`, `spawn`, … */
  readonly phase?: string | undefined
  /** The caller's signal. If it is aborted, the caller wanted the end, and its reason says why. */
  readonly signal?: AbortSignal | undefined
  /** The error response, if there was one. */
  readonly response?: ResponseEvidence | undefined
  readonly address?: string | undefined
  readonly name?: string | undefined
  readonly afterMs?: number | undefined
  readonly sideEffects?: SideEffects | undefined
  /** For `Retry-After` as a date. */
  readonly now?: number | undefined
}

export type ResponseEvidence = {
  readonly status: number
  readonly headers?: HeaderSource | undefined
  /** Parsed JSON, or text, of which the first 4 KiB are kept. */
  readonly body?: unknown
}

export function classify(thrown: unknown, context: ClassifyContext): Fault {
  try {
    return classified(thrown, context)
  } catch (bug) {
    return new Fault('other', {
      cause: thrown,
      boundary: context.boundary,
      errorRaw: `${describeCause(thrown)}; while classifying: ${describeCause(bug)}`,
    }) // I1
  }
}

// ---- details, in the order they are used above ----

function classified(thrown: unknown, context: ClassifyContext): Fault {
  if (context.signal?.aborted === true) return ended(thrown, context.signal.reason, context) // I2
  if (isFault(thrown)) return extended(thrown, idsOf(context), thrown.cause)
  if (context.response !== undefined) return refused(thrown, context.response, context)
  const chain = causeChain(thrown)
  const kind = transportKind(chain)
  const phase = phaseOf(chain, context.phase)
  const address = context.address ?? chain.find((link) => link.address !== undefined)?.address
  const category = kind === undefined ? 'other' : transportCategory(kind, context.boundary, phase)
  const detail = kind === undefined ? undefined : KIND_TEXT[kind]
  return new Fault(category, { ...base(thrown, context), phase, facts: { ...factsOf(context), address, detail } })
}

/** A caller of `fetch` cannot tell connecting from waiting for headers; the failed system call can. */
function phaseOf(chain: readonly CauseLink[], known: string | undefined): string | undefined {
  if ((known === undefined || known === 'headers') && failedToConnect(chain)) return 'connect'
  if (known !== undefined) return known
  // Node's fetch throws one of two errors: before the headers, or after them.
  const outer = chain[0]
  if (outer?.name !== 'TypeError') return undefined
  return outer.message === 'terminated' ? 'stream' : outer.message === 'fetch failed' ? 'headers' : undefined
}

/** The signal is aborted. If its reason is a Fault, one of our limits ended the call; a TimeoutError is a deadline; all else is a cancel. */
function ended(thrown: unknown, reason: unknown, context: ClassifyContext): Fault {
  if (isFault(reason)) {
    const phase = reason.report.phase ?? context.phase
    return extended(reason, { ...idsOf(context), phase }, reason.cause ?? thrown)
  }
  const timedOut = isReadable(reason) && read(reason, 'name') === 'TimeoutError'
  const cause = thrown === undefined || thrown === null ? reason : thrown
  return new Fault(timedOut ? 'deadline_exceeded' : 'cancelled', {
    ...base(cause, context),
    errorRaw: describeCause(reason ?? thrown),
  })
}

function refused(thrown: unknown, response: ResponseEvidence, context: ClassifyContext): Fault {
  const { status, headers } = response
  const requestId =
    context.requestId ?? (headers && (headerOf(headers, 'x-request-id') ?? headerOf(headers, 'request-id')))
  const problem = fromProblem(response.body)
  if (problem !== undefined) return extended(problem, { ...idsOf(context), status }, thrown)
  const { category, detail, isLoading = false, historyCause } = statusCategory(response, context.boundary)
  return new Fault(category, {
    ...base(thrown, context),
    phase: isLoading ? 'loading' : (context.phase ?? 'headers'),
    message: isLoading ? { happened: 'The model server is still loading its model.' } : undefined,
    errorRaw: `HTTP ${status} ${redactStart(bodyText(response.body, thrown), BODY_CHARS_MAX)}`.trim(),
    status,
    reason: historyCause,
    retryAfterMs: retryAfterMs(headers, context.now ?? Date.now()) ?? bodyRetryMs(response.body),
    requestId,
    facts: { ...factsOf(context), status, detail },
  })
}

const BODY_CHARS_MAX = 4096

/** The body's text, or what was thrown if there is no body. */
function bodyText(body: unknown, thrown: unknown): string {
  if (typeof body === 'string') return body
  if (body === undefined || body === null) return thrown === undefined ? '' : describeCause(thrown)
  try {
    return JSON.stringify(body) ?? ''
  } catch {
    return describeCause(body) // I1: cyclic, or a toJSON that throws
  }
}

function transportCategory(kind: TransportKind, boundary: Boundary, phase: string | undefined): FaultCategory {
  if (kind === 'disk_full' || (kind === 'disk_broken' && boundary === 'journal')) return 'journal_full'
  if (kind === 'corrupt' || kind === 'disk_broken') return boundary === 'journal' ? 'journal_corrupt' : 'other'
  switch (boundary) {
    case 'model':
      return MODEL_CATEGORY[kind](phase)
    case 'runner':
      return isWrongServer(kind, phase) ? 'runner_protocol_error' : 'runner_unreachable' // I3
    case 'process':
      return 'process_failed'
    case 'daemon':
      return isWrongServer(kind, phase) ? 'other' : 'daemon_unreachable'
    case 'mcp':
      return isWrongServer(kind, phase) ? 'mcp_protocol_error' : 'mcp_unreachable'
    case 'box':
    case 'client':
    case 'journal':
      return 'other'
  }
}

type NetworkKind = Exclude<TransportKind, 'disk_full' | 'disk_broken' | 'corrupt'>

const MODEL_CATEGORY: Readonly<Record<NetworkKind, (phase: string | undefined) => FaultCategory>> = {
  refused: () => 'model_unreachable',
  no_route: () => 'network_down',
  name_unknown: () => 'model_unreachable',
  name_unresolved: () => 'model_unreachable',
  connect_timeout: () => 'model_unreachable',
  headers_timeout: () => 'model_stream_stalled',
  body_timeout: () => 'model_stream_stalled',
  broken: (phase) => (phase === 'connect' ? 'model_unreachable' : 'model_stream_interrupted'),
  // In mid-body, undici reports the reset of a chunked answer as a parser error; before that, something else answered.
  not_http: (phase) => (phase === 'stream' ? 'model_stream_interrupted' : 'model_server_error'),
  untrusted: () => 'model_endpoint_invalid',
  wrong_protocol: (phase) => (phase === 'stream' ? 'model_stream_interrupted' : 'model_endpoint_invalid'),
  bad_address: () => 'model_endpoint_invalid',
}

/** Something else answered, or the address cannot be called at all. In mid-stream it is a break: the right server had answered. */
const isWrongServer = (kind: TransportKind, phase: string | undefined): boolean =>
  kind === 'untrusted' ||
  kind === 'bad_address' ||
  ((kind === 'wrong_protocol' || kind === 'not_http') && phase !== 'stream')

const KIND_TEXT: Readonly<Record<TransportKind, string>> = {
  refused: 'the connection was refused',
  no_route: 'there is no route',
  name_unknown: 'its name is unknown',
  name_unresolved: 'its name could not be looked up: there is no network, or no name server answers',
  connect_timeout: 'the connection took too long',
  headers_timeout: 'no answer came in time',
  body_timeout: 'the answer stopped',
  broken: 'the connection broke',
  not_http: 'the answer is not HTTP',
  untrusted: 'its certificate is not trusted',
  wrong_protocol: 'it does not speak TLS as expected',
  bad_address: 'the address is not valid',
  disk_full: 'the disk is full',
  disk_broken: 'the disk cannot be written',
  corrupt: 'the file is damaged',
}

function base(cause: unknown, context: ClassifyContext): FaultInit {
  return {
    ...idsOf(context),
    cause,
    boundary: context.boundary,
    phase: context.phase,
    sideEffects: context.sideEffects,
  }
}

function idsOf(context: ClassifyContext): FaultIds {
  const { turnId, stepId, callId, execId, boxId, boxState, requestId } = context
  return { turnId, stepId, callId, execId, boxId, boxState, requestId }
}

function factsOf(context: ClassifyContext): Facts {
  return { address: context.address, name: context.name, afterMs: context.afterMs, boxState: context.boxState }
}
