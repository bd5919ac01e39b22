/** The edge where this package reads the clock and throws dice. Everything else takes them as arguments. */

export const systemNow = (): number => Date.now()
export const systemDice = (): number => Math.random()

/** For durations: does not jump when somebody sets the clock. */
export const monotonicMs = (): number => performance.now()

/** Resolves after the time, or at once when the signal is aborted: whoever waits looks at the signal afterwards. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0 || signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, Math.min(ms, TIMER_MS_MAX))
    signal.addEventListener('abort', done)
  })
}

/** Node's timers fire at once when asked for more than 2^31 - 1 ms. */
export const TIMER_MS_MAX = 2_147_483_647
