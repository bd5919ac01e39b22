/**
 * Waiting, for all packages: a while, or for a promise that may take too long. Runs in a browser. A loop whose process may end
 * meanwhile has its own timer (`runner/src/lib/poll-until.ts`), and so has what reads its time from a `Clock`.
 */

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

/** The promise's result, or undefined if the time is up or the signal fires first. Leaves no timer. */
export async function within<T>(
  wanted: Promise<T>,
  ms: number,
  { signal, pause = sleep }: { readonly signal?: AbortSignal | undefined; readonly pause?: typeof sleep } = {},
): Promise<T | undefined> {
  const settled = new AbortController()
  const over = signal === undefined ? settled.signal : AbortSignal.any([settled.signal, signal])
  try {
    return await Promise.race([wanted, pause(ms, over).then(() => undefined)])
  } finally {
    settled.abort()
  }
}

/** Longer timers fire at once, in Node and in browsers. */
export const TIMER_MS_MAX = 2_147_483_647
