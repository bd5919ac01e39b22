/** What the turn screen shows: the sum of a session's events. Rows, not events, so its size follows what there is to see. */
import type { Cost, SessionEventOf, Usage } from '@breakfall/wire'
import type { TurnStatus } from '@breakfall/wire/turn'
import type { Json } from './shapes.ts'

/** A fault report from the wire: only a newer daemon may know its category. */
export type WireFault = SessionEventOf<'retry'>['fault']

/** A stretch of time in which something happened. `to` is null while it lasts. */
export type Span = { readonly from: number; to: number | null }

export type Part = {
  readonly key: string
  readonly kind: 'text' | 'reasoning' | 'call'
  text: string
  /** Of a tool call that is being written. */
  tool: string
  argumentsBytes: number
  /** Why it was thrown away. */
  discarded: WireFault | null
}

export type Wait = {
  readonly seq: number
  readonly at: number
  /** When the next attempt starts, by the journal. */
  readonly until: number
  /** When it really ended: a person, a signal or a restart may end it early. Null while it lasts. */
  endedAt: number | null
  readonly action: SessionEventOf<'retry'>['action']
  readonly delayMs: number
  readonly attempt: number
  readonly max: number
  readonly fault: WireFault
  readonly to: string | null
  readonly isFree: boolean
}

export type Attempt = {
  readonly step: number
  readonly n: number
  readonly spans: Span[]
  readonly parts: Part[]
  /** When the model last sent something. */
  heardAt: number | null
  state: 'waiting' | 'running' | 'failed' | 'done' | 'cut'
  fault: WireFault | null
  wait: Wait | null
  /** It continued the text of the attempt before it. */
  continues: boolean
  model: string | null
}

export type Call = {
  readonly id: string
  readonly step: number
  readonly tool: string
  readonly arguments: Json
  readonly execId: string | null
  readonly spans: Span[]
  readonly lookups: Wait[]
  output: string
  outputBytes: number
  outcome: 'running' | 'ok' | 'failed' | 'unknown' | 'cancelled'
  result: string
  exit: SessionEventOf<'tool-result'>['exit'] | null
  approval: {
    readonly why: string
    readonly expiresAt: string | null
    readonly decision: string | null
    readonly reason: string
    /** Its server asks this, and waits for the answer. */
    readonly question?: SessionEventOf<'approval-requested'>['question']
  } | null
}

export type Park = {
  readonly seq: number
  readonly step: number
  readonly at: number
  readonly resumeAt: string | null
  readonly fault: WireFault
  readonly because: string | null
  endedAt: number | null
  endedBy: string | null
}

/** The daemon was gone from `from` to `to`. */
export type Takeover = {
  readonly seq: number
  readonly step: number
  readonly from: number
  readonly to: number
  readonly epoch: number
  /** Of a fleet: the daemon that continued. */
  readonly daemon: string | null
}

/** A line between the steps: an unknown event, a compaction, a fallback, a state of the model server. */
export type Note = { readonly seq: number; readonly step: number; readonly at: number; text: string; json: unknown }

export type Step = {
  readonly n: number
  readonly startedAt: number
  readonly seq: number
  readonly attempts: Attempt[]
  readonly calls: Call[]
  readonly parks: Park[]
  readonly takeovers: Takeover[]
  readonly notes: Note[]
  /** Changes whenever anything in it does: rows compare it instead of their contents. */
  rev: number
}

/** One thing that went wrong, in the order of the journal: what n and p walk through. */
export type Scar = {
  readonly seq: number
  readonly kind: 'attempt' | 'lookup' | 'park' | 'takeover' | 'unknown' | 'end'
  readonly step: number
  readonly attempt: number | null
  readonly callId: string | null
  readonly category: string
}

export type TurnView = {
  readonly id: string
  prompt: string
  status: TurnStatus
  queuedAt: number | null
  startedAt: number | null
  endedAt: number | null
  lastSeq: number
  lastAt: number
  model: string | null
  readonly steps: Step[]
  readonly scars: Scar[]
  /** The retry that is waited for now. */
  wait: Wait | null
  park: Park | null
  fault: (WireFault & { readonly actor?: string | undefined }) | null
  end: {
    readonly text: string
    readonly usage: Usage
    readonly cost: Cost | null
    readonly finish: string | null
    readonly unproven: boolean
    readonly faultsSurvived: number
  } | null
  failures: number
  waitedMs: number
  tokens: { input: number; output: number; unknown: number }
  server: { readonly state: string; readonly line: string; readonly since: string } | null
  missingTools: readonly string[]
  rev: number
}

export type SessionFold = {
  readonly turns: TurnView[]
  readonly byId: Map<string, TurnView>
  lastSeq: number
  events: number
  rev: number
}

export const emptyFold = (): SessionFold => ({ turns: [], byId: new Map(), lastSeq: 0, events: 0, rev: 0 })

/** Whether the turn may get past it: an unknown outcome stays unknown, and an end is the end. */
export const isSurvivable = ({ kind }: Scar): boolean => kind !== 'unknown' && kind !== 'end'

/** Faults that the turn got past: what the header, the stitches and the card count. */
export const survivedIn = ({ status: { faults } }: TurnView): number => faults.met - faults.open

/** The current answer: the kept text of the last step, and `turn-end.text` once that is there. */
export function answerIn(turn: TurnView): string {
  if (turn.end !== null) return turn.end.text
  return turn.steps.at(-1)?.attempts.map(keptText).join('') ?? ''
}

export const keptText = (attempt: Attempt): string =>
  attempt.parts.map(({ kind, text, discarded }) => (kind === 'text' && discarded === null ? text : '')).join('')

export const attemptsIn = (turn: TurnView): number =>
  turn.steps.reduce((sum, step) => sum + step.attempts.filter(({ state }) => state !== 'waiting').length, 0)
