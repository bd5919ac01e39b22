/**
 * Where journals live. Small on purpose: a second adapter has to keep the same promises, and the suite in
 * `test/conformance/` is those promises.
 *
 * I1  An append is all or nothing, durable before it is acknowledged, and fenced: it must name the epoch that it was
 *     claimed under and the last seq that it has seen.
 * I2  An append whose acknowledgement got lost can be repeated: the same events at the same place are the same append.
 * I3  Seqs of a session start at 1 and have no gap. Each event's hash covers the one before it.
 * I4  A damaged session is named (`journal_corrupt`) and never read as if it were whole; the others go on.
 */
import type { FaultReport } from '@breakfall/faults'
import type { BoxCreate, EventType, PolicyInput, SessionState, ToolName, Turn } from '@breakfall/wire'

export type Store = {
  createSession(session: NewSession): Promise<SessionRow>
  getSession(id: string): Promise<SessionRow | undefined>
  listSessions(page: { readonly after?: string | undefined; readonly limit: number }): Promise<readonly SessionRow[]>
  /** Removes the session with everything that belongs to it. False where there was none. */
  deleteSession(id: string): Promise<boolean>
  /** Becomes the owner of a session: raises its epoch, so that appends of an earlier owner are refused. */
  claim(id: string): Promise<SessionRow | undefined>
  /** Claims every session with an unfinished turn, at start. */
  claimUnfinished(): Promise<readonly SessionRow[]>
  append(append: Append): Promise<void>
  /** Events after a seq, oldest first, checked against their hashes (I4). One at least, however long, where there is one. */
  read(sessionId: string, after: number, limit: number, charsMax?: number): Promise<readonly StoredEvent[]>
  getTurn(turnId: string): Promise<TurnRow | undefined>
  getKey(scope: string, key: string): Promise<KeyRow | undefined>
  /** Remembers what is wrong with a session, beside its untouched events. */
  quarantine(sessionId: string, report: FaultReport): Promise<void>
  /** What was found wrong when the store was opened. */
  readonly problems: readonly StoreProblem[]
  close(): Promise<void>
}

/** What a session was created with, and what was learned about its box since. */
export type SessionData = {
  readonly title: string | null
  readonly model: string | null
  readonly box: BoxCreate
  readonly tools: readonly ToolName[]
  readonly policy: PolicyInput
  /** The runner that has, or is about to have, this session's box. Set before the first call that could create it. */
  readonly runnerId: string | null
  /** True once the box is known to have existed. */
  readonly boxMade: boolean
  /** The configuration that a turn was parked under, for one that waits for another. A fingerprint; never leaves the store. */
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
  readonly state: SessionState
  readonly turnId: string | null
  readonly quarantined: FaultReport | null
}

/** An event as it stands in the journal: `body` is the JSON text that leaves the daemon, byte for byte. */
export type StoredEvent = {
  readonly seq: number
  readonly type: EventType
  readonly turnId: string
  readonly body: string
}

export type CancelRequest = {
  readonly actor: 'user' | 'client_lost' | 'deadline' | 'shutdown' | 'superseded'
  readonly reason: string | null
  readonly at: string
}

/** A turn's view as of the last append, so that a finished turn is answered without reading its journal. */
export type TurnRow = {
  readonly turnId: string
  readonly sessionId: string
  readonly view: Turn
  readonly cancel: CancelRequest | null
}

/** An accepted request under a caller's key: the same key gets the same receipt, also after a restart. */
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
  readonly set?: { readonly state: SessionState; readonly turnId: string | null } | undefined
  readonly data?: SessionData | undefined
  readonly turns?: readonly TurnRow[] | undefined
  readonly key?: KeyRow | undefined
  /** Says how a turn waits or ends: may use the space kept in reserve for that. */
  readonly essential?: boolean | undefined
}

export type StoreProblem = {
  readonly sessionId: string | null
  readonly what: string
}
