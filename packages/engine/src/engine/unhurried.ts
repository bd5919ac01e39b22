/**
 * The time from here on, as a clock that is turned forward does not hurry it: never later than this process has seen pass. For what
 * cannot be undone, such as the end of a wait or the removal of a session. Time in which the machine slept does not count.
 */
export function unhurried(now: () => number): () => number {
  const [start, from] = [now(), performance.now()]
  return () => Math.min(now(), start + performance.now() - from)
}
