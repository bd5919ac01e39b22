/** Calls functions that belong to the caller. */

/** Returns undefined if the hook throws. The error is rethrown outside as an uncaught exception and disturbs nothing here. */
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
