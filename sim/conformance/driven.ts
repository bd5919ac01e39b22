/** Lets virtual time pass until a promise is settled. */
import type { World } from '../host/time.ts'

let running: Promise<unknown> = Promise.resolve()

export async function driven<T>(world: World, promise: Promise<T>): Promise<T> {
  let isSettled = false
  const settled = promise.finally(() => {
    isSettled = true
  })
  settled.catch(() => undefined) // the caller hears of it
  running = running.then(() => world.run(() => isSettled, Number.POSITIVE_INFINITY))
  await running
  return settled
}
