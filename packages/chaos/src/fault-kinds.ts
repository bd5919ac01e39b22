/** The faults that a plan can inject into an HTTP exchange: one row each, with what it does and what can be set. */

export type Parameter =
  | { readonly type: 'integer'; readonly min: number; readonly max: number; readonly default: number | 'dice' }
  | { readonly type: 'choice'; readonly values: readonly string[]; readonly default: string }
  | { readonly type: 'flag'; readonly default: boolean }
  | { readonly type: 'wait'; readonly default: string }

export type KindRow = {
  /** request: nothing of the upstream's answer is used; headers: before or inside the head; body: inside the answer; after: once it is whole. */
  readonly stage: 'request' | 'headers' | 'body' | 'after'
  readonly does: string
  /** The first one is what a bare value in a plan's text sets (`stall:2000`). */
  readonly parameters: Readonly<Record<string, Parameter>>
}

/** Nothing waits for ever: a stall or a slow answer longer than this is refused when the plan is read. */
export const HOLD_MS_MAX = 600_000

const afterEvents = { type: 'integer', min: 0, max: 1_000_000, default: 'dice' } as const
const holdMs = { type: 'integer', min: 0, max: HOLD_MS_MAX, default: 30_000 } as const // a llama-server told to stop is silent for 30 s

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
    does: 'an error status is answered, with Retry-After where asked for',
    parameters: {
      status: { type: 'integer', min: 400, max: 599, default: 503 },
      retryAfter: { type: 'wait', default: '' },
    },
  },
  reset_in_headers: { stage: 'headers', does: 'the connection is reset inside the headers', parameters: {} },
  fin_in_headers: { stage: 'headers', does: 'the connection is closed inside the headers', parameters: {} },
  slow_headers: {
    stage: 'headers',
    does: 'the answer is whole, but its headers come late',
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
    does: 'the answer is whole, then the connection is closed without the last chunk',
    parameters: {},
  },
  early_end: {
    stage: 'body',
    does: 'the answer ends early as if it were whole: proper last chunk, no terminal event',
    parameters: { afterEvents },
  },
  stall: {
    stage: 'body',
    does: 'the answer falls silent, and the connection is closed after a bounded hold',
    parameters: { ms: holdMs, afterEvents },
  },
  stall_with_pings: {
    stage: 'body',
    does: 'the answer stops but for keep-alive pings, and the connection is closed after a bounded hold',
    parameters: { ms: holdMs, pingMs: { type: 'integer', min: 1, max: 60_000, default: 200 }, afterEvents },
  },
  pause: {
    stage: 'body',
    does: 'the answer falls silent for a while and then goes on: a stall that is no death',
    parameters: { ms: { type: 'integer', min: 0, max: HOLD_MS_MAX, default: 1_000 }, afterEvents },
  },
  cut_tool_arguments: {
    stage: 'body',
    does: 'the arguments of a tool call are cut, and the answer ends with or without its finish reason',
    parameters: {
      finish: { type: 'flag', default: true },
      keep: { type: 'choice', values: ['half', 'none'], default: 'half' },
    },
  },
  malformed_line: { stage: 'body', does: 'one event is cut in half, the rest follows', parameters: { afterEvents } },
  in_band_error: {
    stage: 'body',
    does: 'an error event inside a 200, in the shape of that API, then a clean end',
    parameters: {
      error: { type: 'choice', values: ['overloaded', 'server_error', 'rate_limit'], default: 'overloaded' },
      afterEvents,
    },
  },
  stale_keepalive: {
    stage: 'after',
    does: 'the answer is whole, and the next request on that connection is reset',
    parameters: {},
  },
} as const satisfies Record<string, KindRow>

export type FaultKind = keyof typeof FAULT_KINDS
export const FAULT_KIND_NAMES = Object.keys(FAULT_KINDS) as readonly FaultKind[]

/** One fault to inject. A setting that a plan leaves to the dice is absent here until `faultFor` has thrown them. */
export type ChaosFault = { readonly kind: FaultKind } & Readonly<Record<string, string | number | boolean>>

/** The kinds that act inside an answer's body. */
export type BodyKind = {
  [K in FaultKind]: (typeof FAULT_KINDS)[K]['stage'] extends 'body' ? K : never
}[FaultKind]
export type BodyFault = ChaosFault & { readonly kind: BodyKind }

/** What a plan with a rate and no list draws from: what people meet, without the ones that are mere slowness. */
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

export const isFaultKind = (name: string): name is FaultKind => Object.hasOwn(FAULT_KINDS, name)
export const isBodyFault = (fault: ChaosFault): fault is BodyFault => FAULT_KINDS[fault.kind].stage === 'body'
export const parametersOf = (kind: FaultKind): Readonly<Record<string, Parameter>> => FAULT_KINDS[kind].parameters
