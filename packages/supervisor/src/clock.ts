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

const PIECES = 8

/**
 * Calls back once `ms` have been lived through, in pieces. A process that was stopped, or a laptop that slept, finds one piece
 * of its limits gone when it goes on, and not all of them before it has read a single byte.
 */
export function afterAwake(clock: Clock, ms: number, then: () => void): () => void {
  let left = PIECES
  const piece = (): (() => void) =>
    clock.after(Math.ceil(ms / PIECES), () => {
      left -= 1
      if (left === 0) then()
      else cancel = piece()
    })
  let cancel = piece()
  return () => cancel()
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

/** Undefined if the signal came first; whatever comes later is nobody's. */
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

/** The promise's result, or undefined if the time is up or the signal fires first. Leaves no timer. */
export async function within<T>(
  wanted: Promise<T>,
  ms: number,
  { signal, clock = systemClock }: { readonly signal?: AbortSignal | undefined; readonly clock?: Clock } = {},
): Promise<T | undefined> {
  const settled = new AbortController()
  const over = signal === undefined ? settled.signal : AbortSignal.any([settled.signal, signal])
  try {
    return await Promise.race([wanted, pause(clock, ms, over).then(() => undefined)])
  } finally {
    settled.abort()
  }
}
