/**
 * Where journals live. Small on purpose: a second adapter must keep the same promises, and the suite in `test/conformance/`
 * checks them.
 *
 * I1  An append is all or nothing, durable before it is acknowledged, and fenced: it names the epoch of its claim and the last
 *     seq that the writer has seen.
 * I2  An append whose acknowledgement was lost can be repeated: the same events at the same place are the same append.
 * I3  Seqs of a session start at 1 without gaps. Each event's hash covers the hash before it.
 * I4  A damaged session is reported (`journal_corrupt`) and never read as if it were intact; other sessions are not affected.
 */
import type { FaultReport } from '@breakfall/faults'
import type {
  AgentInput,
  BoxCreate,
  InstructionsFile,
  PolicyInput,
  SessionFilter,
  SessionState,
  ToolName,
  Turn,
  TurnProvider,
  TurnSummary,
} from '@breakfall/wire'

export type Store = {
  createSession(session: NewSession): Promise<SessionRow>
  getSession(id: string): Promise<SessionRow | undefined>
  /** Newest first. Reads one row per session, however long its journal is. */
  listSessions(selection: SessionSelection): Promise<SessionPage>
  /** Every session whose box has this id: most boxes are named after their session. */
  sessionsOfBox(boxId: string): Promise<readonly SessionRow[]>
  /** Sessions that have ended, longest idle first. Damaged ones are not among them. */
  endedSessions(query: EndedQuery): Promise<readonly EndedSession[]>
  /** A session without any turn counts as ended if it was created before that time. */
  usage(unusedBefore: string): Promise<StoreUsage>
  /** Removes the session with everything that belongs to it. False if there was none, or if it must be idle and is not. */
  deleteSession(id: string, options?: { readonly ifIdle?: boolean | undefined }): Promise<boolean>
  /** Becomes the owner of a session: raises its epoch, which fences off appends of an earlier owner. */
  claim(id: string): Promise<SessionRow | undefined>
  /** Claims every session with an unfinished turn, at start. */
  claimUnfinished(): Promise<readonly SessionRow[]>
  append(append: Append): Promise<void>
  /** Events after a seq, oldest first, checked against their hashes (I4). At least one, however long, if there is one. */
  read(sessionId: string, after: number, limit: number, charsMax?: number): Promise<readonly StoredEvent[]>
  getTurn(turnId: string): Promise<TurnRow | undefined>
  /** The session's turns, newest first. */
  listTurns(
    sessionId: string,
    page: { readonly before?: string | undefined; readonly limit: number },
  ): Promise<readonly TurnRow[]>
  getKey(scope: string, key: string): Promise<KeyRow | undefined>
  /** Remembers what is wrong with a session, beside its untouched events. */
  quarantine(sessionId: string, report: FaultReport): Promise<void>
  /** Damage found when the store was opened. */
  readonly problems: readonly StoreProblem[]
  close(): Promise<void>
}

export type EndedQuery = {
  /** Only sessions that have been idle since before this time. */
  readonly before?: string | undefined
  /** A session without any turn counts as ended if it was created before this time. */
  readonly unusedBefore: string
  readonly skip: number
  readonly limit: number
}

/** `bytes` is about what its events take on disk. */
export type EndedSession = { readonly id: string; readonly updatedAt: string; readonly bytes: number }

export type StoreUsage = { readonly sessions: number; readonly ended: number; readonly bytes: number }

/** Which sessions to list: those that meet every condition given. */
export type SessionSelection = {
  /** Only sessions older than the one with this id. */
  readonly after?: string | undefined
  readonly limit: number
  /** Any of these. */
  readonly states?: readonly SessionFilter[] | undefined
  readonly class?: string | undefined
  readonly category?: string | undefined
  /** Part of the title, the prompt or the folder, or the start of the id. */
  readonly text?: string | undefined
  readonly workspace?: string | undefined
  readonly updatedSince?: string | undefined
  readonly withCounts?: boolean | undefined
}

/** `counts` has, for each state, how many sessions meet the other conditions. */
export type SessionPage = {
  readonly rows: readonly SessionRow[]
  readonly counts?: Readonly<Record<SessionFilter, number>> | undefined
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
  readonly policy: PolicyInput
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
  /**
   * True from before the box of an idle session is stopped or removed, until it is in use again. While it is true, no exec of the
   * session can have started since the release.
   */
  readonly boxReleased?: boolean | undefined
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
  /** The current turn, else the last one, as of the last event that is not part of a stream. */
  readonly turn: TurnSummary | null
}

/** An event in the journal: `body` is the JSON text that leaves the daemon, byte for byte. */
export type StoredEvent = {
  readonly seq: number
  /** Perhaps a type that only a newer version knows. */
  readonly type: string
  readonly turnId: string
  readonly body: string
}

export type CancelRequest = {
  readonly actor: 'user' | 'client_lost' | 'deadline' | 'shutdown' | 'superseded'
  readonly reason: string | null
  readonly at: string
}

/** A turn's view as of the last append: a finished turn is shown without reading its journal. */
export type TurnRow = {
  readonly turnId: string
  readonly sessionId: string
  readonly view: Turn
  readonly cancel: CancelRequest | null
}

/** An accepted request under a caller's idempotency key: the same key gets the same receipt, also after a restart. */
export type KeyRow = {
  readonly scope: string
  readonly key: string
  readonly requestHash: string
  readonly receipt: string
}

export type Append = {
  readonly sessionId: string
  readonly epoch: number
  /** The last seq that the writer has seen. */
  readonly after: number
  readonly events: readonly StoredEvent[]
  readonly set?: { readonly state: SessionState; readonly turnId: string | null; readonly at?: string } | undefined
  readonly data?: SessionData | undefined
  readonly turns?: readonly TurnRow[] | undefined
  readonly summary?: { readonly turn: TurnSummary | null; readonly updatedAt: string } | undefined
  readonly key?: KeyRow | undefined
  /** Parks or ends a turn, so it may use the reserve of a full disk. */
  readonly essential?: boolean | undefined
}

export type StoreProblem = {
  readonly sessionId: string | null
  readonly what: string
}
