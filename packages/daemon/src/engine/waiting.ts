/** Waits that are over in time. */
import { sleep } from '@breakfall/model'

/** The promise's outcome, or undefined when the time or the signal came first. The promise itself goes on unseen. */
export async function within<T>(promise: Promise<T>, ms: number, signal?: AbortSignal): Promise<T | undefined> {
  const over = new AbortController()
  const ended = signal === undefined ? over.signal : AbortSignal.any([over.signal, signal])
  try {
    return await Promise.race([promise, sleep(ms, ended).then(() => undefined)])
  } finally {
    over.abort()
  }
}
