/**
 * After a failover that lost commits: the owner that has the missing events appends them again; any other journal is set aside, and the
 * session says which events are gone.
 *
 * I1  Nothing acknowledged disappears silently, as long as the daemon that acknowledged it comes back with its folder.
 * I2  For one lease after the database changed its timeline, no daemon claims a session: its owner comes first.
 */
import { Fault, type FaultReport } from '@breakfall/faults'
import { numberIn, textIn, textOrNullIn } from '../sqlite-statements.ts'
import type { Append } from '../store.ts'
import type { Acknowledged, JournalEnd } from './acknowledged.ts'
import { appendStatement } from './append-sql.ts'
import { times } from './clock.ts'
import type { Connection } from './connection.ts'
import type { Pool } from './pool.ts'

export type RewindParts = {
  readonly pool: Pool
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

  constructor(parts: RewindParts) {
    this.#parts = parts
  }

  /** The era in which this daemon may claim. Undefined while claims are on hold (I2). */
  get claimEra(): number | undefined {
    return this.#isComparing || times().monotonic < this.#claimsFrom ? undefined : this.#era
  }

  /** A renewal says in which era the database is. */
  heard(era: number): void {
    const before = this.#era
    this.#era = era
    if (before === undefined || before === era) return
    this.#claimsFrom = times().monotonic + this.#parts.leaseMs
    void this.compare().catch(() => undefined) // the next failed append detects it
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
      const { text, values } = appendStatement([hashed])
      const rows = await connection.query(text, values)
      if (rows.length === 0 && hashed.append.events.length > 0) return 'gone'
    }
    return 'restored'
  }

  // ---- details ----

  async #compareAll(): Promise<void> {
    const { acknowledged, pool } = this.#parts
    const all = [...acknowledged.heads]
    for (let at = 0; at < all.length; at += PAGE) {
      const page = all.slice(at, at + PAGE)
      const rows = await pool.query(COMPARE, [page.map(([id]) => id), page.map(([, { lastSeq }]) => lastSeq)])
      for (const row of rows) {
        const id = textIn(row, 'session_id')
        const known = acknowledged.heads.get(id)
        if (known === undefined || textOrNullIn(row, 'hash') === known.hash) continue
        if (row['set_aside'] !== true) await this.#mend(id, known.lastSeq, numberIn(row, 'last_seq'))
      }
    }
  }

  /** An empty append detects that the journal is too short, and appends the missing tail again. */
  async #mend(sessionId: string, seq: number, lastSeq: number): Promise<void> {
    const { acknowledged, append, setAside } = this.#parts
    const last = acknowledged.lastOf(sessionId)?.append
    try {
      if (lastSeq >= seq || last === undefined) throw rewound(sessionId, Math.min(lastSeq, seq - 1))
      await append({ sessionId, epoch: last.epoch, after: last.after + last.events.length, events: [] })
    } catch (thrown) {
      const fault =
        thrown instanceof Fault && thrown.category === 'journal_corrupt' ? thrown : rewound(sessionId, lastSeq)
      await setAside(sessionId, fault.report)
      acknowledged.forget(sessionId)
    }
  }
}

/** Events were acknowledged, and the database does not have them any more. */
export const rewound = (sessionId: string, lastSeq: number): Fault =>
  new Fault('journal_corrupt', {
    boundary: 'journal',
    facts: { name: `session ${sessionId}`, detail: `a failover of the database lost its events after ${lastSeq}` },
    errorRaw: `journal_rewound: the journal ends at ${lastSeq}`,
  })

const PAGE = 500

const COMPARE = `
SELECT h.session_id, h.last_seq, h.set_aside, encode(e.hash, 'hex') AS hash
FROM unnest($1::uuid[], $2::int[]) AS a(session_id, seq) JOIN heads h USING (session_id)
LEFT JOIN events e ON e.session_id = a.session_id AND e.seq = a.seq`
