/**
 * Group commit over the network: the appends that wait, one per session, travel in one statement, and those that come meanwhile are the
 * next one. On each of two connections one statement is under way: while the server syncs one, it runs the other.
 *
 * I1  A connection is given up, a statement never: an append ends written, refused, or with the store. If an attempt fails after one
 *     whose outcome is unknown, the journal decides which of them it is.
 * I2  A repeated append is recognised by the hash of its last event, which covers everything before it.
 * I3  What such a look finds is believed only after another commit of ours: a commit that waited for its standby when its connection
 *     ended is visible, and a failover can still lose it.
 * I5  A journal that a failover made shorter gets its missing events again, before anything else is appended to it.
 * I4  A batch that fails as a whole is taken apart: only those that cannot be written fail. One whose row is locked waits, and lets
 *     the others pass: its lock may be its own first try, which waits for a standby on a connection that was given up.
 * I6  A batch that breaks each connection it is sent on is taken apart, too: its members wait behind the others, and travel alone.
 */
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { Fault } from '@breakfall/faults'
import { CHAIN_START, chainHash } from '../chain.ts'
import { type Row, textIn } from '../sqlite-statements.ts'
import type { Append } from '../store.ts'
import type { Committed, JournalEnd } from './acknowledged.ts'
import { AppendQueue, type Waiting } from './append-queue.ts'
import { type AppendOf, appendStatement, writtenIn } from './append-sql.ts'
import type { Connection, PgAnswer } from './connection.ts'
import { Parameters } from './parameters.ts'
import type { Hashed } from './sent-appends.ts'
import { conflictIn, pgFault, sqlState, troubleOf } from './pg-fault.ts'
import { closed } from './pool.ts'
import { lost, missedAppends, type Verdict } from './missed-append.ts'
import type { Restored } from './rewind.ts'

const PAUSE_MS_MAX = 1_000

export type GroupAppendParts = {
  /** Each writes one batch at a time. */
  readonly connections: readonly Connection[]
  /** For the commit of I3. */
  readonly barrier: (connection: Connection) => Promise<unknown>
  /** I5 */
  readonly restore: (connection: Connection, sessionId: string, end: JournalEnd) => Promise<Restored>
  /** The fault its writers get if it cannot be restored. */
  readonly gone: (sessionId: string, lastSeq: number) => Fault
  readonly onCommit: (committed: Committed, ms: number) => void
  /** Between two attempts. */
  readonly pause?: (ms: number) => Promise<unknown>
}

/** A connection, and the memory for the values of the statement under way on it. */
type Lane = { readonly connection: Connection; readonly parameters: Parameters }

/** How far a journal reaches, as far as this process has written or claimed it. */
type End = { readonly epoch: number; readonly lastSeq: number; readonly hash: string }

export class GroupAppend {
  readonly #parts: GroupAppendParts
  readonly #queue = new AppendQueue()
  readonly #ends = new Map<string, End>()
  /** Those without a batch. */
  readonly #free: Lane[]
  #isGathering = false
  #isClosed = false

  constructor(parts: GroupAppendParts) {
    this.#parts = parts
    this.#free = parts.connections.map((connection) => ({ connection, parameters: new Parameters() }))
  }

  append(append: Append): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      if (this.#isClosed) return reject(closed())
      this.#queue.add({ append, resolve, reject })
      this.#gather()
    })
  }

  settled = (sessionId: string): Promise<void> => this.#queue.settled(sessionId)

  /** A claim says where the journal ends. */
  note(sessionId: string, end: End): void {
    if (this.#ends.size >= ENDS_MAX) this.#ends.clear()
    this.#ends.set(sessionId, end)
  }

  forget(sessionId: string): void {
    this.#ends.delete(sessionId)
  }

  close(): void {
    this.#isClosed = true
    this.#queue.refuseAll(closed())
  }

  // ---- details, in the order they are used above ----

  /** What comes in the same turn of the event loop travels together. */
  #gather(): void {
    if (this.#isGathering || this.#free.length === 0) return
    this.#isGathering = true
    setImmediate(() => {
      this.#isGathering = false
      this.#start()
    })
  }

  #start(): void {
    for (;;) {
      const lane = this.#free.at(-1)
      const batch = lane === undefined ? [] : this.#queue.take(this.#free.length)
      if (lane === undefined || batch.length === 0) return
      this.#free.pop()
      void this.#write(batch, lane)
    }
  }

  async #write(batch: readonly Waiting[], lane: Lane): Promise<void> {
    await this.#commit(batch, lane)
    this.#queue.done(batch)
    this.#free.push(lane)
    this.#gather()
  }

  async #commit(batch: readonly Waiting[], lane: Lane): Promise<void> {
    const { connection, parameters } = lane
    const { pause = sleep } = this.#parts
    const from = performance.now()
    let mayHaveLanded = batch.some((waiting) => waiting.mayHaveLanded === true)
    let failure: unknown
    for (let attempt = 0; ; attempt += 1) {
      if (this.#isClosed) return refuse(batch, closed())
      try {
        const hashed = await this.#hashed(batch, connection)
        if (failure !== undefined && !(await haveLanded(hashed, connection))) break // I1
        const { text, values, bound, appendOf } = appendStatement(hashed, parameters)
        const answer = failure === undefined ? await connection.queryPlanned(text, values, bound) : NO_ANSWER
        const missing = await this.#settle(batch, hashed, connection, writtenIn(hashed, answer))
        if (missing === 'again') continue
        const bytes = bound?.bytes ?? NOTHING
        this.#parts.onCommit({ ...committed(hashed, appendOf, missing), bytes }, performance.now() - from)
        return
      } catch (error) {
        const trouble = troubleOf(error)
        if (trouble === 'connection') mayHaveLanded = true
        if (trouble === 'connection' && attempt >= BREAKS_MAX) return this.#putBack(batch)
        if (trouble === 'connection') await pause(Math.min(25 * 2 ** attempt, PAUSE_MS_MAX)) // I1
        else if (trouble === 'again' && attempt < AGAIN_MAX) await pause(attempt * 5)
        else if (mayHaveLanded && batch.length === 1 && failure === undefined) failure = error
        else return this.#apart(batch, lane, error, mayHaveLanded)
      }
    }
    return this.#apart(batch, lane, failure, mayHaveLanded)
  }

  /** I6 */
  #putBack(batch: readonly Waiting[]): void {
    if (this.#isClosed) return refuse(batch, closed())
    for (const waiting of batch) this.#queue.putBack({ ...waiting, isAlone: true, mayHaveLanded: true })
  }

  /** I4 */
  async #apart(batch: readonly Waiting[], lane: Lane, error: unknown, mayHaveLanded: boolean): Promise<void> {
    const [only, ...others] = batch
    if (only === undefined) return
    if (others.length > 0) {
      for (const waiting of batch) await this.#commit([{ ...waiting, mayHaveLanded }], lane)
      return
    }
    if (sqlState(error) === LOCK_TIMEOUT) return this.#queue.putBack({ ...only, mayHaveLanded })
    this.#ends.delete(only.append.sessionId)
    const taken = conflictIn(error) === 'keys_pkey'
    const key = only.append.key?.key ?? ''
    only.reject(taken ? new Fault('idempotency_conflict', { errorRaw: `key ${key} is taken` }) : pgFault(error))
  }

  async #hashed(batch: readonly Waiting[], connection: Connection): Promise<readonly Hashed[]> {
    const unknown = batch.filter(({ append }) => this.#hashBefore(append) === undefined).map(({ append }) => append)
    const found = await this.#readHashes(unknown, connection)
    return batch.map(({ append }) => {
      let head = this.#hashBefore(append) ?? found.get(append.sessionId) ?? CHAIN_START
      const hashes = append.events.map(({ type, body }, index) => {
        head = chainHash(head, { seq: append.after + 1 + index, epoch: append.epoch, type, body })
        return head
      })
      return { append, hashes, head }
    })
  }

  #hashBefore({ sessionId, epoch, after, events }: Append): string | undefined {
    if (after === 0 || events.length === 0) return CHAIN_START
    const end = this.#ends.get(sessionId)
    return end?.epoch === epoch && end.lastSeq === after ? end.hash : undefined
  }

  /** Of the events that these appends follow. */
  async #readHashes(appends: readonly Append[], connection: Connection): Promise<ReadonlyMap<string, string>> {
    if (appends.length === 0) return new Map()
    const rows = await connection.query(HASHES, [
      appends.map(({ sessionId }) => sessionId),
      appends.map(({ after }) => after),
    ])
    return new Map(rows.map((row) => [sessionIdIn(row), textIn(row, 'hash')]))
  }

  /** Answers all writers. Returns the sessions whose append was refused; `again`: no writer was answered, and a retry may succeed. */
  async #settle(
    batch: readonly Waiting[],
    hashed: readonly Hashed[],
    connection: Connection,
    written: ReadonlySet<string>,
  ): Promise<ReadonlySet<string> | 'again'> {
    const missed = hashed.filter(({ append }) => !written.has(append.sessionId))
    const verdicts: ReadonlyMap<string, Verdict> =
      missed.length === 0 ? new Map() : await missedAppends(connection, missed) // I2
    const judged = await this.#restored(verdicts, connection)
    if (judged === 'again') return judged
    if ([...judged.values()].includes('written')) await this.#parts.barrier(connection) // I3
    const refused = new Set<string>()
    for (const [index, { append, resolve, reject }] of batch.entries()) {
      const verdict = written.has(append.sessionId) ? 'written' : judged.get(append.sessionId)
      if (verdict === 'written') {
        const head = append.events.length > 0 ? hashed[index]?.head : this.#ends.get(append.sessionId)?.hash
        const lastSeq = append.after + append.events.length
        if (head !== undefined) this.note(append.sessionId, { epoch: append.epoch, lastSeq, hash: head })
        resolve()
      } else {
        refused.add(append.sessionId)
        this.#ends.delete(append.sessionId)
        reject(verdict ?? pgFault(new Error('no verdict')))
      }
    }
    return refused
  }

  /** I5 */
  async #restored(
    verdicts: ReadonlyMap<string, Verdict>,
    connection: Connection,
  ): Promise<ReadonlyMap<string, 'written' | Fault> | 'again'> {
    const { restore, gone } = this.#parts
    const judged = new Map<string, 'written' | Fault>()
    let isRestored = false
    for (const [sessionId, verdict] of verdicts) {
      if (verdict === 'written' || verdict instanceof Fault) {
        judged.set(sessionId, verdict)
        continue
      }
      const { lastSeq } = verdict.rewoundTo
      const restored = await restore(connection, sessionId, verdict.rewoundTo)
      if (restored === 'restored') isRestored = true
      else judged.set(sessionId, restored === 'gone' ? gone(sessionId, lastSeq) : lost(`the journal is at ${lastSeq}`))
    }
    return isRestored ? 'again' : judged
  }
}

// ---- details ----

const ENDS_MAX = 100_000
const LOCK_TIMEOUT = '55P03'
const AGAIN_MAX = 5
const BREAKS_MAX = 7 // about 2.5 seconds: by then it is either the batch, or the server is away for longer

const HASHES = `
SELECT e.session_id, encode(e.hash, 'hex') AS hash
FROM unnest($1::uuid[], $2::int[]) AS a(session_id, seq) JOIN events e USING (session_id, seq)`

/** Says nothing about any append, so `writtenIn` has every one looked up. */
const NO_ANSWER: PgAnswer = { rows: [], count: -1 }

async function haveLanded(hashed: readonly Hashed[], connection: Connection): Promise<boolean> {
  const verdicts = await missedAppends(connection, hashed)
  return hashed.every(({ append }) => verdicts.get(append.sessionId) === 'written')
}

function committed(
  hashed: readonly Hashed[],
  appendOf: AppendOf,
  missing: ReadonlySet<string>,
): Pick<Committed, 'appends' | 'appendOf'> {
  if (missing.size === 0) return { appends: hashed, appendOf }
  const appends = hashed.filter(({ append }) => !missing.has(append.sessionId))
  return { appends, appendOf: (id, bytes) => (missing.has(id) ? undefined : appendOf(id, bytes)) }
}

const NOTHING = Buffer.alloc(0)

const sessionIdIn = (row: Row): string => textIn(row, 'session_id')

function refuse(batch: readonly Waiting[], fault: Fault): void {
  for (const { reject } of batch) reject(fault)
}
