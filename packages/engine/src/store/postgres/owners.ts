/**
 * Who owns which session, as statements.
 *
 * I1  Only a daemon that is not declared dead claims, and a claim raises the epoch in the same statement.
 * I2  What is due is claimed by one daemon, however many look at the same time: a row that another one holds is skipped.
 * I3  A daemon that has not noticed a failover claims nothing: the owners compare their journals first.
 */
import { Fault } from '@breakfall/faults'
import { numberIn, type Row, textIn } from '../sqlite-statements.ts'
import type { SessionRow } from '../../rows.ts'
import type { Wait, WorkQuery } from '../store.ts'
import { unreachable } from './pg-fault.ts'
import type { Pool } from './pool.ts'
import { EVENTS_VERSION } from './schema.ts'
import { ROW_COLUMNS, sessionOf } from './session-rows.ts'
import { isUuid } from './values.ts'

const SUSPECT_MIN = 2 // takeovers without progress from which on a session is claimed last, and alone

export type Claimed = { readonly row: SessionRow; readonly head: string }

export class Owners {
  readonly #pool: Pick<Pool, 'query'>
  readonly #bootId: () => string
  readonly #claimEra: () => number | undefined

  /** `claimEra`: undefined while nothing may be claimed. */
  constructor(pool: Pick<Pool, 'query'>, bootId: () => string, claimEra: () => number | undefined) {
    this.#pool = pool
    this.#bootId = bootId
    this.#claimEra = claimEra
  }

  async claim(id: string): Promise<Claimed | 'owned' | undefined> {
    if (!isUuid(id)) return undefined
    const bootId = this.#bootId()
    const era = this.#claimEra()
    if (era === undefined) throw unreachable(new Error('the database has just failed over'))
    const [row] = await this.#pool.query(CLAIM, [id, bootId, EVENTS_VERSION, era])
    if (row !== undefined) return claimedOf(row)
    const [why] = await this.#pool.query(WHY_NOT, [id, bootId, EVENTS_VERSION])
    if (why === undefined) return undefined
    if (why['live'] !== true) throw declaredDead()
    if (why['newer'] !== true) return 'owned'
    throw new Fault('journal_corrupt', {
      error: `A newer version wrote session ${id}. A daemon of that version continues it.`,
    })
  }

  async claimWork({ limit, suspects = false }: WorkQuery): Promise<readonly Claimed[]> {
    const [min, max] = suspects ? [SUSPECT_MIN, 2 ** 15 - 1] : [0, SUSPECT_MIN - 1]
    const era = this.#claimEra()
    if (era === undefined) return []
    const rows = await this.#pool.query(CLAIM_WORK, [this.#bootId(), EVENTS_VERSION, min, max, limit, era])
    return rows.map(claimedOf).toSorted((a, b) => a.row.suspect - b.row.suspect || (a.row.id < b.row.id ? -1 : 1))
  }

  async held(): Promise<readonly string[]> {
    const rows = await this.#pool.query('SELECT session_id FROM heads WHERE owner = $1', [this.#bootId()])
    return rows.map((row) => textIn(row, 'session_id'))
  }

  async raise(id: string, epoch: number, above: number): Promise<Claimed | undefined> {
    const [row] = await this.#pool.query(RAISE, [id, epoch, above, this.#bootId()])
    return row === undefined ? undefined : claimedOf(row)
  }

  async waits(): Promise<readonly Wait[]> {
    const rows = await this.#pool.query(
      'SELECT wait_for, count(*) AS sessions FROM heads WHERE wait_for IS NOT NULL AND owner IS NULL GROUP BY 1',
    )
    return rows.map((row) => ({ waitFor: textIn(row, 'wait_for'), sessions: numberIn(row, 'sessions') }))
  }

  async wake(waitFor: string, limit = 2 ** 31 - 1): Promise<number> {
    return (await this.#pool.query(WAKE, [waitFor, limit])).length
  }
}

// ---- details ----

/** A moment later it is a new daemon, and can do what it was asked. */
const declaredDead = (): Fault =>
  new Fault('journal_unreachable', {
    boundary: 'journal',
    errorRaw: 'this daemon was declared dead',
    message: {
      happened: 'This daemon did not renew its lease in time, and others took over its work.',
      action: 'Nothing was done.',
      advice: 'Send the request again: this daemon is back in a moment, and any other serves it now.',
    },
  })

const claimedOf = (row: Row): Claimed => ({ row: sessionOf(row), head: textIn(row, 'head') })

/** `h` is what a statement changed. */
const changed = (update: string): string =>
  `WITH h AS (${update} RETURNING h.*)
   SELECT ${ROW_COLUMNS} FROM h JOIN sessions s ON s.id = h.session_id LEFT JOIN daemons d ON d.boot_id = h.owner`

const TAKE = `owner = d.boot_id, owned_since = clock_timestamp(), epoch = greatest(h.epoch, bf_era()) + 1, wait_for = NULL`

const CLAIM = changed(`
UPDATE heads h SET ${TAKE}, pin = greatest(h.pin, $3) FROM daemons d
WHERE h.session_id = $1 AND (h.owner IS NULL OR h.owner = $2) AND h.pin <= $3 AND d.boot_id = $2 AND d.state <> 'dead'
  AND bf_era() = $4`)

const WHY_NOT = `
SELECT EXISTS (SELECT 1 FROM daemons WHERE boot_id = $2 AND state <> 'dead') AS live, pin > $3 AS newer FROM heads WHERE session_id = $1`

const CLAIM_WORK = changed(`
UPDATE heads h SET ${TAKE}, pin = greatest(h.pin, $2) FROM (
  SELECT session_id FROM heads
  WHERE owner IS NULL AND NOT set_aside AND (state <> 'idle' OR asked > seen) AND wake_at <= clock_timestamp()
    AND pin <= $2 AND suspect BETWEEN $3 AND $4
  ORDER BY suspect, wake_at LIMIT $5 FOR UPDATE SKIP LOCKED
) due, daemons d WHERE h.session_id = due.session_id AND d.boot_id = $1 AND d.state = 'live'
  AND bf_era() = $6`)

const RAISE = changed(`
UPDATE heads h SET epoch = greatest(h.epoch, $3) + 1 WHERE h.session_id = $1 AND h.epoch = $2 AND h.owner = $4`)

const WAKE = `
UPDATE heads h SET wake_at = clock_timestamp(), wait_for = NULL FROM (
  SELECT session_id FROM heads WHERE wait_for = $1 AND owner IS NULL ORDER BY session_id LIMIT $2 FOR UPDATE SKIP LOCKED
) w WHERE h.session_id = w.session_id RETURNING h.session_id`
