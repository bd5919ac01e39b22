/** Sessions as rows: creates, finds, counts and removes them. */
import { Fault, type FaultReport } from '@breakfall/faults'
import { SESSION_STATES } from '@breakfall/wire'
import { CHAIN_START } from '../chain.ts'
import { jsonIn, numberIn, type Row, textIn, textOrNullIn } from '../sqlite-statements.ts'
import { type NewSession, type SessionOwner, type SessionPage, type SessionRow } from '../../rows.ts'
import {
  CREATED,
  type EndedQuery,
  type EndedSession,
  type KeyRow,
  type SessionHead,
  type SessionSelection,
  type StoreUsage,
} from '../store.ts'
import { conflictIn } from './pg-fault.ts'
import type { Pool } from './pool.ts'
import { countQuery, countsIn, pageQuery } from './selection.ts'
import { EVENTS_VERSION } from './schema.ts'
import { bytea, isUuid, searchable } from './values.ts'

export class SessionRows {
  readonly #pool: Pool

  constructor(pool: Pool) {
    this.#pool = pool
  }

  async create(session: NewSession, key?: KeyRow): Promise<SessionRow> {
    const { id, journal, createdAt, data } = session
    const { boxId, title, workspace } = searchable(data)
    const values = [id, journal, createdAt, JSON.stringify(data), boxId, title, workspace, bytea(CHAIN_START)]
    const keyed = key === undefined ? [null, null, null, null] : [key.scope, key.key, key.requestHash, key.receipt]
    const insert = (): Promise<unknown> => this.#pool.query(CREATE, [...values, EVENTS_VERSION, ...keyed])
    try {
      await insert().catch(async (error: unknown) => {
        if (key === undefined || conflictIn(error) !== 'keys_pkey') throw error
        const left = await this.#pool.query(REMOVE_LEFT, [key.scope, key.key])
        if (left.length === 0) throw error
        await insert()
      })
    } catch (error) {
      const index = conflictIn(error)
      const isRepeated = index !== undefined && (await this.get(id))?.journal === journal // its answer was lost
      if (!isRepeated) throw index === 'keys_pkey' ? taken(key) : error
    }
    return { ...session, ...FRESH, updatedAt: createdAt }
  }

  async get(id: string): Promise<SessionRow | undefined> {
    if (!isUuid(id)) return undefined
    return (await this.#pool.query(`${ROW} WHERE s.id = $1 AND NOT s.deleting`, [id])).map(sessionOf)[0]
  }

  async list(selection: SessionSelection): Promise<SessionPage> {
    const page = pageQuery(selection)
    const rows = (await this.#pool.query(`${ROW} ${page.sql}`, page.values)).map(sessionOf)
    if (selection.withCounts !== true) return { rows }
    const counting = countQuery(selection)
    const [counts = {}] = await this.#pool.query(counting.sql, counting.values)
    return { rows, counts: countsIn(counts) }
  }

  async ofBox(boxId: string): Promise<readonly SessionRow[]> {
    const named = await this.#pool.query(`${ROW} WHERE s.box_id = $1 AND NOT s.deleting`, [boxId])
    const own = await this.get(boxId)
    const rows = named.map(sessionOf)
    return own === undefined || own.data.box.id !== undefined ? rows : [own, ...rows]
  }

  async ended({ before, unusedBefore, skip, limit }: EndedQuery): Promise<readonly EndedSession[]> {
    const rows = await this.#pool.query(
      `SELECT s.id, s.updated_at, h.bytes FROM sessions s JOIN heads h ON h.session_id = s.id
       WHERE ${IS_ENDED} AND ($2::text IS NULL OR s.updated_at < $2) ORDER BY s.updated_at, s.id LIMIT $3 OFFSET $4`,
      [unusedBefore, before ?? null, limit, skip],
    )
    return rows.map((row) => ({
      id: textIn(row, 'id'),
      updatedAt: textIn(row, 'updated_at'),
      bytes: numberIn(row, 'bytes'),
    }))
  }

  async usage(unusedBefore: string): Promise<StoreUsage> {
    const [row = {}] = await this.#pool.query(
      `SELECT count(*) AS sessions, count(*) FILTER (WHERE ${IS_ENDED}) AS ended, coalesce(sum(h.bytes), 0)::bigint AS bytes
       FROM sessions s JOIN heads h ON h.session_id = s.id WHERE NOT s.deleting`,
      [unusedBefore],
    )
    return { sessions: numberIn(row, 'sessions'), ended: numberIn(row, 'ended'), bytes: numberIn(row, 'bytes') }
  }

  /** Hidden first, then fenced, then its events in portions, then the rest: after a crash, its next owner finishes it. */
  async remove(id: string, isIdleOnly: boolean): Promise<boolean> {
    if (!isUuid(id)) return false
    const [row] = await this.#pool.query(HIDE, [id, isIdleOnly])
    if (row === undefined) return false
    for (let seq = numberIn(row, 'last_seq'); seq > 0; seq -= EVENTS_AT_ONCE) {
      await this.#pool.query('DELETE FROM events WHERE session_id = $1 AND seq > $2', [id, seq - EVENTS_AT_ONCE])
    }
    await this.#pool.query('DELETE FROM keys WHERE scope = $1', [id])
    await this.#pool.query(DELETE, [id])
    return true
  }

  /** With a new journal id, readers start over. */
  async quarantine(id: string, report: FaultReport, journal: string | null = null): Promise<void> {
    await this.#pool.query(QUARANTINE, [id, JSON.stringify(report), report.category, report.class, journal])
  }

  async heads(ids: readonly string[]): Promise<readonly SessionHead[]> {
    const rows = await this.#pool.query(HEADS, [ids.filter(isUuid)])
    const found = new Map(rows.map((row) => [textIn(row, 'session_id'), headOf(row)]))
    return ids.flatMap((id) => found.get(id) ?? [])
  }
}

/** Whether a key `k` created a session that was deleted since. Such rows are swept when they are old. */
export const IS_LEFT = `CASE WHEN k.scope = '${CREATED}' THEN NOT EXISTS (
  SELECT 1 FROM sessions s WHERE s.id = k.receipt::uuid AND NOT s.deleting
) ELSE false END`

/** With the session's row, whoever claims or reads it. */
export const ROW_COLUMNS = `
  s.id, s.journal, s.created_at, s.updated_at, s.data, s.deleting, s.quarantined, s.turn,
  h.epoch, h.last_seq, encode(h.head, 'hex') AS head, h.state, h.turn_id, h.asked, h.seen, h.suspect, h.owner, h.owned_since, d.name`

export function sessionOf(row: Row): SessionRow {
  return {
    id: textIn(row, 'id'),
    journal: textIn(row, 'journal'),
    createdAt: textIn(row, 'created_at'),
    data: jsonIn<SessionRow['data']>(row, 'data'),
    epoch: numberIn(row, 'epoch'),
    lastSeq: numberIn(row, 'last_seq'),
    updatedAt: textIn(row, 'updated_at'),
    state: stateIn(row),
    turnId: textOrNullIn(row, 'turn_id'),
    owner: ownerIn(row),
    asked: numberIn(row, 'asked'),
    seen: numberIn(row, 'seen'),
    suspect: numberIn(row, 'suspect'),
    isDeleting: row['deleting'] === true,
    quarantined: jsonIn<FaultReport | null>(row, 'quarantined'),
    turn: jsonIn<SessionRow['turn']>(row, 'turn'),
  }
}

// ---- details ----

const EVENTS_AT_ONCE = 5_000

const REMOVE_LEFT = `DELETE FROM keys k WHERE scope = $1 AND key = $2 AND ${IS_LEFT} RETURNING key`

const FRESH = {
  owner: null,
  asked: 0,
  seen: 0,
  suspect: 0,
  isDeleting: false,
  epoch: 0,
  lastSeq: 0,
  state: 'idle',
  turnId: null,
  quarantined: null,
  turn: null,
} as const

const taken = (key: KeyRow | undefined): Fault =>
  new Fault('idempotency_conflict', { errorRaw: `key ${key?.key ?? ''} is taken` })

const ROW = `SELECT ${ROW_COLUMNS} FROM sessions s JOIN heads h ON h.session_id = s.id LEFT JOIN daemons d ON d.boot_id = h.owner`

const IS_ENDED = `h.state = 'idle' AND s.quarantined IS NULL AND NOT s.deleting AND (h.last_seq > 0 OR s.created_at < $1)`

const CREATE = `
WITH s AS (
  INSERT INTO sessions (id, journal, created_at, updated_at, data, box_id, title, workspace)
  VALUES ($1, $2, $3, $3, $4, $5, $6, $7) RETURNING id
), k AS (
  INSERT INTO keys (scope, key, request_hash, receipt) SELECT $10, $11, $12, $13 FROM s WHERE $10::text IS NOT NULL
)
INSERT INTO heads (session_id, head, pin) SELECT id, $8, $9 FROM s`

/** Its owner stays: if that daemon dies, the session becomes due, and the next owner finishes the removal. */
const HIDE = `
WITH h AS (
  UPDATE heads SET epoch = epoch + 1, asked = asked + 1, set_aside = false WHERE session_id = $1 AND (NOT $2 OR state = 'idle')
  RETURNING session_id, last_seq
), s AS (UPDATE sessions SET deleting = true FROM h WHERE id = h.session_id)
SELECT last_seq FROM h`

const DELETE = 'WITH h AS (DELETE FROM heads WHERE session_id = $1) DELETE FROM sessions WHERE id = $1'

const QUARANTINE = `
WITH h AS (UPDATE heads SET set_aside = true, owner = NULL WHERE session_id = $1)
UPDATE sessions SET quarantined = $2, category = $3, class = $4, journal = coalesce($5, journal), turn_state = CASE
  WHEN turn_state IN ('queued', 'running', 'retrying', 'parked') THEN 'failed' ELSE turn_state END
WHERE id = $1`

const HEADS = `
SELECT h.session_id, s.journal, h.epoch, h.last_seq, encode(h.head, 'hex') AS head, h.state, h.turn_id, h.owner, h.owned_since, d.name
FROM heads h JOIN sessions s ON s.id = h.session_id LEFT JOIN daemons d ON d.boot_id = h.owner
WHERE h.session_id = ANY ($1::uuid[]) AND NOT s.deleting`

const stateIn = (row: Row): SessionRow['state'] => SESSION_STATES.find((state) => state === row['state']) ?? 'idle'

function ownerIn(row: Row): SessionOwner | null {
  const bootId = textOrNullIn(row, 'owner')
  if (bootId === null) return null
  return { bootId, name: textOrNullIn(row, 'name') ?? '', since: textOrNullIn(row, 'owned_since') ?? '' }
}

const headOf = (row: Row): SessionHead => ({
  sessionId: textIn(row, 'session_id'),
  journal: textIn(row, 'journal'),
  epoch: numberIn(row, 'epoch'),
  lastSeq: numberIn(row, 'last_seq'),
  hash: textIn(row, 'head'),
  state: stateIn(row),
  turnId: textOrNullIn(row, 'turn_id'),
  owner: ownerIn(row),
})
