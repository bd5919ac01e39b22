/** Joins two connections: each direction ends on its own, so a client that has said everything still gets its answer. */
import type { Socket } from 'node:net'
import { pipeline } from 'node:stream'

/** Both must allow that one side of them is closed. A failure of one ends the other. */
export function splice(a: Socket, b: Socket): void {
  const end = (error: unknown): void => {
    if (error === undefined || error === null) return
    a.destroy()
    b.destroy()
  }
  pipeline(a, b, end)
  pipeline(b, a, end)
}
