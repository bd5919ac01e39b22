/** What a session's journal adds up to. A value; only `reduce` makes the next one. */
import type { FaultReport, Policy } from '@breakfall/faults'
import type { AnswerState, ShownPart } from '@breakfall/model'
import type { SessionEventOf, Usage } from '@breakfall/wire'
import type { CancelRequest } from '../store/store.ts'

export type SessionFold = {
  /** The conversation as a model is told it, oldest first. */
  readonly entries: readonly Entry[]
  /** Calls whose results were dropped to make room. */
  readonly dropped: ReadonlySet<string>
  readonly turn: TurnFold | null
  readonly queue: readonly QueuedTurn[]
  /** The turn that ended last, for whoever asks right after. */
  readonly ended: EndedTurn | null
}

export type Entry =
  | { readonly role: 'user'; readonly text: string }
  | { readonly role: 'assistant'; readonly text: string; readonly calls: readonly ToolCallRequest[] }
  | { readonly role: 'tool'; readonly callId: string; readonly text: string }

export type ToolCallRequest = {
  readonly callId: string
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
}

export type QueuedTurn = { readonly id: string; readonly prompt: string; readonly at: string }

export type TurnFold = {
  readonly id: string
  readonly prompt: string
  readonly startedAt: string
  readonly step: number
  /** The answer machine's state: which model, which attempt, what is shown, and the turn's budget. */
  readonly answer: AnswerState
  /** The current step's tool calls, in order. */
  readonly calls: readonly ToolCall[]
  readonly parked: Parked | null
  /** Not before this moment, where a pause between tries is under way. */
  readonly retryAt: number | null
  readonly usage: Usage
  /** All that the turn has met; at its good end it has survived them. */
  readonly faultsSurvived: number
  /** Those among them after which it has not got on yet. */
  readonly faultsOpen: number
  /** Times that a daemon died on this turn since it last got anywhere. */
  readonly takeovers: number
}

/** How far into an exec's own events the journal reaches: all up to a seq, and of those after it the bytes before an offset. */
export type ExecPosition = {
  readonly execSeq: number
  readonly execOffsets: { readonly stdout?: number | undefined; readonly stderr?: number | undefined }
}

export type ToolCall = ToolCallRequest &
  ExecPosition & {
    readonly step: number
    readonly execId: string
    /** What the journal holds of its output. */
    readonly output: string
    readonly result: SessionEventOf<'tool-result'> | null
  }

export type Parked = { readonly fault: FaultReport; readonly since: string; readonly resumeAt: string | null }

export type EndedTurn = {
  readonly turn: TurnFold | QueuedTurn
  readonly end: SessionEventOf<'turn-end'> | SessionEventOf<'turn-error'>
}

/** What the engine is to do. Exactly one thing; what came of it is in the journal when it asks again. */
export type Command =
  | { readonly do: 'rest' }
  | { readonly do: 'start'; readonly turn: QueuedTurn }
  | { readonly do: 'cancel'; readonly cancel: CancelRequest; readonly open: readonly ToolCall[] }
  | { readonly do: 'fail'; readonly why: 'crash_loop' | 'steps_spent' | 'deadline'; readonly open: readonly ToolCall[] }
  | { readonly do: 'stay-parked'; readonly parked: Parked }
  | { readonly do: 'pause'; readonly until: number }
  | { readonly do: 'discard'; readonly parts: readonly ShownPart[] }
  | { readonly do: 'begin-step'; readonly step: number }
  | { readonly do: 'answer'; readonly step: number; readonly attempt: number }
  | { readonly do: 'call'; readonly call: ToolCall }

/** What `next` reads besides the fold. */
export type Circumstances = {
  readonly policy: Policy
  /** A request to end the current turn, not yet carried out. */
  readonly cancel: CancelRequest | null
  readonly now: number
}

export const EMPTY_FOLD: SessionFold = { entries: [], dropped: new Set(), turn: null, queue: [], ended: null }

/** No model was asked yet. */
export const NO_USAGE: Usage = {
  inputTokens: { value: 0, quality: 'known' },
  outputTokens: { value: 0, quality: 'known' },
}

/** A model was asked, and nobody knows what that has used. */
export const UNCOUNTED: Usage = {
  inputTokens: { value: null, quality: 'unknown' },
  outputTokens: { value: null, quality: 'unknown' },
}
