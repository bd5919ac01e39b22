/**
 * The time from here on, as a clock that is turned forward does not hurry it: never later than this process has seen pass. For what
 * cannot be undone, such as the end of a wait or the removal of a session. Time in which the machine slept does not count.
 */
import type { Clock } from '../clock.ts'

export function unhurried(clock: Pick<Clock, 'now' | 'elapsed'>): () => number {
  const [start, from] = [clock.now(), clock.elapsed()]
  return () => Math.min(clock.now(), start + clock.elapsed() - from)
}
