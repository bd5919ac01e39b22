/** What is relayed, where to, and what is told about it. The shapes that users of `relayAnswer` code against. */
import type { FaultReport, Policy } from '@breakfall/faults'
import type { ApiName, AttemptRecord } from './answer.ts'
import type { ProfileName } from './profiles.ts'

/** What is held back: tool calls until they are whole and proven; the whole answer; nothing. */
export const HOLDS = ['tools', 'answer', 'none'] as const
export type Hold = (typeof HOLDS)[number]

export type RelayRequest = {
  readonly api: ApiName
  readonly method: string
  /** Query string with its question mark, or nothing. */
  readonly search: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** The body, parsed. */
  readonly json: Readonly<Record<string, unknown>>
}

export type RelayTarget = {
  /** Up to and including the version. */
  readonly baseUrl: string
  readonly profile?: ProfileName | undefined
  /** Laid over the request's: for example another key. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** The request's own keys are for somebody else: they do not go here. */
  readonly withoutKeys?: boolean | undefined
  /** Asked for in place of the request's model. */
  readonly model?: string | undefined
}

/** Where the answer goes. */
export type RelaySink = {
  head(status: number, headers: Readonly<Record<string, string>>): void
  /** False where the reader is behind: `drained` says when it has caught up. */
  write(chunk: string | Buffer): boolean
  drained(): Promise<void>
  end(): void
}

/** What happens, for whoever watches. */
export type RelayEvent =
  | { readonly type: 'attempt-start'; readonly attempt: number; readonly baseUrl: string }
  | {
      readonly type: 'attempt-failed'
      readonly attempt: number
      readonly fault: FaultReport
      readonly action: string
      readonly delayMs: number
      readonly afterContent: boolean
    }
  | { readonly type: 'healed'; readonly attempt: number; readonly how: 'retry' | 'resume' | 'fallback' }

export type RelayOptions = {
  readonly policy?: Partial<Policy> | undefined
  readonly hold?: Hold | undefined
  readonly signal?: AbortSignal | undefined
  readonly now?: (() => number) | undefined
  readonly dice?: (() => number) | undefined
  /** How long to try before the head goes out without content, and how often to ping after that. */
  readonly pingMs?: number | undefined
  readonly holdBytesMax?: number | undefined
  readonly onEvent?: ((event: RelayEvent) => void) | undefined
}

/** With everything decided. */
export type ResolvedRelayOptions = { readonly [K in keyof RelayOptions]-?: Exclude<RelayOptions[K], undefined> } & {
  readonly policy: Policy
  readonly deadlineAt: number | null
}

export type RelayOutcome = {
  /** Status that the client got; 499 where it left before one. */
  readonly status: number
  readonly fault: FaultReport | null
  readonly ledger: readonly AttemptRecord[]
  /** True where something with content had reached the client. */
  readonly contentSent: boolean
}

export const RELAY_DEFAULTS = {
  hold: 'tools',
  pingMs: 15_000, // half of the shortest idle limit that proxies are known for
  holdBytesMax: 16 * 1024 * 1024, // longer than any answer that a model has given
} as const
