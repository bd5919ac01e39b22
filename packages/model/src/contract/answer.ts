/** A request to a model and the events of its answer: the types that callers of `streamAnswer` use. */
import type { Decision, FaultReport } from '@breakfall/faults'
import type { PolicyInput, Usage } from '@breakfall/wire'
import type { RungAction } from '../machine/next-rung.ts'
import type { ApiName, ProfileName } from './names.ts'

export type { Usage } from '@breakfall/wire'

export type ToolCallMessage = {
  readonly id: string
  readonly type: 'function'
  readonly function: { readonly name: string; readonly arguments: string }
}

/** The conversation in the format of OpenAI's chat API, whichever API it is sent to. */
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
  /** How the server behaves. By default it is guessed from the address, and continuing by prefill stays off. */
  readonly profile?: ProfileName | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** The most that the answer may have. Default: the server's; Anthropic's API needs a number and gets the model's own limit, up to 30,000. */
  readonly maxTokens?: number | undefined
  readonly temperature?: number | undefined
  /**
   * Responses only: the provider keeps generating when the connection breaks, and the rest is read instead of asked for again.
   * It stores such answers, and bills them to their end.
   */
  readonly background?: boolean | undefined
  /**
   * Anthropic only: marks what the next request of this conversation repeats, so the provider caches it. Writing to the cache costs more
   * than reading input once, so this is for conversations that continue.
   */
  readonly promptCache?: boolean | undefined
  /** Merged into the body last. */
  readonly extra?: Readonly<Record<string, unknown>> | undefined
}

/** Another server or model to ask when the attempts at the first are spent. Fields left out are those of the request. */
export type Fallback = Partial<
  Pick<AnswerRequest, 'baseUrl' | 'model' | 'api' | 'apiKey' | 'profile' | 'headers' | 'maxTokens' | 'background'>
>

/** What a turn has used so far. Passed in and returned, so all answers of a turn share one budget. */
export type Budget = {
  readonly failures: number
  /** Failures among them that cost nothing. */
  readonly freeFailures?: number
  readonly waitedMs: number
}

export type AnswerOptions = {
  readonly signal?: AbortSignal | undefined
  readonly policy?: PolicyInput | undefined
  readonly fallback?: readonly Fallback[] | undefined
  readonly budget?: Budget | undefined
  /** The caller can wait durably and call again, so a fault may ask it to park. */
  readonly canPark?: boolean | undefined
  readonly now?: (() => number) | undefined
  readonly dice?: (() => number) | undefined
  /** Epoch milliseconds at which everything must be over. */
  readonly deadlineAt?: number | null | undefined
  /** The conversation was compacted already, so another overflow ends the answer. */
  readonly compacted?: boolean | undefined
}

/** How far an attempt got. */
export type AttemptPhase = 'connect' | 'headers' | 'stream'

/** The record of one attempt. The ledger has one for every attempt. */
export type AttemptRecord = {
  readonly attempt: number
  readonly model: string
  readonly baseUrl: string
  readonly startedAt: string
  readonly durationMs: number
  readonly phase: AttemptPhase
  /** Size of the answer's body so far. */
  readonly bytes: number
  /** The attempt continued kept text. */
  readonly resumed: boolean
  /** How often the attempt re-attached to its answer after the connection broke. */
  readonly reattached?: number | undefined
  readonly fault: FaultReport | null
  /** `repair`: the same question again, with a repaired conversation. */
  readonly action: RungAction | 'repair' | null
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
      readonly action: RungAction
      readonly delayMs: number
      readonly max: number
    }
  | { readonly type: 'usage'; readonly attempt: number; readonly usage: Usage }
  | {
      readonly type: 'done'
      readonly finish: string
      readonly proven: boolean
      /** Of all attempts together. The ledger has the usage of each. */
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

/** Events of an attempt while it runs. */
export type ProgressEvent = Extract<
  AnswerEvent,
  { type: 'attempt-start' | 'text-delta' | 'reasoning-delta' | 'tool-draft' | 'tool-call' | 'usage' }
>

export type TryOptions = Pick<AnswerOptions, 'signal' | 'policy' | 'now' | 'deadlineAt'> & {
  /** The number of this attempt at the answer. */
  readonly attempt?: number | undefined
  /** Text that earlier attempts showed and that stays: this attempt continues it. Only if `canContinue`. */
  readonly kept?: string | undefined
  /** Called for every read of the response. A caller can use it to detect a server that hangs. */
  readonly onBytes?: (() => void) | undefined
  /** Of the attempt before this one. An answer that holds nothing, or a call that lacks a parameter, is accepted the second time. */
  readonly lastFault?: FaultReport | null | undefined
  readonly trace?: CallTrace | undefined
}

/** The call that an attempt belongs to, in a trace. */
export type CallTrace = {
  readonly traceparent: string | undefined
  /** The wait before the attempt. */
  readonly backoffMs?: number | undefined
  /** Called when the model has said something more. */
  readonly chunk?: () => void
}

export type TryEvent =
  | ProgressEvent
  | { readonly type: 'done'; readonly finish: string; readonly proven: boolean; readonly record: AttemptRecord }
  | {
      readonly type: 'failed'
      readonly fault: FaultReport
      /** The server was asked to continue kept text and started over, or said something else. */
      readonly diverged: boolean
      /** The model had started to answer. */
      readonly contentStarted: boolean
      readonly record: AttemptRecord
    }
