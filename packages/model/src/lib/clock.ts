/** The clock and the dice of this package. Everything else takes them as arguments. */

export const systemNow = (): number => Date.now()
export const systemDice = (): number => Math.random()

/** For durations: does not jump when the system clock is set. */
export const monotonicMs = (): number => performance.now()

/** What this thread has computed. Does not count what other programs of a busy machine take. */
export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
