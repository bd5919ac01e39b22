/** A situation in the middle of a turn, and the moment at which the tests decide. */
import type { Situation } from '@breakfall/faults'

export const NOW = 1_800_000_000_000

export const situation = (more: Partial<Situation> = {}): Situation => ({
  attempt: 1,
  failures: 1,
  waitedMs: 0,
  dice: 0.5,
  canPark: true,
  ...more,
})
