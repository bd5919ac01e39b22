/** Time and randomness, in one object that tests can replace. Nothing else in this package calls the system for them. */

export type Clock = {
  /** Monotonic milliseconds: changing the wall clock or closing the laptop lid causes no failure. */
  readonly now: () => number
  /** Milliseconds since 1970, only for display. */
  readonly epoch: () => number
  /** Calls back once after `ms`. Returns a function that cancels it. */
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

const SLICES = 8

/**
 * Calls back after this process was awake for `ms`, measured in slices. A stopped process or a suspended laptop loses one
 * slice of the time, so a limit never expires before the process had a chance to read anything.
 */
export function afterAwake(clock: Clock, ms: number, then: () => void): () => void {
  let slicesLeft = SLICES
  const slice = (): (() => void) =>
    clock.after(Math.ceil(ms / SLICES), () => {
      slicesLeft -= 1
      if (slicesLeft === 0) then()
      else cancel = slice()
    })
  let cancel = slice()
  return () => cancel()
}

/** Resolves after `ms`, or at once when the signal fires. The caller checks which it was. */
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

/** The result, or undefined if the signal fires first. A later result is ignored. */
export async function unlessAborted<T>(wanted: T | Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  if (signal.aborted) return undefined
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const onAbort = (): void => resolve(undefined)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([wanted, promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
