/** What is relayed, where to, and what is reported about it. The types that callers of `relayAnswer` use. */
import type { FaultReport, Policy } from '@breakfall/faults'
import type { PolicyInput } from '@breakfall/wire'
import type { Doubt } from '../dialects/doubts.ts'
import type { AttemptRecord } from '../contract/answer.ts'
import type { RungAction } from '../machine/next-rung.ts'
import type { MemoryShare } from '@breakfall/wire/node'
import type { Hold, ProfileName, RelayApiName, RepairMode } from '../contract/names.ts'
import type { RequestBody, RequestFields } from './request-body.ts'
import type { ChatSpan } from '../telemetry/chat-span.ts'
import type { Conversations } from '../repair/conversations.ts'
import type { RepairNote } from '../repair/request-repair.ts'

/** A POST to one of the dialects' paths. */
export type RelayRequest = {
  readonly api: RelayApiName
  /** Where the client asked. Default: the dialect's own path. */
  readonly place?: PathPlace | undefined
  /** Whether the answer is streamed. Default: what the body says. */
  readonly stream?: boolean | undefined
  /** Query string with its question mark, or nothing. */
  readonly search: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: RequestBody
  readonly json: RequestFields
}

/**
 * A client's path. A tail floats: whatever the client has before it gives way to the upstream's base. Without one, the path says more
 * than which API it is (the model, a project), and goes to the upstream unchanged.
 */
export type PathPlace = { readonly path: string; readonly tail?: string | undefined }

export type RelayTarget = {
  /** Up to and including the version. */
  readonly baseUrl: string
  readonly profile?: ProfileName | undefined
  /** Override the request's: another key, for example. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** The request's own keys belong to another host and are not sent here. */
  readonly withoutKeys?: boolean | undefined
  /** Replaces the request's model. */
  readonly model?: string | undefined
}

/** Only `set-cookie` has several values: joined with commas they could not be told apart. */
export type ReturnedHeaders = Readonly<Record<string, string | readonly string[]>>

/** Where the answer goes. */
export type RelaySink = {
  head(status: number, headers: ReturnedHeaders): void
  /** False if the reader is behind; `drained` resolves when it has caught up. */
  write(chunk: string | Buffer): boolean
  drained(): Promise<void>
  end(): void
  /**
   * Closes the connection: the client sees a broken response, as it would without a relay. Absent if the client could
   * take that for a complete one.
   */
  readonly cut?: (() => void) | undefined
}

/** What happens, for logs and metrics. */
export type RelayEvent =
  | { readonly type: 'attempt-start'; readonly attempt: number; readonly baseUrl: string }
  | {
      readonly type: 'attempt-failed'
      readonly attempt: number
      readonly fault: FaultReport
      readonly action: RungAction | 'repair'
      readonly delayMs: number
      readonly afterContent: boolean
    }
  | {
      readonly type: 'healed'
      readonly attempt: number
      readonly how: 'retry' | 'resume' | 'fallback' | 'reattach' | 'repair'
    }
  /** The conversation in the request was not a valid one: from now on another body goes out. */
  | ({ readonly type: 'repaired'; readonly attempt: number } & RepairNote)
  /** The answer is complete, and went out though it is probably not what the model meant. */
  | ({ readonly type: 'doubt'; readonly attempt: number } & Doubt)
  /** The answer is complete, but the stream broke before the token counts that the client had asked for. */
  | { readonly type: 'usage-lost'; readonly attempt: number }

export type RelayOptions = {
  readonly policy?: PolicyInput | undefined
  readonly hold?: Hold | undefined
  readonly signal?: AbortSignal | undefined
  readonly now?: (() => number) | undefined
  readonly dice?: (() => number) | undefined
  /** How long to wait for content before the head goes out without it, and how often to ping after that. */
  readonly pingMs?: number | undefined
  readonly holdBytesMax?: number | undefined
  /** How long `auto` holds back an attempt's answer, from its first content on. */
  readonly holdMs?: number | undefined
  /** What an answer without text or call gets: one more request, if nothing of it went out, or none. */
  readonly empty?: 'ask-again' | 'accept' | undefined
  readonly onEvent?: ((event: RelayEvent) => void) | undefined
  /** Whether a request is repaired that the server refused because of its conversation. Default: `auto`. */
  readonly repair?: RepairMode | undefined
  /** Which conversations were repaired before. Default: none. */
  readonly conversations?: Conversations | undefined
  /** What this request may hold is taken from here. Default: a share without a limit. The caller closes it. */
  readonly memory?: MemoryShare | undefined
}

/** With every default filled in. */
export type ResolvedRelayOptions = { readonly [K in keyof RelayOptions]-?: Exclude<RelayOptions[K], undefined> } & {
  readonly policy: Policy
  readonly deadlineAt: number | null
  readonly chat: ChatSpan
}

export type RelayOutcome = {
  /** The status that the client got; 499 if it left before one. */
  readonly status: number
  readonly fault: FaultReport | null
  readonly ledger: readonly AttemptRecord[]
  /** True if something with content reached the client. */
  readonly contentSent: boolean
  /** What was repaired in the request. */
  readonly repairs: readonly (RepairNote & { readonly isTaken: boolean })[]
}

export const RELAY_DEFAULTS = {
  empty: 'ask-again',
  hold: 'tools',
  pingMs: 15_000, // half of the shortest idle limit that proxies are known to have
  holdBytesMax: 16 * 1024 * 1024, // longer than any answer a model has given
  holdMs: 30_000, // longer than most steps of an agent, shorter than the idle limits of their clients
} as const
