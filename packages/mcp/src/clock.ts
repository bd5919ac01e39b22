/** The edge where this package reads the clock and rolls dice. */

export const systemNow = (): number => Date.now()
export const isoNow = (): string => new Date().toISOString()
export const dice = (): number => Math.random()
