/** The state that a session's journal folds into. Immutable; only `reduce` makes a new one. */
import type { FaultReport, Policy } from '@breakfall/faults'
import type { ToolSpec } from '@breakfall/model'
import type { AnswerState, ShownPart } from '@breakfall/model/internal'
import type { AnswerValue, ApprovalDecision, CallQuestion, SessionEventOf, TurnProvider, Usage } from '@breakfall/wire'
import type { TurnRecord, TurnStatus, Wait } from '@breakfall/wire/turn'
import type { CancelRequest } from '../rows.ts'
import type { CostSum } from './cost.ts'

export type SessionFold = {
  /** The conversation as the model reads it, oldest first. */
  readonly entries: readonly Entry[]
  /** What is known about how much the model can read. */
  readonly window: WindowFacts
  /** The system prompt of the last turn that started; null before the first, and in journals that do not have it. */
  readonly system: string | null
  readonly turn: TurnFold | null
  readonly queue: readonly QueuedTurn[]
  /** Tools that a person allowed for the rest of the session. */
  readonly allowedTools: readonly string[]
  /** The turn that ended last, for requests right after its end. */
  readonly ended: EndedTurn | null
}

export type Entry = EntryPlace &
  (
    | { readonly role: 'user'; readonly text: string }
    | { readonly role: 'assistant'; readonly text: string; readonly calls: readonly ToolCallRequest[] }
    /** `isNote`: the result was dropped to make room, and the text says so. */
    | { readonly role: 'tool'; readonly callId: string; readonly text: string; readonly isNote?: true }
    /** Stands for all steps before it. */
    | { readonly role: 'summary'; readonly text: string }
  )

/** Where an entry came from: the event that made it, its turn, and its step. */
export type EntryPlace = { readonly seq: number; readonly turnId: string; readonly step: number }

export type ToolCallRequest = {
  readonly callId: string
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
}

/** What was learned about the window from the journal. */
export type WindowFacts = {
  /** Tokens per byte of a request, as a server counted last. */
  readonly tokensPerByte: number | null
  /** The last model that refused a request for its length. */
  readonly refused: {
    readonly model: string
    /** The smallest request that it refused. */
    readonly bytes: number
    /** What it said that it can read. */
    readonly tokens: number | null
  } | null
}

export const NOTHING_LEARNED: WindowFacts = { tokensPerByte: null, refused: null }

/** What the engine knows about the request besides the conversation. */
export type RequestFacts = {
  readonly model: string
  /** Tokens that the model can read, as configured. */
  readonly contextTokens: number | null
  /** Size of the system prompt and the tools. */
  readonly fixedBytes: number
}

/** The tools that a session's model is offered. */
export type OfferedTools = {
  readonly specs: readonly ToolSpec[]
  /** Marks the definition of each tool of an MCP server. */
  readonly definitions: ReadonlyMap<string, string>
}

/** How the conversation becomes shorter. */
export type CompactionPlan = {
  /** Calls whose results become short notes. */
  readonly results: readonly string[]
  readonly summary: SummaryPlan | null
  readonly fromStep: number
  readonly toStep: number
  readonly requestBytes: number
}

export type SummaryPlan = {
  /** What it summarises: oldest first, notes in place of dropped results. */
  readonly entries: readonly Entry[]
  readonly upToSeq: number
  readonly bytesMax: number
  /** The longest request that may ask for it. */
  readonly requestBytesMax: number
}

export type QueuedTurn = {
  readonly id: string
  readonly prompt: string
  readonly at: string
  /** It waits for the turn of another session in the same folder. */
  readonly isBehind: boolean
  /** Of the event that queued it. */
  readonly seq: number
  readonly traceparent: string | undefined
}

export type TurnFold = {
  readonly id: string
  readonly prompt: string
  /** The model and the provider that the turn started with. Null in journals of earlier versions. */
  readonly model: string | null
  readonly provider: TurnProvider | null
  /** The turn's first span. Undefined if nobody traces it. */
  readonly traceparent: string | undefined
  readonly startedAt: string
  readonly step: number
  /** The step at which the turn last got all its steps: 0, or the one at which a person resumed it. */
  readonly stepsFrom: number
  /** The last call that was its step's only one, with its result, as a digest, and how often it came in a row. Outlives a compaction. */
  readonly repeated: { readonly call: string; readonly times: number }
  /** The model refused the last request for its length. */
  readonly isTooLong: boolean
  /** The conversation was shortened in this step. */
  readonly isCompacted: boolean
  /** The answer machine's state: which model, which attempt, what is shown, and the turn's budget. */
  readonly answer: AnswerState
  /** The current step's tool calls, in order. */
  readonly calls: readonly ToolCall[]
  readonly parked: Parked | null
  readonly usage: Usage
  readonly cost: CostSum
  readonly status: TurnStatus
  readonly record: TurnRecord
  /** How often a daemon died on this turn since it last made progress. */
  readonly takeovers: number
}

/** How far the journal reaches into an exec's own events: all up to a seq, and of later events the bytes before an offset. */
export type ExecPosition = {
  readonly execSeq: number
  readonly execOffsets: { readonly stdout?: number | undefined; readonly stderr?: number | undefined }
}

export type ToolCall = ToolCallRequest &
  ExecPosition & {
    readonly step: number
    readonly execId: string
    /** The part of its output that is in the journal. */
    readonly output: string
    readonly result: SessionEventOf<'tool-result'> | null
    /** The definition of the tool that the model was shown. */
    readonly definition: string | undefined
    /** Its span. Undefined without an SDK: then the turn's span stands for it. */
    readonly traceparent: string | undefined
    /** How often it left for a server of tools, and what the server calls it. */
    readonly sent: { readonly times: number; readonly taskId: string | undefined }
    readonly approval: Approval | null
    /** The file that it writes, before and after, once it has left. */
    readonly file: FileNote | undefined
    /** Without `file` it has certainly not written. False in journals of earlier versions. */
    readonly notesFile: boolean
  }

/** What a file is and what it will be, as hashes: `before` is null if there is none. */
export type FileNote = NonNullable<SessionEventOf<'tool-output'>['file']>

/** A question to a person about one call, and the answer. */
export type Approval = {
  readonly why: string
  readonly expiresAt: string | null
  readonly decision: ApprovalDecision | null
  readonly reason: string | null
  /** The call has left, and its server asks this. */
  readonly question?: CallQuestion | undefined
  readonly continues?: SessionEventOf<'approval-requested'>['continues']
  readonly value?: AnswerValue | undefined
}

export type Parked = {
  readonly fault: FaultReport
  readonly since: string
  readonly resumeAt: string | null
  readonly because?: string | undefined
  /** Undefined in journals of earlier versions: `waitOf` derives it. */
  readonly wait?: Wait | undefined
}

export type EndedTurn = {
  readonly turn: TurnFold | QueuedTurn
  readonly end: SessionEventOf<'turn-end'> | SessionEventOf<'turn-error'>
}

/** What the engine must do next: exactly one thing, whose result is in the journal before `next` is asked again. */
export type Command =
  | { readonly do: 'rest' }
  | { readonly do: 'start'; readonly turn: QueuedTurn }
  | { readonly do: 'cancel'; readonly cancel: CancelRequest; readonly open: readonly ToolCall[] }
  | { readonly do: 'fail'; readonly why: 'crash_loop' | 'deadline'; readonly open: readonly ToolCall[] }
  | { readonly do: 'ask-for-steps' }
  | { readonly do: 'compact'; readonly plan: CompactionPlan; readonly attempt: number }
  | { readonly do: 'stay-parked'; readonly parked: Parked }
  | { readonly do: 'pause'; readonly until: number }
  | { readonly do: 'discard'; readonly parts: readonly ShownPart[] }
  | { readonly do: 'begin-step'; readonly step: number }
  | { readonly do: 'answer'; readonly step: number; readonly attempt: number }
  | { readonly do: 'call'; readonly call: ToolCall }
  | { readonly do: 'ask-approval'; readonly call: ToolCall; readonly why: string }
  | { readonly do: 'refuse-call'; readonly call: ToolCall; readonly reason: string | null }

/** What `next` reads besides the fold. */
export type Circumstances = {
  readonly policy: Policy
  /** A request to end the current turn that was not carried out yet. */
  readonly cancel: CancelRequest | null
  /** The request that would be sent now, without the conversation. */
  readonly request: RequestFacts
  readonly now: number
  /** Why a call needs a person's yes, or null if it does not. */
  readonly approvalFor: (call: ToolCall) => string | null
}

export const EMPTY_FOLD: SessionFold = {
  entries: [],
  window: NOTHING_LEARNED,
  system: null,
  turn: null,
  queue: [],
  allowedTools: [],
  ended: null,
}

/** No model was called yet. */
export const NO_USAGE: Usage = {
  inputTokens: { value: 0, quality: 'known' },
  outputTokens: { value: 0, quality: 'known' },
}

/** A model was called, and what it used is unknown. */
export const UNCOUNTED: Usage = {
  inputTokens: { value: null, quality: 'unknown' },
  outputTokens: { value: null, quality: 'unknown' },
}
