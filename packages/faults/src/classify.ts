/**
 * Gives a thrown value, or a refusing HTTP answer, its category. By boundary and phase first, then the typed cause, then
 * the HTTP status, and text last.
 *
 * I1  Never throws and never loses the cause, whatever it is given.
 * I2  Cancelled is decided from our own signal, never from an error's name: a provider's AbortError is not the user's cancel.
 * I3  The same cause at another boundary is another category: a refused connection to a model is no unreachable runner.
 */
import { causeChain, describeCause, isObject, read } from './cause.ts'
import { Fault, type FaultIds, type FaultInit, isFault, type SideEffects } from './fault.ts'
import { type Facts } from './messages.ts'
import { fromProblem } from './problem.ts'
import { headerOf, type HeaderSource, retryAfterMs } from './retry-after.ts'
import { statusCategory } from './status.ts'
import { type Boundary, type FaultCategory } from './table.ts'
import { failedToConnect, type TransportKind, transportKind } from './transport.ts'

export type ClassifyContext = FaultIds & {
  readonly boundary: Boundary
  /** How far it had got: `connect`, `headers`, `stream`, `spawn`, … */
  readonly phase?: string | undefined
  /** Our own signal. Aborted means: we wanted the end, and its reason says why. */
  readonly signal?: AbortSignal | undefined
  /** The answer that was refused, where there was one. */
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
      errorRaw: `${describeCause(thrown)}; while classifying: ${describeCause(bug)}`,
    }) // I1
  }
}

// ---- details, in the order they are used above ----

function classified(thrown: unknown, context: ClassifyContext): Fault {
  if (context.signal?.aborted === true) return ended(thrown, context.signal.reason, context) // I2
  if (isFault(thrown)) return thrown.with(idsOf(context))
  if (context.response !== undefined) return refused(thrown, context.response, context)
  const chain = causeChain(thrown)
  const kind = transportKind(thrown, chain)
  const phase = context.phase ?? (failedToConnect(chain) ? 'connect' : undefined)
  const address = context.address ?? chain.find((link) => link.address !== undefined)?.address
  const category = kind === undefined ? 'other' : transportCategory(kind, context.boundary, phase)
  const detail = kind === undefined ? undefined : KIND_WORDS[kind]
  return new Fault(category, { ...base(thrown, context), phase, facts: { ...factsOf(context), address, detail } })
}

/** Our signal is aborted. A reason that is a Fault is one of our own clocks; a TimeoutError is a deadline; all else is a cancel. */
function ended(thrown: unknown, reason: unknown, context: ClassifyContext): Fault {
  if (isFault(reason)) return reason.with({ ...idsOf(context), phase: reason.report.phase ?? context.phase })
  const timedOut = isObject(reason) && read(reason, 'name') === 'TimeoutError'
  const cause = thrown === undefined || thrown === null ? reason : thrown
  return new Fault(timedOut ? 'deadline_exceeded' : 'cancelled', {
    ...base(cause, context),
    errorRaw: describeCause(reason ?? thrown),
  })
}

function refused(thrown: unknown, response: ResponseEvidence, context: ClassifyContext): Fault {
  const problem = fromProblem(response.body)
  if (problem !== undefined) return problem.with({ ...idsOf(context), status: response.status })
  const { category, detail } = statusCategory(response, context.boundary)
  const body = typeof response.body === 'string' ? response.body : JSON.stringify(response.body ?? '')
  const requestId =
    response.headers && (headerOf(response.headers, 'x-request-id') ?? headerOf(response.headers, 'request-id'))
  return new Fault(category, {
    ...base(thrown, context),
    phase: context.phase ?? 'headers',
    errorRaw: `HTTP ${response.status} ${body.slice(0, 4096)}`.trim(),
    status: response.status,
    retryAfterMs: retryAfterMs(response.headers, context.now ?? Date.now()),
    requestId: context.requestId ?? requestId,
    facts: { ...factsOf(context), status: response.status, detail },
  })
}

function transportCategory(kind: TransportKind, boundary: Boundary, phase: string | undefined): FaultCategory {
  if (kind === 'disk_full' || (kind === 'disk_broken' && boundary === 'journal')) return 'journal_full'
  if (kind === 'corrupt' || kind === 'disk_broken') return boundary === 'journal' ? 'journal_corrupt' : 'other'
  switch (boundary) {
    case 'model':
      return MODEL_CATEGORY[kind](phase)
    case 'runner':
      return isConfiguration(kind) || kind === 'not_http' ? 'runner_protocol_error' : 'runner_unreachable' // I3
    case 'process':
      return 'process_failed'
    case 'daemon':
      return isConfiguration(kind) ? 'other' : 'daemon_unreachable'
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
  // Mid-body, the parser's complaint is how undici shows a reset of a chunked answer; before that somebody else answered.
  not_http: (phase) => (phase === 'stream' ? 'model_stream_interrupted' : 'model_server_error'),
  untrusted: () => 'model_endpoint_invalid',
  wrong_protocol: () => 'model_endpoint_invalid',
  bad_address: () => 'model_endpoint_invalid',
}

const isConfiguration = (kind: TransportKind): boolean =>
  kind === 'untrusted' || kind === 'wrong_protocol' || kind === 'bad_address'

const KIND_WORDS: Readonly<Record<TransportKind, string>> = {
  refused: 'the connection was refused',
  no_route: 'there is no route',
  name_unknown: 'its name is unknown',
  name_unresolved: 'its name could not be looked up',
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
