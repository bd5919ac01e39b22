/** The edge to time and chance. Everything else in this package takes them from here, so that tests can give their own. */

export type Clock = {
  /** Monotonic milliseconds: a changed wall clock or a closed laptop lid makes no failure. */
  readonly now: () => number
  /** Milliseconds since 1970, for people only. */
  readonly epoch: () => number
  /** Calls back once, later. Returns the way out. */
  readonly after: (ms: number, then: () => void) => () => void
  /** Between 0 and 1. */
  readonly dice: () => number
}

export const systemClock: Clock = {
  now: () => performance.now(),
  epoch: () => Date.now(),
  after: (ms, then) => {
    const timer = setTimeout(then, ms)
    return () => clearTimeout(timer)
  },
  dice: () => Math.random(),
}

/** Resolves after `ms`, or at once when the signal fires: who waits asks afterwards what happened. */
export async function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true) return
  await new Promise<void>((resolve) => {
    const finish = (): void => {
      cancel()
      signal?.removeEventListener('abort', finish)
      resolve()
    }
    const cancel = clock.after(ms, finish)
    signal?.addEventListener('abort', finish, { once: true })
  })
}
