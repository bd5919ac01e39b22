/**
 * Where journals live. Every adapter keeps the same promises, and the suite in `test/conformance/`
 * checks them.
 *
 * I1  An append is all or nothing, durable before it is acknowledged, and fenced: it names the epoch of its claim and the last
 *     seq that the writer has seen.
 * I2  An append whose acknowledgement was lost can be repeated: the same events at the same place are the same append.
 * I3  Seqs of a session start at 1 without gaps. Each event's hash covers the hash before it.
 * I4  A damaged session is reported (`journal_corrupt`) and never read as if it were intact; other sessions are not affected.
 */
import type { FaultReport } from '@breakfall/faults'
import type { SessionFilter, SessionState, Turn, TurnSummary } from '@breakfall/wire'
import type { CancelRequest, NewSession, SessionData, SessionOwner, SessionPage, SessionRow } from '../rows.ts'
import type { FaultNotes } from '../turn/fault-history.ts'
import type { FaultGroup, FaultOccurrence, FaultSelection, OccurrenceSelection } from './fault-history.ts'
import type { CommandOutcome, Coordination } from './sharing.ts'

/** Sessions, their events, and who may write them. */
export type Journal = {
  /** With a key: `idempotency_conflict` if the key is taken, and then there is no new session. */
  createSession(session: NewSession, key?: KeyRow): Promise<SessionRow>
  /** Undefined also while it is being deleted. */
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
  /**
   * Becomes the owner of a session: raises its epoch, which fences off appends of an earlier owner. Reading needs no claim. `owned`:
   * another daemon that lives owns it. Also claims a session that is being deleted.
   */
  claim(id: string): Promise<SessionRow | 'owned' | undefined>
  /**
   * Claims sessions without an owner that have an unfinished turn or an open command, as far as their time has come. Damaged ones
   * and those that a newer version wrote are not among them.
   */
  claimWork(query: WorkQuery): Promise<readonly SessionRow[]>
  /** Raises the epoch above an epoch that a runner has seen. Undefined if another owner has claimed the session. */
  raiseEpoch(session: { readonly id: string; readonly epoch: number }, above: number): Promise<SessionRow | undefined>
  append(append: Append): Promise<void>
  /** What unfinished sessions without an owner wait for, and how many wait for it. */
  waits(): Promise<readonly Wait[]>
  /** Makes sessions due that wait for this. Returns how many. */
  wake(waitFor: string, limit?: number): Promise<number>
  /** Events after a seq, oldest first, checked against their hashes (I4). At least one, however long, if there is one. */
  read(sessionId: string, after: number, limit: number, charsMax?: number): Promise<readonly StoredEvent[]>
  getTurn(turnId: string): Promise<TurnRow | undefined>
  /** The session's turns, newest first. */
  listTurns(
    sessionId: string,
    page: { readonly before?: string | undefined; readonly limit: number },
  ): Promise<readonly TurnRow[]>
  getKey(scope: string, key: string): Promise<KeyRow | undefined>
  /** How far journals reach, and who owns them. In the order of the ids; sessions that do not exist are left out. */
  heads(ids: readonly string[]): Promise<readonly SessionHead[]>
  /** Faults by fingerprint, latest first. */
  faultGroups(selection: FaultSelection): Promise<readonly FaultGroup[]>
  /** Of one fingerprint, latest first. */
  faultOccurrences(selection: OccurrenceSelection): Promise<readonly FaultOccurrence[]>
  /** Remembers what is wrong with a session, beside its untouched events. */
  quarantine(sessionId: string, report: FaultReport): Promise<void>
  /** Damage found when the store was opened. */
  readonly problems: readonly StoreProblem[]
}

/** Journals, and what daemons that share them need besides. */
export type Store = Journal & Coordination & { close(): Promise<void> }

export type WorkQuery = {
  readonly limit: number
  /** Instead of the others: sessions that were taken over at least twice without progress. */
  readonly suspects?: boolean | undefined
}

export type Wait = { readonly waitFor: string; readonly sessions: number }

/** `hash` is that of the last event, hexadecimal. */
export type SessionHead = {
  readonly sessionId: string
  readonly journal: string
  readonly epoch: number
  readonly lastSeq: number
  readonly hash: string
  readonly state: SessionState
  readonly turnId: string | null
  readonly owner: SessionOwner | null
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
  /** What newest first means. Default: `createdAt`; only then can `after` page on. */
  readonly newestBy?: 'createdAt' | 'updatedAt' | undefined
}

/** An event in the journal: `body` is the JSON text that leaves the daemon, byte for byte. */
export type StoredEvent = {
  readonly seq: number
  /** Perhaps a type that only a newer version knows. */
  readonly type: string
  readonly turnId: string
  readonly body: string
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

/** The scope of keys that created a session. The receipt is the session's id, and the key counts as long as that session exists. */
export const CREATED = 'sessions'

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
  /** Faults that its events report, and what became of earlier ones. */
  readonly faults?: FaultNotes | undefined
  readonly key?: KeyRow | undefined
  /** Gives the session up with this append: whoever claims it next continues. */
  readonly release?: Release | undefined
  /** Takeovers without progress, from now on. */
  readonly suspect?: number | undefined
  /** Commands that this append carries out. If one of them was withdrawn, nothing is written: `cancelled`. */
  readonly outcomes?: readonly CommandOutcome[] | undefined
  /** The owner has looked at this many commands. */
  readonly seen?: number | undefined
  /** Parks or ends a turn, so it may use the reserve of a full disk. */
  readonly essential?: boolean | undefined
}

/** When an unfinished turn is due again: at a time, or when `wake` is called with what it waits for. Both null: a command makes it due. */
export type Release = { readonly wakeAt: string | null; readonly waitFor: string | null }

export type StoreProblem = {
  readonly sessionId: string | null
  readonly what: string
}
