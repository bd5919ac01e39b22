/** The faults that a plan can inject into an HTTP exchange: one row each, with its effect and its settings. */

export type Parameter =
  | { readonly type: 'integer'; readonly min: number; readonly max: number; readonly default: number | 'seeded' }
  | { readonly type: 'choice'; readonly values: readonly string[]; readonly default: string }
  | { readonly type: 'flag'; readonly default: boolean }
  | { readonly type: 'wait'; readonly default: string }

export type KindRow = {
  /** When it acts. request: the upstream's answer is not used; headers: before or inside the headers; body: inside the answer; after: once it is complete. */
  readonly stage: 'request' | 'headers' | 'body' | 'after'
  readonly does: string
  /** A value without a name in a one-line plan sets the first one (`stall:2000`). */
  readonly parameters: Readonly<Record<string, Parameter>>
}

/** Plans with a longer stall or delay than this are refused. */
export const HOLD_MS_MAX = 600_000

const afterEvents = { type: 'integer', min: 0, max: 1_000_000, default: 'seeded' } as const
const holdMs = { type: 'integer', min: 0, max: HOLD_MS_MAX, default: 30_000 } as const // a llama-server that is shutting down is silent for 30 s

export const FAULT_KINDS = {
  reset_before_headers: { stage: 'request', does: 'the connection is reset before any answer', parameters: {} },
  fin_before_headers: { stage: 'request', does: 'the connection is closed before any answer', parameters: {} },
  refuse: {
    stage: 'request',
    does: 'the connection is reset and the port refuses connections for a while',
    parameters: { ms: { type: 'integer', min: 1, max: HOLD_MS_MAX, default: 300 } },
  },
  status: {
    stage: 'request',
    does: 'an error status, with Retry-After if set',
    parameters: {
      status: { type: 'integer', min: 400, max: 599, default: 503 },
      retryAfter: { type: 'wait', default: '' },
    },
  },
  reset_in_headers: { stage: 'headers', does: 'the connection is reset inside the headers', parameters: {} },
  fin_in_headers: { stage: 'headers', does: 'the connection is closed inside the headers', parameters: {} },
  slow_headers: {
    stage: 'headers',
    does: 'the answer is complete, but its headers come late',
    parameters: { ms: { type: 'integer', min: 0, max: HOLD_MS_MAX, default: 1_000 } },
  },
  reset: { stage: 'body', does: 'the connection is reset inside the answer', parameters: { afterEvents } },
  fin: {
    stage: 'body',
    does: 'the connection is closed inside the answer, without the last chunk',
    parameters: { afterEvents },
  },
  missing_last_chunk: {
    stage: 'body',
    does: 'the answer is complete, then the connection is closed without the last chunk',
    parameters: {},
  },
  early_end: {
    stage: 'body',
    does: 'the answer ends early but cleanly: with the last chunk, without its terminal event',
    parameters: { afterEvents },
  },
  stall: {
    stage: 'body',
    does: 'the answer goes silent, then the connection is closed',
    parameters: { ms: holdMs, afterEvents },
  },
  stall_with_pings: {
    stage: 'body',
    does: 'only keep-alive pings arrive, then the connection is closed',
    parameters: { ms: holdMs, pingMs: { type: 'integer', min: 1, max: 60_000, default: 200 }, afterEvents },
  },
  pause: {
    stage: 'body',
    does: 'the answer goes silent for a while, then continues',
    parameters: { ms: { type: 'integer', min: 0, max: HOLD_MS_MAX, default: 1_000 }, afterEvents },
  },
  cut_tool_arguments: {
    stage: 'body',
    does: 'the arguments of a tool call are cut, with or without the finish reason',
    parameters: {
      finish: { type: 'flag', default: true },
      keep: { type: 'choice', values: ['half', 'none'], default: 'half' },
      ending: { type: 'choice', values: ['end', 'reset'], default: 'end' },
    },
  },
  malformed_line: {
    stage: 'body',
    does: 'one event is cut in half, then the rest follows',
    parameters: { afterEvents },
  },
  in_band_error: {
    stage: 'body',
    does: 'an error event inside a 200, in the format of that API, then a clean end',
    parameters: {
      error: { type: 'choice', values: ['overloaded', 'server_error', 'rate_limit'], default: 'overloaded' },
      afterEvents,
    },
  },
  stale_keepalive: {
    stage: 'after',
    does: 'the answer is complete, but the next request on that connection is reset',
    parameters: {},
  },
} as const satisfies Record<string, KindRow>

export type FaultKind = keyof typeof FAULT_KINDS
export const FAULT_KIND_NAMES: readonly FaultKind[] = Object.keys(FAULT_KINDS).filter(isFaultKind)

/** One fault to inject. Settings that a plan leaves to the seed are missing until `faultFor` fills them in. */
export type ChaosFault = { readonly kind: FaultKind } & Readonly<Record<string, string | number | boolean>>

/** The kinds that act inside an answer's body. */
export type BodyKind = {
  [K in FaultKind]: (typeof FAULT_KINDS)[K]['stage'] extends 'body' ? K : never
}[FaultKind]
export type BodyFault = ChaosFault & { readonly kind: BodyKind }

/** What a plan with a rate and no list picks from: the faults people meet, without mere slowness. */
export const COMMON_FAULTS: readonly FaultKind[] = [
  'reset_before_headers',
  'fin_before_headers',
  'status',
  'reset',
  'fin',
  'early_end',
  'stall',
  'cut_tool_arguments',
  'malformed_line',
  'in_band_error',
]

export function isFaultKind(name: string): name is FaultKind {
  return Object.hasOwn(FAULT_KINDS, name)
}
export const isBodyFault = (fault: ChaosFault): fault is BodyFault => FAULT_KINDS[fault.kind].stage === 'body'
export const parametersOf = (kind: FaultKind): Readonly<Record<string, Parameter>> => FAULT_KINDS[kind].parameters
