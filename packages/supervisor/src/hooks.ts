/** Calls the caller's hooks, such as `onLine`: an error in one of them must not disturb the supervisor. */

/** Returns undefined if the hook throws. The error is rethrown later, as an uncaught exception of the caller's program. */
export function callHook<T>(hook: () => T): T | undefined {
  try {
    return hook()
  } catch (error) {
    queueMicrotask(() => {
      throw error
    })
    return undefined
  }
}
