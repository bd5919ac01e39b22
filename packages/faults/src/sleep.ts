/** The one sleep in the system. Runs in a browser. */

/** Resolves after `ms`, or at once when the signal aborts: check the signal afterwards. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  if (ms <= 0 || signal?.aborted === true) return Promise.resolve()
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, Math.min(ms, TIMER_MS_MAX))
    signal?.addEventListener('abort', done)
  })
}

/** Longer timers fire at once, in Node and in browsers. */
export const TIMER_MS_MAX = 2_147_483_647
