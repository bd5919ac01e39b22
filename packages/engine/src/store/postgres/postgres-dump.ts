/** The sessions of a shared store, to be exported, checked or imported. Other daemons may run meanwhile. */
import { faultNotesIn } from '../../turn/fault-history.ts'
import { EVENT_BYTES } from '../sqlite-open.ts'
import { numberIn, type Row, textIn } from '../sqlite-statements.ts'
import { CHAIN_START } from '../chain.ts'
import type { DumpedEvent, DumpedSession, DumpSource, DumpTarget, Stray } from '../dump.ts'
import type { KeyRow } from '../store.ts'
import { Connection } from './connection.ts'
import { FAULTS } from './fault-rows.ts'
import { JournalRows } from './journal-rows.ts'
import { pgFault } from './pg-fault.ts'
import { Pool } from './pool.ts'
import { EVENTS_VERSION } from './schema.ts'
import { ROW_COLUMNS, sessionOf } from './session-rows.ts'
import { arraysOf, namesOf, unnested } from './unnest.ts'
import { bytea, searchable } from './values.ts'

const ROWS_AT_ONCE = 1_000
const TURNS_MAX = 1_000_000

export class PostgresDump implements DumpSource, DumpTarget {
  readonly #pool: Pool
  readonly #connection: Connection

  constructor(url: string) {
    this.#pool = new Pool(url, 1)
    this.#connection = new Connection({ url, waitMs: 60_000 })
  }

  async *sessions(): AsyncGenerator<DumpedSession> {
    for (let after = ''; ;) {
      const rows = await this.#pool.query(PAGE, [after === '' ? null : after, 100])
      for (const row of rows) {
        const session = sessionOf(row)
        after = session.id
        const events = await this.#events(session.id, session.lastSeq)
        const turns = await new JournalRows(this.#pool).turns(session.id, undefined, TURNS_MAX)
        yield { session, events, turns, keys: await this.#keys(session.id) }
      }
      if (rows.length === 0) return
    }
  }

  async *strays(): AsyncGenerator<Stray> {
    for (const row of await this.#connection.query(HEADLESS)) yield { id: textIn(row, 'id'), what: 'no head' }
    for (let after: string | null = null; ;) {
      const rows: readonly Row[] = await this.#connection.query(STRAY_EVENTS, [after, ROWS_AT_ONCE])
      for (const row of rows) {
        after = textIn(row, 'id')
        if (row['is_known'] !== true) yield { id: after, what: 'no session' }
        else if (row['is_longer'] === true) yield { id: after, what: 'events after its end' }
      }
      if (rows.length === 0) return
    }
  }

  async head(id: string): ReturnType<DumpTarget['head']> {
    const [row] = await this.#pool.query(
      "SELECT last_seq, encode(head, 'hex') AS hash FROM heads WHERE session_id = $1",
      [id],
    )
    return row === undefined ? undefined : { lastSeq: numberIn(row, 'last_seq'), hash: textIn(row, 'hash') }
  }

  /** In one transaction: if it breaks, the session is not there, and the import can be repeated. */
  async put(dumped: DumpedSession): Promise<void> {
    const connection = this.#connection
    try {
      await connection.query('BEGIN')
      await this.#insert(dumped)
      await connection.query('COMMIT')
    } catch (error) {
      await connection.query('ROLLBACK').catch(() => undefined) // a connection that broke has rolled back
      throw pgFault(error)
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#pool.end(), this.#connection.end()])
  }

  async #insert({ session, events, turns, keys }: DumpedSession): Promise<void> {
    const { id, journal, createdAt, updatedAt, data, quarantined, turn, epoch, lastSeq, state, turnId, suspect } =
      session
    const { boxId, title, workspace } = searchable(data)
    const fault = quarantined ?? turn?.fault ?? null
    const bytes = events.reduce((sum, { body }) => sum + body.length + EVENT_BYTES, 0)
    const shown = [turn?.state ?? null, fault?.category ?? null, fault?.class ?? null, turn?.unknownOutcomes ?? 0]
    const prompt = searchable({ ...data, title: turn?.prompt ?? '' }).title
    const texts = [quarantined, turn].map((value) => (value === null ? null : JSON.stringify(value)))
    const row = [id, journal, createdAt, updatedAt, JSON.stringify(data), boxId, title, workspace]
    await this.#connection.query(SESSION, [...row, ...shown, ...texts, prompt])
    const head = bytea(events.at(-1)?.hash ?? CHAIN_START)
    const isAside = quarantined !== null
    const values = [id, epoch, lastSeq, head, bytes, state, turnId, suspect, isAside, EVENTS_VERSION]
    await this.#connection.query(HEAD, values)
    for (let at = 0; at < events.length; at += ROWS_AT_ONCE)
      await this.#insertEvents(id, events.slice(at, at + ROWS_AT_ONCE))
    await this.#connection.query(TURNS, [
      turns.map((each) => each.turnId),
      turns.map(() => id),
      turns.map(({ view }) => JSON.stringify(view)),
      turns.map(({ cancel }) => (cancel === null ? null : JSON.stringify(cancel))),
    ])
    const faults = faultNotesIn(events.map(({ body }) => body))
    await this.#connection.query(FAULT_ROWS, arraysOf({ f: FAULTS }, [{ append: { sessionId: id, faults } }]))
    await this.#connection.query(KEYS, [
      keys.map(({ scope }) => scope),
      keys.map(({ key }) => key),
      keys.map(({ requestHash }) => requestHash),
      keys.map(({ receipt }) => receipt),
    ])
  }

  async #insertEvents(id: string, events: readonly DumpedEvent[]): Promise<void> {
    await this.#connection.query(EVENTS, [
      id,
      events.map(({ seq }) => seq),
      events.map(({ epoch }) => epoch),
      events.map(({ type }) => type),
      events.map(({ turnId }) => turnId),
      events.map(({ body }) => body),
      events.map(({ hash }) => bytea(hash)),
    ])
  }

  async #events(id: string, lastSeq: number): Promise<readonly DumpedEvent[]> {
    const events: DumpedEvent[] = []
    for (let after = 0; after < lastSeq; after += ROWS_AT_ONCE) {
      const rows = await this.#pool.query(EVENTS_OF, [id, after, Math.min(after + ROWS_AT_ONCE, lastSeq)])
      for (const row of rows) {
        events.push({
          seq: numberIn(row, 'seq'),
          epoch: numberIn(row, 'epoch'),
          type: textIn(row, 'type'),
          turnId: textIn(row, 'turn_id'),
          body: textIn(row, 'body'),
          hash: textIn(row, 'hash'),
        })
      }
    }
    return events
  }

  async #keys(scope: string): Promise<readonly KeyRow[]> {
    const rows = await this.#pool.query('SELECT key, request_hash, receipt FROM keys WHERE scope = $1', [scope])
    return rows.map((row) => ({
      scope,
      key: textIn(row, 'key'),
      requestHash: textIn(row, 'request_hash'),
      receipt: textIn(row, 'receipt'),
    }))
  }
}

// ---- details ----

const PAGE = `
SELECT ${ROW_COLUMNS} FROM sessions s JOIN heads h ON h.session_id = s.id LEFT JOIN daemons d ON d.boot_id = h.owner
WHERE NOT s.deleting AND ($1::uuid IS NULL OR s.id > $1) ORDER BY s.id LIMIT $2`

const HEADLESS = `
SELECT id FROM sessions s WHERE NOT deleting AND NOT EXISTS (SELECT 1 FROM heads h WHERE h.session_id = s.id) ORDER BY id`

/** Jumps from session to session in the index, instead of reading all events. */
const STRAY_EVENTS = `
WITH RECURSIVE found AS (
  (SELECT session_id AS id, 1 AS nr FROM events WHERE $1::uuid IS NULL OR session_id > $1 ORDER BY session_id LIMIT 1)
  UNION ALL
  SELECT (SELECT e.session_id FROM events e WHERE e.session_id > f.id ORDER BY e.session_id LIMIT 1), f.nr + 1
  FROM found f WHERE f.id IS NOT NULL AND f.nr < $2
)
SELECT f.id, s.id IS NOT NULL AS is_known,
  NOT s.deleting AND EXISTS (SELECT 1 FROM events e WHERE e.session_id = f.id AND e.seq > h.last_seq) AS is_longer
FROM found f LEFT JOIN sessions s ON s.id = f.id LEFT JOIN heads h ON h.session_id = f.id WHERE f.id IS NOT NULL ORDER BY f.id`

const EVENTS_OF = `
SELECT seq, epoch, type, turn_id, body, encode(hash, 'hex') AS hash FROM events
WHERE session_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq`

const SESSION = `
INSERT INTO sessions (id, journal, created_at, updated_at, data, box_id, title, workspace, turn_state, category, class,
  unknown_outcomes, quarantined, turn, prompt)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`

/** Unfinished turns are due at once, as after a crash. */
const HEAD = `
INSERT INTO heads (session_id, epoch, last_seq, head, bytes, state, turn_id, suspect, set_aside, pin, wake_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp())`

const EVENTS = `
INSERT INTO events (session_id, seq, epoch, type, turn_id, body, hash)
SELECT $1, * FROM unnest($2::int[], $3::bigint[], $4::text[], $5::uuid[], $6::text[], $7::bytea[])`

const TURNS =
  'INSERT INTO turns (turn_id, session_id, view, cancel) SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[])'

const KEYS = `
INSERT INTO keys (scope, key, request_hash, receipt) SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])`

const FAULT_ROWS = `INSERT INTO faults (${namesOf(FAULTS)}) SELECT * FROM ${unnested({ f: FAULTS })('f')}`
