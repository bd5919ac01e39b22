/**
 * Group commit over the network: the appends that wait, one per session, travel in one statement, and those that come meanwhile are the
 * next one. On each of two connections one statement is under way: while the server syncs one, it runs the other.
 *
 * I1  A connection is given up, a statement never: an append ends written, refused, or with the store. If an attempt fails after one
 *     whose outcome is unknown, the journal decides which of them it is.
 * I2  A repeated append is recognised by the hash of its last event, which covers everything before it.
 * I3  What such a look finds is believed only after another commit of ours: a commit that waited for its standby when its connection
 *     ended is visible, and a failover can still lose it.
 * I4  A batch that fails as a whole is taken apart: only those that cannot be written fail. One whose row is locked waits, and lets
 *     the others pass: its lock may be its own first try, which waits for a standby on a connection that was given up.
 * I5  A journal that a failover made shorter gets its missing events again, before anything else is appended to it.
 * I6  A batch that breaks each connection it is sent on is taken apart, too: its members wait behind the others, and travel alone.
 */
import { performance } from 'node:perf_hooks'
import { Fault, sleep } from '@breakfall/faults'
import { CHAIN_START, chainHash } from '../chain.ts'
import { type Row, textIn } from '../sqlite-statements.ts'
import type { Append } from '../store.ts'
import type { JournalEnd } from './acknowledged.ts'
import { AppendQueue, type Waiting } from './append-queue.ts'
import { APPEND, type Hashed, valuesOf, writtenIn } from './append-sql.ts'
import type { Connection } from './connection.ts'
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
  readonly onCommit: (appends: readonly Hashed[], ms: number) => void
  /** Between two attempts. */
  readonly pause?: (ms: number) => Promise<unknown>
}

/** How far a journal reaches, as far as this process has written or claimed it. */
type End = { readonly epoch: number; readonly lastSeq: number; readonly hash: string }

export class GroupAppend {
  readonly #parts: GroupAppendParts
  readonly #queue = new AppendQueue()
  readonly #ends = new Map<string, End>()
  /** Those without a batch. */
  readonly #free: Connection[]
  #isGathering = false
  #isClosed = false

  constructor(parts: GroupAppendParts) {
    this.#parts = parts
    this.#free = [...parts.connections]
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
      const connection = this.#free.at(-1)
      const batch = connection === undefined ? [] : this.#queue.take(this.#free.length)
      if (connection === undefined || batch.length === 0) return
      this.#free.pop()
      void this.#write(batch, connection)
    }
  }

  async #write(batch: readonly Waiting[], connection: Connection): Promise<void> {
    await this.#commit(batch, connection)
    this.#queue.done(batch)
    this.#free.push(connection)
    this.#gather()
  }

  async #commit(batch: readonly Waiting[], connection: Connection): Promise<void> {
    const { pause = sleep } = this.#parts
    const from = performance.now()
    let mayHaveLanded = batch.some((waiting) => waiting.mayHaveLanded === true)
    let failure: unknown
    for (let attempt = 0; ; attempt += 1) {
      if (this.#isClosed) return refuse(batch, closed())
      try {
        const hashed = await this.#hashed(batch, connection)
        if (failure !== undefined && !(await haveLanded(hashed, connection))) break // I1
        const rows = failure === undefined ? await connection.queryPlanned(APPEND, valuesOf(hashed)) : []
        const committed = await this.#settle(batch, hashed, connection, writtenIn(rows))
        if (committed === 'again') continue
        this.#parts.onCommit(committed, performance.now() - from)
        return
      } catch (error) {
        const trouble = troubleOf(error)
        if (trouble === 'connection') mayHaveLanded = true
        if (trouble === 'connection' && attempt >= BREAKS_MAX) return this.#putBack(batch)
        if (trouble === 'connection') await pause(Math.min(25 * 2 ** attempt, PAUSE_MS_MAX)) // I1
        else if (trouble === 'again' && attempt < AGAIN_MAX) await pause(attempt * 5)
        else if (mayHaveLanded && batch.length === 1 && failure === undefined) failure = error
        else return this.#apart(batch, connection, error, mayHaveLanded)
      }
    }
    return this.#apart(batch, connection, failure, mayHaveLanded)
  }

  /** I6 */
  #putBack(batch: readonly Waiting[]): void {
    if (this.#isClosed) return refuse(batch, closed())
    for (const waiting of batch) this.#queue.putBack({ ...waiting, isAlone: true, mayHaveLanded: true })
  }

  /** I4 */
  async #apart(
    batch: readonly Waiting[],
    connection: Connection,
    error: unknown,
    mayHaveLanded: boolean,
  ): Promise<void> {
    const [only, ...others] = batch
    if (only === undefined) return
    if (others.length > 0) {
      for (const waiting of batch) await this.#commit([{ ...waiting, mayHaveLanded }], connection)
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

  /** Answers all writers. Returns what was not refused; `again`: no writer was answered, and a retry may succeed. */
  async #settle(
    batch: readonly Waiting[],
    hashed: readonly Hashed[],
    connection: Connection,
    written: ReadonlySet<string>,
  ): Promise<readonly Hashed[] | 'again'> {
    const missed = hashed.filter(({ append }) => !written.has(append.sessionId))
    const verdicts: ReadonlyMap<string, Verdict> =
      missed.length === 0 ? new Map() : await missedAppends(connection, missed) // I2
    const judged = await this.#restored(verdicts, connection)
    if (judged === 'again') return judged
    if ([...judged.values()].includes('written')) await this.#parts.barrier(connection) // I3
    const verdictOf = (id: string): 'written' | Fault | undefined => (written.has(id) ? 'written' : judged.get(id))
    const committed = hashed.filter(({ append }) => verdictOf(append.sessionId) === 'written')
    for (const { append, head } of committed) {
      const { sessionId, epoch, after, events } = append
      const hash = events.length > 0 ? head : this.#ends.get(sessionId)?.hash
      if (hash !== undefined) this.note(sessionId, { epoch, lastSeq: after + events.length, hash })
    }
    for (const { append, resolve, reject } of batch) {
      const verdict = verdictOf(append.sessionId)
      if (verdict === 'written') {
        resolve()
        continue
      }
      this.#ends.delete(append.sessionId)
      reject(verdict ?? pgFault(new Error('no verdict')))
    }
    return committed
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

async function haveLanded(hashed: readonly Hashed[], connection: Connection): Promise<boolean> {
  const verdicts = await missedAppends(connection, hashed)
  return hashed.every(({ append }) => verdicts.get(append.sessionId) === 'written')
}

const sessionIdIn = (row: Row): string => textIn(row, 'session_id')

function refuse(batch: readonly Waiting[], fault: Fault): void {
  for (const { reject } of batch) reject(fault)
}
