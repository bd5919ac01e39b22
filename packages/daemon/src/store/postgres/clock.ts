/** The clocks of a daemon in a fleet: two of the machine, and the time that all daemons agree on. */
import type { Renewed, Times } from './lease-protocol.ts'

/** The monotonic one is the same in every thread. */
export const times = (): Times => ({ monotonic: Number(process.hrtime.bigint() / 1_000_000n), wall: Date.now() })

const ROUND_TRIP_MS_MAX = 250 // a slower answer says too little about when it was given
const SLEW = 0.05 // of the difference, at each renewal after the first

/** Follows the database's clock, and never goes back. */
export class FleetClock {
  #offsetMs: number | undefined
  #last = 0

  learn({ now, roundTripMs, receivedAt }: Pick<Renewed, 'now' | 'roundTripMs' | 'receivedAt'>): void {
    if (roundTripMs > ROUND_TRIP_MS_MAX) return
    const offset = now + roundTripMs / 2 - receivedAt
    const known = this.#offsetMs
    const isJump = known === undefined || Math.abs(offset - known) > ROUND_TRIP_MS_MAX
    this.#offsetMs = isJump ? offset : known + (offset - known) * SLEW
  }

  now(): number {
    this.#last = Math.max(this.#last, Math.round(Date.now() + (this.#offsetMs ?? 0)))
    return this.#last
  }
}
