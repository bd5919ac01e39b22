/** Time and chance as the engine gets them: tests and simulations bring their own. The only file here that sets a timer. */
import { sleep } from '@breakfall/faults'
import { within } from '@breakfall/faults/internal'

export type Timer = {
  cancel(): void
  /** Does not keep the process alive. */
  unref(): Timer
}

export type Clock = {
  /** Milliseconds since 1970, as all daemons of the store agree on them. */
  readonly now: () => number
  /** Milliseconds that this process has seen pass. Setting the machine's clock does not change it. */
  readonly elapsed: () => number
  /** From 0 to 1. */
  readonly dice: () => number
  readonly after: (ms: number, work: () => void) => Timer
  readonly every: (ms: number, work: () => void) => Timer
  /** Once everything that is due now is done. */
  readonly soon: (work: () => void) => void
  /** Aborts then. */
  readonly timeout: (ms: number) => AbortSignal
  /** Resolves after that time, or at once when the signal aborts: check the signal afterwards. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  /** The promise's result, or undefined if the time is up or the signal fires first. */
  within<T>(
    wanted: Promise<T>,
    ms: number,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<T | undefined>
}

export const systemClock = ({
  now,
  dice = Math.random,
}: {
  readonly now: () => number
  readonly dice?: (() => number) | undefined
}): Clock => ({
  now,
  elapsed: () => performance.now(),
  dice,
  after: (ms, work) => timerOf(setTimeout(work, ms)),
  every: (ms, work) => timerOf(setInterval(work, ms)),
  soon: (work) => void setImmediate(work),
  timeout: (ms) => AbortSignal.timeout(ms),
  sleep,
  within,
})

/**
 * The time from here on, as a clock that is turned forward does not hurry it: never later than this process has seen pass. For what
 * cannot be undone, such as the end of a wait or the removal of a session. Time in which the machine slept does not count.
 */
export function unhurried(clock: Pick<Clock, 'now' | 'elapsed'>): () => number {
  const [start, from] = [clock.now(), clock.elapsed()]
  return () => Math.min(clock.now(), start + clock.elapsed() - from)
}

// ---- details ----

function timerOf(timeout: NodeJS.Timeout): Timer {
  const timer: Timer = {
    cancel: () => clearTimeout(timeout),
    unref: () => {
      timeout.unref()
      return timer
    },
  }
  return timer
}
