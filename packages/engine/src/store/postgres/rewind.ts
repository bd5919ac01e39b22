/**
 * After a failover that lost commits: the owner that has the missing events appends them again; any other journal is set aside, and the
 * session says which events are gone.
 *
 * I1  Nothing acknowledged disappears silently, as long as the daemon that acknowledged it comes back with its folder.
 * I2  For one lease after the database changed its timeline, no daemon claims a session: its owner comes first.
 * I3  A journal is set aside only if the event is missing after its owner had its turn: an append of the engine may have repaired it
 *     between our look and our own append.
 */
import { Fault, type FaultReport } from '@breakfall/faults'
import { numberIn, textIn, textOrNullIn } from '../sqlite-statements.ts'
import type { Append } from '../store.ts'
import type { Acknowledged, JournalEnd } from './acknowledged.ts'
import { APPEND, valuesOf, writtenIn } from './append-sql.ts'
import { times } from './clock.ts'
import type { Connection } from './connection.ts'
import { missedAppends } from './missed-append.ts'
import type { Pool } from './pool.ts'

export type RewindParts = {
  readonly pool: Pick<Pool, 'query'>
  readonly acknowledged: Acknowledged
  readonly leaseMs: number
  readonly append: (append: Append) => Promise<void>
  /** Sets the session aside, with a new journal id: readers start over. */
  readonly setAside: (sessionId: string, report: FaultReport) => Promise<void>
}

/** `complete`: nothing that was acknowledged is missing. */
export type Restored = 'restored' | 'gone' | 'complete'

export class Rewinds {
  readonly #parts: RewindParts
  #era: number | undefined
  #claimsFrom = 0
  #comparing: Promise<void> = Promise.resolve()
  #isComparing = false
  /** The timeline has changed, and not everything was compared since. */
  #isDue = false

  constructor(parts: RewindParts) {
    this.#parts = parts
  }

  /** The era in which this daemon may claim. Undefined while claims are on hold (I2). */
  get claimEra(): number | undefined {
    const isOnHold = this.#isDue || this.#isComparing || times().monotonic < this.#claimsFrom
    return isOnHold ? undefined : this.#era
  }

  /** A renewal says in which era the database is. */
  heard(era: number): void {
    const before = this.#era
    this.#era = era
    if (before !== undefined && before !== era) {
      this.#claimsFrom = times().monotonic + this.#parts.leaseMs
      this.#isDue = true
    }
    if (this.#isDue && !this.#isComparing) void this.compare().catch(() => undefined) // the next renewal tries again
  }

  /** Compares what was acknowledged here with what the database has. */
  compare(): Promise<void> {
    this.#isComparing = true
    this.#comparing = this.#comparing
      .catch(() => undefined) // the one before
      .then(() => this.#compareAll())
      .finally(() => {
        this.#isComparing = false
      })
    return this.#comparing
  }

  /** Appends the whole missing tail again, if it is known. Repeatable: what has landed is not appended twice. */
  async restore(connection: Connection, sessionId: string, end: JournalEnd): Promise<Restored> {
    const { acknowledged } = this.#parts
    if ((acknowledged.heads.get(sessionId)?.lastSeq ?? 0) <= end.lastSeq) return 'complete'
    const tail = acknowledged.tailAfter(sessionId, end)
    if (tail === undefined) return 'gone'
    for (const hashed of tail) {
      const rows = await connection.queryPlanned(APPEND, valuesOf([hashed]))
      if (hashed.append.events.length === 0 || writtenIn(rows).has(sessionId)) continue
      // The first attempt may have committed only now: its connection was given up, not the statement.
      const missed = await missedAppends(connection, [hashed])
      if (missed.get(sessionId) !== 'written') return 'gone'
    }
    return 'restored'
  }

  // ---- details ----

  async #compareAll(): Promise<void> {
    this.#isDue = false
    const all = [...this.#parts.acknowledged.heads.keys()]
    try {
      for (let at = 0; at < all.length; at += PAGE) {
        const rewoundOnes = await this.#rewoundOf(all.slice(at, at + PAGE))
        for (const found of rewoundOnes) await this.#mend(found)
      }
    } catch (error) {
      this.#isDue = true
      throw error
    }
  }

  /** Those whose last acknowledged event is not in the database. What is acknowledged meanwhile does not count. */
  async #rewoundOf(ids: readonly string[]): Promise<readonly Found[]> {
    const { acknowledged, pool } = this.#parts
    const known = new Map(
      ids.flatMap((id) => {
        const head = acknowledged.heads.get(id)
        return head === undefined ? [] : [[id, { seq: head.lastSeq, hash: head.hash }] as const]
      }),
    )
    const rows = await pool.query(COMPARE, [[...known.keys()], [...known.values()].map(({ seq }) => seq)])
    return rows.flatMap((row) => {
      const id = textIn(row, 'session_id')
      const { seq, hash } = known.get(id) ?? { seq: 0, hash: null }
      const isThere = textOrNullIn(row, 'hash') === hash
      return isThere || row['set_aside'] === true ? [] : [{ id, seq, lastSeq: numberIn(row, 'last_seq') }]
    })
  }

  /** An empty append detects that the journal is too short, and appends the missing tail again. */
  async #mend(found: Found): Promise<void> {
    const { acknowledged, append, setAside } = this.#parts
    const { id } = found
    let left: Found | undefined = found
    let fault = rewound(id, Math.min(found.lastSeq, found.seq - 1))
    for (let attempt = 0; attempt < MENDS_MAX && left !== undefined; attempt += 1) {
      const last = acknowledged.lastOf(id)?.append
      if (left.lastSeq >= left.seq || last === undefined) break
      try {
        return await append({ sessionId: id, epoch: last.epoch, after: last.after + last.events.length, events: [] })
      } catch (thrown) {
        if (!(thrown instanceof Fault) || LATER.has(thrown.category)) throw thrown // compared again then
        if (thrown.category === 'journal_corrupt') fault = thrown
        if (thrown.category !== 'lease_lost') break
      }
      left = (await this.#rewoundOf([id]))[0] // I3
    }
    if (left === undefined) return
    await setAside(id, fault.report)
    acknowledged.forget(id)
  }
}

/** A journal that ends before the event `seq` that was acknowledged, or has another one there. */
type Found = { readonly id: string; readonly seq: number; readonly lastSeq: number }

/** Events were acknowledged, and the database does not have them any more. */
export const rewound = (sessionId: string, lastSeq: number): Fault =>
  new Fault('journal_corrupt', {
    boundary: 'journal',
    facts: { name: `session ${sessionId}`, detail: `a failover of the database lost its events after ${lastSeq}` },
    errorRaw: `journal_rewound: the journal ends at ${lastSeq}`,
  })

const PAGE = 500
const MENDS_MAX = 3
const LATER: ReadonlySet<string> = new Set(['journal_unreachable', 'journal_full', 'shutting_down'])

const COMPARE = `
SELECT h.session_id, h.last_seq, h.set_aside, encode(e.hash, 'hex') AS hash
FROM unnest($1::uuid[], $2::int[]) AS a(session_id, seq) JOIN heads h USING (session_id)
LEFT JOIN events e ON e.session_id = a.session_id AND e.seq = a.seq`
