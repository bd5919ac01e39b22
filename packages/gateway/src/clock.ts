/** The edge where the gateway reads the clock. */

export const systemNow = (): number => Date.now()

/** For durations: does not jump when the wall clock is set. */
export const monotonicMs = (): number => performance.now()
