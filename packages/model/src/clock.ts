/** The edge where this package reads the clock and throws dice. Everything else takes them as arguments. */

export const systemNow = (): number => Date.now()
export const systemDice = (): number => Math.random()

/** For durations: does not jump when somebody sets the clock. */
export const monotonicMs = (): number => performance.now()
