/** The edge where the gateway reads the clock. */

export const systemNow = (): number => Date.now()

/** For durations: does not jump when somebody sets the clock. */
export const monotonicMs = (): number => performance.now()
