/** What is stored of a session beside its events: the row that a list reads, and what the session was made with. */
import type { FaultReport } from '@breakfall/faults'
import type {
  AgentInput,
  BoxCreate,
  InstructionsFile,
  IsolationLevel,
  Placement,
  PolicyInput,
  SessionFilter,
  SessionState,
  ToolName,
  TurnProvider,
  TurnSummary,
} from '@breakfall/wire'

/** `counts` has, for each state, how many sessions meet the other conditions. */
export type SessionPage = {
  readonly rows: readonly SessionRow[]
  readonly counts?: Readonly<Record<SessionFilter, number>> | undefined
}

export type StartedProcess = {
  readonly execId: string
  readonly name: string
  /** The model has read of its end. */
  readonly isOver?: boolean | undefined
}

/** What a session was created with, and what is known about its box. */
export type SessionData = {
  readonly title: string | null
  /** Null: the default model of its provider. */
  readonly model: string | null
  /** The provider of the next turn, without its key. Null or undefined: the daemon's default. */
  readonly provider?: TurnProvider | null | undefined
  readonly box: BoxCreate
  readonly tools: readonly ToolName[]
  /** Which tools from outside it may use: names, or `mcp__SERVER` for all of a server. Undefined: all. */
  readonly outside?: readonly string[] | undefined
  /** How its box is isolated, as its runner said last. */
  readonly level?: IsolationLevel | undefined
  readonly policy: PolicyInput
  /** Which of the joined runners may have its box. */
  readonly placement?: Placement | undefined
  /** The runner that has, or is about to have, this session's box. Set before the first call that could create it. */
  readonly runnerId: string | null
  /** True once the box is known to have existed. */
  readonly boxMade: boolean
  /** What the user of this session says to the model, in place of the daemon's own configuration. */
  readonly agent?: AgentInput | undefined
  /** The project's files that the last turn sent. */
  readonly instructions?: readonly InstructionsFile[] | undefined
  /** The box in sentences, as its runner described it last. */
  readonly about?: readonly string[] | undefined
  /** When the session's files were last brought back to a checkpoint. */
  readonly undoneAt?: string | undefined
  /**
   * True from before the box of an idle session is stopped or removed, until it is in use again. While it is true, no exec of the
   * session can have started since the release.
   */
  readonly boxReleased?: boolean | undefined
  /** Background processes that its tools started, newest last. */
  readonly processes?: readonly StartedProcess[] | undefined
  /** Fingerprint of the configuration under which a turn was parked that waits for a change. Never leaves the store. */
  readonly parkedUnder?: string | undefined
}

export type NewSession = {
  readonly id: string
  readonly journal: string
  readonly createdAt: string
  readonly data: SessionData
}

export type SessionRow = NewSession & {
  readonly epoch: number
  readonly lastSeq: number
  /** When it was created, or its state changed last. */
  readonly updatedAt: string
  readonly state: SessionState
  readonly turnId: string | null
  readonly quarantined: FaultReport | null
  readonly owner: SessionOwner | null
  /** Commands submitted to its owner, and how many of them were looked at: see `openCommands`. */
  readonly asked: number
  readonly seen: number
  /** Takeovers without progress. */
  readonly suspect: number
  /** Only a claim ever sees such a session. */
  readonly isDeleting: boolean
  /** The current turn, else the last one, as of the last event that is not part of a stream. */
  readonly turn: TurnSummary | null
}

/** Always null in a store that is not shared. */
export type SessionOwner = { readonly bootId: string; readonly name: string; readonly since: string }

export type CancelRequest = {
  readonly actor: 'user' | 'client_lost' | 'deadline' | 'shutdown' | 'superseded'
  readonly reason: string | null
  readonly at: string
}
