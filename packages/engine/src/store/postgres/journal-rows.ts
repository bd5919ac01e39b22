/** Events, turns and keys, as they are read back. */
import { Fault } from '@breakfall/faults'
import { CHAIN_START, isLink } from '../chain.ts'
import { jsonIn, numberIn, type Row, textIn, textOrNullIn } from '../sqlite-statements.ts'
import type { KeyRow, StoredEvent, TurnRow } from '../store.ts'
import type { Pool } from './pool.ts'
import { IS_LEFT } from './session-rows.ts'
import { isUuid } from './values.ts'

export class JournalRows {
  readonly #pool: Pool

  constructor(pool: Pool) {
    this.#pool = pool
  }

  async read(sessionId: string, after: number, limit: number, bytesMax?: number): Promise<readonly StoredEvent[]> {
    const rows = isUuid(sessionId)
      ? await this.#pool.query(READ, [sessionId, after, limit, bytesMax ?? 2 ** 31 - 1])
      : []
    const [first] = rows
    if (first === undefined) throw new Fault('not_found', { facts: { name: 'such session' }, boundary: 'journal' })
    let hash = after === 0 ? CHAIN_START : textOrNullIn(first, 'hash_before')
    let seq = after
    const events: StoredEvent[] = []
    for (const row of rows.filter(({ body }) => body !== null)) {
      seq += 1
      const [type, body, kept] = [textIn(row, 'type'), textIn(row, 'body'), textIn(row, 'hash')]
      const link = { seq, epoch: numberIn(row, 'epoch'), type, body }
      if (numberIn(row, 'seq') !== seq || hash === null || !isLink(hash, link, kept)) throw corrupt(sessionId, seq)
      events.push({ seq, type, turnId: textIn(row, 'turn_id'), body })
      hash = kept
    }
    if (events.length === 0 && after < numberIn(first, 'last_seq')) throw corrupt(sessionId, after + 1)
    return events
  }

  async turn(turnId: string): Promise<TurnRow | undefined> {
    if (!isUuid(turnId)) return undefined
    return (await this.#pool.query(`${TURN} WHERE t.turn_id = $1 AND NOT s.deleting`, [turnId])).map(turnOf)[0]
  }

  async turns(sessionId: string, before: string | undefined, limit: number): Promise<readonly TurnRow[]> {
    if (!isUuid(sessionId) || (before !== undefined && !isUuid(before))) return []
    const which = 'WHERE t.session_id = $1 AND NOT s.deleting AND ($2::uuid IS NULL OR t.turn_id < $2)'
    const rows = await this.#pool.query(`${TURN} ${which} ORDER BY t.turn_id DESC LIMIT $3`, [
      sessionId,
      before ?? null,
      limit,
    ])
    return rows.map(turnOf)
  }

  async key(scope: string, key: string): Promise<KeyRow | undefined> {
    const [row] = await this.#pool.query(KEY, [scope, key])
    if (row === undefined) return undefined
    return { scope, key, requestHash: textIn(row, 'request_hash'), receipt: textIn(row, 'receipt') }
  }
}

// ---- details ----

const KEY = `SELECT request_hash, receipt FROM keys k WHERE scope = $1 AND key = $2 AND NOT ${IS_LEFT}`

/** A row without an event if there are none: it says how far the journal reaches. The size of a body is known without reading it. */
const READ = `
SELECT h.last_seq, encode(b.hash, 'hex') AS hash_before, e.seq, e.epoch, e.type, e.turn_id, e.body, encode(e.hash, 'hex') AS hash
FROM heads h
LEFT JOIN events b ON b.session_id = h.session_id AND b.seq = $2
LEFT JOIN LATERAL (
  SELECT e.*, sum(octet_length(e.body)) OVER (ORDER BY e.seq) AS size FROM events e
  WHERE e.session_id = h.session_id AND e.seq > $2 AND e.seq <= $2::int + $3::int
) e ON e.size <= $4 OR e.seq = $2::int + 1
WHERE h.session_id = $1 ORDER BY e.seq`

const TURN = 'SELECT t.turn_id, t.session_id, t.view, t.cancel FROM turns t JOIN sessions s ON s.id = t.session_id'

const turnOf = (row: Row): TurnRow => ({
  turnId: textIn(row, 'turn_id'),
  sessionId: textIn(row, 'session_id'),
  view: jsonIn<TurnRow['view']>(row, 'view'),
  cancel: jsonIn<TurnRow['cancel']>(row, 'cancel'),
})

const corrupt = (sessionId: string, seq: number): Fault =>
  new Fault('journal_corrupt', {
    facts: { name: `session ${sessionId}`, detail: `the first bad event is ${seq}` },
    errorRaw: `hash chain of session ${sessionId} breaks at seq ${seq}`,
  })
