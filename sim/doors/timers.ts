/** Node's promised timers on virtual time. */

function sleep<T>(ms?: number, value?: T, { signal }: { readonly signal?: AbortSignal } = {}): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer)
      reject(
        Object.assign(new Error('The operation was aborted', { cause: signal?.reason }), {
          name: 'AbortError',
          code: 'ABORT_ERR',
        }),
      )
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort)
      resolve(value)
    }, ms)
    if (signal?.aborted === true) abort()
    else signal?.addEventListener('abort', abort, { once: true })
  })
}

export { sleep as setTimeout }

export const setImmediate = <T>(value?: T): Promise<T | undefined> =>
  new Promise((resolve) => globalThis.setImmediate(() => resolve(value)))
