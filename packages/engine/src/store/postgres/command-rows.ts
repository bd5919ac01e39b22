/**
 * Commands to the owners of sessions.
 *
 * I1  `asked` in the head counts them under the row's lock, so a session that is being released with a command open is due at once.
 * I2  A command is carried out or withdrawn, never both and never neither: both lock its row.
 */
import { numberIn, type Row, textIn, textOrNullIn } from '../sqlite-statements.ts'
import type { CommandKind, CommandRow, Inbox, NewCommand } from '../sharing.ts'
import { Fault } from '@breakfall/faults'
import { conflictIn } from './pg-fault.ts'
import type { Pool } from './pool.ts'
import { isUuid } from './values.ts'

export class CommandRows {
  readonly #pool: Pool
  readonly #bootId: () => string

  constructor(pool: Pool, bootId: () => string) {
    this.#pool = pool
    this.#bootId = bootId
  }

  async submit(command: NewCommand): Promise<CommandRow> {
    const { id, sessionId, kind, body, key = null, requestHash = null } = command
    try {
      const [row] = await this.#pool.query(SUBMIT, [id, sessionId, kind, body, key, requestHash])
      if (row !== undefined) return { ...command, nr: numberIn(row, 'nr'), outcome: null }
    } catch (error) {
      // Its answer was lost, or the caller sent the same request twice.
      const found = conflictIn(error) === undefined ? undefined : await this.#same(id, sessionId, key)
      if (found === undefined) throw error
      return found
    }
    throw new Fault('not_found', { facts: { name: 'such session' }, boundary: 'journal' })
  }

  async withdraw(id: string): Promise<boolean> {
    if (!isUuid(id)) return false
    const [row = {}] = await this.#pool.query(WITHDRAW, [id])
    return row['withdrawn'] === true
  }

  async get(id: string): Promise<CommandRow | undefined> {
    if (!isUuid(id)) return undefined
    return (await this.#pool.query(`SELECT ${COLUMNS} FROM commands c WHERE c.id = $1`, [id])).map(commandOf)[0]
  }

  async open(sessionIds?: readonly string[]): Promise<readonly Inbox[]> {
    const rows =
      sessionIds === undefined
        ? await this.#pool.query(OPEN_OF_OWNER, [this.#bootId()])
        : await this.#pool.query(OPEN_OF_SESSIONS, [sessionIds.filter(isUuid)])
    const groups = Map.groupBy(rows, (row) => textIn(row, 'session'))
    return [...groups].map(([sessionId, group]) => ({
      sessionId,
      asked: numberIn(group[0] ?? {}, 'asked'),
      seen: numberIn(group[0] ?? {}, 'seen'),
      commands: group.filter(({ id }) => id !== null).map(commandOf),
    }))
  }

  async #same(id: string, sessionId: string, key: string | null): Promise<CommandRow | undefined> {
    const which = 'c.id = $1 OR (c.session_id = $2 AND c.key = $3)'
    const rows = await this.#pool.query(`SELECT ${COLUMNS} FROM commands c WHERE ${which}`, [id, sessionId, key])
    return rows.map(commandOf)[0]
  }
}

// ---- details ----

const COLUMNS = 'c.id, c.session_id, c.nr, c.kind, c.body, c.key, c.request_hash, c.outcome'

const SUBMIT = `
WITH h AS (
  UPDATE heads SET
    asked = asked + 1,
    wake_at = CASE WHEN owner IS NULL THEN clock_timestamp() ELSE wake_at END,
    set_aside = set_aside AND $3 <> 'delete'
  WHERE session_id = $2 RETURNING session_id, asked
), s AS (
  UPDATE sessions SET deleting = true FROM h WHERE id = h.session_id AND $3 = 'delete'
)
INSERT INTO commands (id, session_id, nr, kind, body, key, request_hash)
SELECT $1, h.session_id, h.asked, $3, $4, $5, $6 FROM h RETURNING nr`

/** True also if its withdrawal is repeated: its row is gone then, and a command that was carried out keeps its row for an hour. */
const WITHDRAW = `
WITH d AS (DELETE FROM commands WHERE id = $1 AND outcome IS NULL RETURNING id)
SELECT EXISTS (SELECT 1 FROM d) OR NOT EXISTS (SELECT 1 FROM commands WHERE id = $1) AS withdrawn`

const OPEN = `
SELECT h.session_id AS session, h.asked, h.seen, ${COLUMNS} FROM heads h
LEFT JOIN commands c ON c.session_id = h.session_id AND c.outcome IS NULL`
const OPEN_OF_OWNER = `${OPEN} WHERE h.owner = $1 AND h.asked > h.seen ORDER BY h.session_id, c.nr`
const OPEN_OF_SESSIONS = `${OPEN} WHERE h.session_id = ANY ($1::uuid[]) AND h.asked > h.seen ORDER BY h.session_id, c.nr`

const KINDS: readonly CommandKind[] = ['prompt', 'cancel', 'resume', 'delete', 'change', 'approve']

const commandOf = (row: Row): CommandRow => ({
  id: textIn(row, 'id'),
  sessionId: textIn(row, 'session_id'),
  nr: numberIn(row, 'nr'),
  kind: KINDS.find((kind) => kind === row['kind']) ?? 'prompt',
  body: textIn(row, 'body'),
  key: textOrNullIn(row, 'key') ?? undefined,
  requestHash: textOrNullIn(row, 'request_hash') ?? undefined,
  outcome: textOrNullIn(row, 'outcome'),
})
