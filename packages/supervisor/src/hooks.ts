/** Calls of functions that are the caller's own. */

/** What it throws hurts nobody but itself: it is thrown again outside of us, as of any listener, and the answer is undefined. */
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
