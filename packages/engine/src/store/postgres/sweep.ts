/**
 * Removes what no caller asks for any more: old outcomes, old keys of creations, daemons that died long ago. Has sessions looked at that
 * an earlier version left without a time: it knew none for a turn that waits for an approval.
 */
import { CREATED } from '../store.ts'
import type { Pool } from './pool.ts'

const EVERY_MS = 60_000

/** One statement each; any daemon may run them, at any time. */
const SWEEPS = [
  "DELETE FROM commands WHERE outcome IS NOT NULL AND at < clock_timestamp() - interval '1 hour'",
  `DELETE FROM keys WHERE scope = '${CREATED}' AND at < clock_timestamp() - interval '7 days'`,
  "DELETE FROM daemons d WHERE state = 'dead' AND lease_until < clock_timestamp() - interval '1 day'",
  "UPDATE heads SET wake_at = clock_timestamp() WHERE wake_at IS NULL AND owner IS NULL AND NOT set_aside AND state <> 'idle'",
  "DELETE FROM enrolments WHERE at < clock_timestamp() - interval '7 days'", // the codes have long expired
]

export class Sweep {
  readonly #pool: Pick<Pool, 'query'>
  readonly #timer: NodeJS.Timeout

  constructor(pool: Pick<Pool, 'query'>, everyMs = EVERY_MS) {
    this.#pool = pool
    this.#timer = setInterval(() => void this.run(), everyMs)
    this.#timer.unref()
  }

  async run(): Promise<void> {
    for (const sql of SWEEPS) {
      await this.#pool.query(sql).catch(() => undefined) // again in a minute, here or elsewhere
    }
  }

  close(): void {
    clearInterval(this.#timer)
  }
}
