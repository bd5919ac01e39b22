/** The clocks of a daemon in a fleet: two of the machine, and the time that all daemons agree on. */
import type { Renewed, Times } from './lease-protocol.ts'

/** The monotonic one is the same in every thread. */
export const times = (): Times => ({ monotonic: Number(process.hrtime.bigint() / 1_000_000n), wall: Date.now() })

const ROUND_TRIP_MS_MAX = 250 // a slower answer says too little about when it was given
const SLEW = 0.05 // of the difference, at each renewal after the first
const SLOW = 0.1 // of its usual rate, while it is ahead of the database

/**
 * Follows the database's clock, and never goes back. In between it counts with the monotonic clock: a machine whose wall clock is wrong, or is
 * set, changes nothing. If it is ahead of the database, it slows down until the database has caught up; it never stands still.
 */
export class FleetClock {
  readonly #times: () => Times
  #offsetMs: number | undefined
  #last = 0
  #lastMonotonic = 0

  constructor(read: () => Times = times) {
    this.#times = read
  }

  learn({ now, roundTripMs, receivedAt }: Pick<Renewed, 'now' | 'roundTripMs' | 'receivedAt'>): void {
    const known = this.#offsetMs
    const offset = now + roundTripMs / 2 - receivedAt
    if (known === undefined) this.#offsetMs = offset // whatever the round trip: the wall clock may be wrong by hours
    if (known === undefined || roundTripMs > ROUND_TRIP_MS_MAX) return
    const isJump = Math.abs(offset - known) > ROUND_TRIP_MS_MAX
    this.#offsetMs = isJump ? offset : known + (offset - known) * SLEW
  }

  now(): number {
    const { monotonic, wall } = this.#times()
    const fleet = this.#offsetMs === undefined ? wall : monotonic + this.#offsetMs
    const passed = Math.max(monotonic - this.#lastMonotonic, 0)
    this.#last = Math.max(fleet, this.#last === 0 ? fleet : this.#last + passed * SLOW)
    this.#lastMonotonic = monotonic
    return Math.round(this.#last)
  }
}
