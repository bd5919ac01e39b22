/** The runners that the fleet knows. An address is stored only after a daemon has called it and the right runner answered. */
import { jsonIn, numberIn, type Row, textIn } from '../sqlite-statements.ts'
import type { LeftBox, LostBecause, RunnerFacts, RunnerRegistry, RunnerRow, RunnerState } from '../sharing.ts'
import type { PgValue } from './connection.ts'
import type { Owners } from './owners.ts'
import type { Pool } from './pool.ts'
import { isText } from './values.ts'

export class RunnerRows implements RunnerRegistry {
  readonly #pool: Pool
  readonly #owners: Owners

  constructor(pool: Pool, owners: Owners) {
    this.#pool = pool
    this.#owners = owners
  }

  async get(runnerId: string): Promise<RunnerRow | undefined> {
    if (!isText(runnerId)) return undefined
    return (await this.#pool.query(`${ROW} WHERE runner_id = $1`, [runnerId])).map(runnerOf)[0]
  }

  async list(): Promise<readonly RunnerRow[]> {
    return (await this.#pool.query(`${ROW} ORDER BY runner_id`)).map(runnerOf)
  }

  async verified(facts: RunnerFacts): Promise<RunnerRow> {
    const [row = {}] = await this.#pool.query(VERIFIED, valuesOf(facts))
    const runner = runnerOf(row)
    if (runner.state === 'lost') return runner
    await this.#owners.wake(`runner:${facts.runnerId}`)
    await this.#owners.wake('runner:any')
    return runner
  }

  async seen(facts: RunnerFacts): Promise<RunnerRow | undefined> {
    return (await this.#pool.query(SEEN, valuesOf(facts))).map(runnerOf)[0]
  }

  async setState(runnerId: string, state: RunnerState, because?: LostBecause): Promise<boolean> {
    if (!isText(runnerId)) return false
    const isSet = (await this.#pool.query(SET_STATE, [runnerId, state, because ?? null])).length > 0
    if (isSet && state !== 'draining') await this.#owners.wake(`runner:${runnerId}`)
    if (isSet && state === 'live') await this.#owners.wake('runner:any')
    return isSet
  }

  async dropSilent(afterMs: number): Promise<readonly string[]> {
    const ids = (await this.#pool.query(DROP_SILENT, [afterMs])).map((row) => textIn(row, 'runner_id'))
    for (const runnerId of ids) await this.#owners.wake(`runner:${runnerId}`)
    return ids
  }

  async enroll(code: string, runnerId: string): Promise<boolean> {
    return (await this.#pool.query(ENROLL, [code, runnerId])).length > 0
  }

  async leave(boxes: readonly LeftBox[]): Promise<void> {
    if (boxes.length > 0) await this.#pool.query(LEAVE, boxValues(boxes))
  }

  async leftBoxes(runnerId: string): Promise<readonly LeftBox[]> {
    const rows = await this.#pool.query('SELECT box_id, epoch FROM left_boxes WHERE runner_id = $1 ORDER BY 1', [
      runnerId,
    ])
    return rows.map((row) => ({ runnerId, boxId: textIn(row, 'box_id'), epoch: numberIn(row, 'epoch') }))
  }

  async forget(boxes: readonly LeftBox[]): Promise<void> {
    if (boxes.length > 0) await this.#pool.query(FORGET, boxValues(boxes))
  }
}

// ---- details ----

const AGE = `(extract(epoch FROM clock_timestamp() - last_seen) * 1000)::bigint AS silent_ms`

const ROW = `SELECT *, ${AGE} FROM runners`

const FACTS =
  'boot_id = $2, url = $3, capacity = $4, boxes = $5, labels = $6, workspaces = $7, isolation = $8, version = $9, machine = $10'

const VERIFIED = `
INSERT INTO runners (runner_id, boot_id, url, capacity, boxes, labels, workspaces, isolation, version, machine, state, verified_at, last_seen)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'live', clock_timestamp(), clock_timestamp())
ON CONFLICT (runner_id) DO UPDATE SET ${FACTS}, verified_at = clock_timestamp(), last_seen = clock_timestamp(),
  state = CASE WHEN runners.state = 'draining' AND runners.boot_id <> $2 THEN 'live' ELSE runners.state END
RETURNING *, ${AGE}`

const SEEN = `UPDATE runners SET ${FACTS}, last_seen = clock_timestamp() WHERE runner_id = $1 AND boot_id = $2 AND url = $3 RETURNING *, ${AGE}`

const SET_STATE = `
UPDATE runners SET state = $2, lost_because = CASE WHEN $2 = 'lost' THEN $3 END
WHERE runner_id = $1 AND ($2 <> 'draining' OR state <> 'lost') RETURNING runner_id`

const DROP_SILENT = `
UPDATE runners SET state = 'lost', lost_because = 'silent'
WHERE state <> 'lost' AND last_seen < clock_timestamp() - $1 * interval '1 ms' RETURNING runner_id`

const ENROLL = `
INSERT INTO enrolments (code, runner_id) VALUES ($1, $2)
ON CONFLICT (code) DO UPDATE SET runner_id = excluded.runner_id WHERE enrolments.runner_id = excluded.runner_id RETURNING code`

const LEAVE = `
INSERT INTO left_boxes (runner_id, box_id, epoch) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
ON CONFLICT (runner_id, box_id) DO UPDATE SET epoch = greatest(left_boxes.epoch, excluded.epoch)`

const FORGET = `
DELETE FROM left_boxes l USING unnest($1::text[], $2::text[], $3::bigint[]) AS f(runner_id, box_id, epoch)
WHERE l.runner_id = f.runner_id AND l.box_id = f.box_id AND l.epoch <= f.epoch`

const valuesOf = (facts: RunnerFacts): readonly PgValue[] => [
  facts.runnerId,
  facts.bootId,
  facts.url,
  facts.capacity,
  facts.boxes,
  JSON.stringify(facts.labels),
  JSON.stringify(facts.workspaces),
  facts.isolation,
  facts.version,
  facts.machine,
]

const boxValues = (boxes: readonly LeftBox[]): readonly PgValue[] => [
  boxes.map(({ runnerId }) => runnerId),
  boxes.map(({ boxId }) => boxId),
  boxes.map(({ epoch }) => epoch),
]

const STATES: readonly RunnerState[] = ['live', 'draining', 'lost']

const runnerOf = (row: Row): RunnerRow => ({
  runnerId: textIn(row, 'runner_id'),
  bootId: textIn(row, 'boot_id'),
  url: textIn(row, 'url'),
  state: STATES.find((state) => state === row['state']) ?? 'lost',
  verifiedAt: textIn(row, 'verified_at'),
  lastSeen: textIn(row, 'last_seen'),
  capacity: numberIn(row, 'capacity'),
  boxes: numberIn(row, 'boxes'),
  labels: jsonIn<string[]>(row, 'labels'),
  workspaces: jsonIn<string[]>(row, 'workspaces'),
  isolation: textIn(row, 'isolation'),
  version: textIn(row, 'version'),
  machine: textIn(row, 'machine'),
  lostBecause: row['lost_because'] === 'silent' ? 'silent' : row['lost_because'] === 'dropped' ? 'dropped' : null,
  silentMs: numberIn(row, 'silent_ms'),
})
