/** What is asked of a model, and the events of the answer. The shapes that callers of `streamAnswer` code against. */
import type { Decision, FaultReport, Policy } from '@breakfall/faults'
import type { Usage } from '@breakfall/wire'
import type { RungAction } from './machine/next-rung.ts'
import type { ApiName, ProfileName } from './names.ts'

export type { Usage } from '@breakfall/wire'

export type ToolCallMessage = {
  readonly id: string
  readonly type: 'function'
  readonly function: { readonly name: string; readonly arguments: string }
}

/** The conversation in the shape of OpenAI's chat API, whichever API it is sent to. */
export type ChatMessage =
  | { readonly role: 'system' | 'user'; readonly content: string }
  | {
      readonly role: 'assistant'
      readonly content: string | null
      readonly tool_calls?: readonly ToolCallMessage[] | undefined
    }
  | { readonly role: 'tool'; readonly tool_call_id: string; readonly content: string }

export type ToolSpec = {
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly description?: string | undefined
    /** A JSON Schema. Its `required` is checked before a call is released. */
    readonly parameters?: Readonly<Record<string, unknown>> | undefined
  }
}

export type AnswerRequest = {
  /** Up to and including the version: `http://127.0.0.1:8080/v1`. */
  readonly baseUrl: string
  readonly model: string
  readonly messages: readonly ChatMessage[]
  readonly tools?: readonly ToolSpec[] | undefined
  readonly api?: ApiName | undefined
  readonly apiKey?: string | undefined
  /** How the server behaves. Left out it is guessed from the address, and continuing by prefill stays off. */
  readonly profile?: ProfileName | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly maxTokens?: number | undefined
  readonly temperature?: number | undefined
  /** Merged into the body, last. */
  readonly extra?: Readonly<Record<string, unknown>> | undefined
}

/** Another place to ask when the first is spent. What is left out is as in the request. */
export type Fallback = Partial<Pick<AnswerRequest, 'baseUrl' | 'model' | 'api' | 'apiKey' | 'profile' | 'headers'>>

/** What a turn has used up so far. Given in and handed back, so that nobody's retry refills another's. */
export type Budget = { readonly failures: number; readonly waitedMs: number }

export type AnswerOptions = {
  readonly signal?: AbortSignal | undefined
  readonly policy?: Partial<Policy> | undefined
  readonly fallback?: readonly Fallback[] | undefined
  readonly budget?: Budget | undefined
  /** True where the caller can wait durably and call again. */
  readonly canPark?: boolean | undefined
  readonly now?: (() => number) | undefined
  readonly dice?: (() => number) | undefined
  /** Epoch milliseconds at which everything must be over. */
  readonly deadlineAt?: number | null | undefined
  /** True where the conversation was compacted already, so that a second overflow ends it. */
  readonly compacted?: boolean | undefined
}

export type FailedAction = RungAction

/** How far an attempt got. */
export type AttemptPhase = 'connect' | 'headers' | 'stream'

/** One try, as it went. No attempt is left out. */
export type AttemptRecord = {
  readonly attempt: number
  readonly model: string
  readonly baseUrl: string
  readonly startedAt: string
  readonly durationMs: number
  readonly phase: AttemptPhase
  /** Bytes of the answer's body. */
  readonly bytes: number
  /** True where it went on from kept text instead of from the start. */
  readonly resumed: boolean
  readonly fault: FaultReport | null
  readonly action: FailedAction | null
  readonly delayMs: number
  readonly usage: Usage
}

export type AnswerEvent =
  | { readonly type: 'attempt-start'; readonly attempt: number; readonly model: string; readonly baseUrl: string }
  | { readonly type: 'text-delta'; readonly attempt: number; readonly part: string; text: string }
  | { readonly type: 'reasoning-delta'; readonly attempt: number; readonly part: string; text: string }
  | {
      readonly type: 'tool-draft'
      readonly attempt: number
      readonly part: string
      readonly tool: string
      readonly argumentsBytes: number
    }
  | {
      readonly type: 'tool-call'
      readonly attempt: number
      readonly part: string
      readonly callId: string
      readonly tool: string
      readonly arguments: Readonly<Record<string, unknown>>
    }
  | { readonly type: 'part-discarded'; readonly attempt: number; readonly part: string; readonly because: FaultReport }
  | {
      readonly type: 'attempt-failed'
      readonly attempt: number
      readonly fault: FaultReport
      readonly action: FailedAction
      readonly delayMs: number
      readonly max: number
    }
  | { readonly type: 'usage'; readonly attempt: number; readonly usage: Usage }
  | {
      readonly type: 'done'
      readonly finish: string
      readonly proven: boolean
      /** Of all attempts together; the ledger has each. */
      readonly usage: Usage
      readonly ledger: readonly AttemptRecord[]
      readonly budget: Budget
    }
  | {
      readonly type: 'fault'
      readonly fault: FaultReport
      readonly decision: Decision
      readonly ledger: readonly AttemptRecord[]
      readonly budget: Budget
    }

/** What an attempt tells while it goes on. */
export type ProgressEvent = Extract<
  AnswerEvent,
  { type: 'attempt-start' | 'text-delta' | 'reasoning-delta' | 'tool-draft' | 'tool-call' | 'usage' }
>

export type TryOptions = Pick<AnswerOptions, 'signal' | 'policy' | 'now' | 'deadlineAt'> & {
  /** Its number among the tries at this answer. */
  readonly attempt?: number | undefined
  /** What earlier tries have shown and nobody has taken back: this one goes on after it. Only where `canContinue`. */
  readonly kept?: string | undefined
  /** Called whenever something of the response is read, for callers that watch whether the server is alive. */
  readonly onBytes?: (() => void) | undefined
}

export type TryEvent =
  | ProgressEvent
  | { readonly type: 'done'; readonly finish: string; readonly proven: boolean; readonly record: AttemptRecord }
  | {
      readonly type: 'failed'
      readonly fault: FaultReport
      /** The server was asked to continue kept text and started over, or said something else. */
      readonly diverged: boolean
      readonly record: AttemptRecord
    }
