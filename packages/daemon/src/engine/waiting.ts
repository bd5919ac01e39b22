/** Waits that end with a signal. */

export const TIMER_MS_MAX = 2_147_483_000 // longer timers fire at once in Node

/** Resolves after that time, or at once when the signal is aborted. Never rejects: whoever waits looks what happened. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted || ms <= 0) return Promise.resolve()
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

/** The promise's outcome, or undefined when the time or the signal came first. The promise itself goes on unseen. */
export async function within<T>(promise: Promise<T>, ms: number, signal?: AbortSignal): Promise<T | undefined> {
  const over = new AbortController()
  const ended = signal === undefined ? over.signal : AbortSignal.any([over.signal, signal])
  try {
    return await Promise.race([promise, pause(ms, ended).then(() => undefined)])
  } finally {
    over.abort()
  }
}
