/** Joins two connections: each direction ends on its own, so a client that has said everything still gets its answer. */
import type { Socket } from 'node:net'
import { pipeline } from 'node:stream'

/** A client that was killed looks as if it had said everything, and its peer may never answer. */
const SILENCE_MS = 300_000

/** Both must allow that one side of them is closed. A failure of one ends the other. */
export function splice(a: Socket, b: Socket): void {
  const endBoth = (): void => {
    a.destroy()
    b.destroy()
  }
  const join = (from: Socket, to: Socket): void =>
    void pipeline(from, to, (error) => {
      if (error) endBoth()
      else if (!to.readableEnded) to.setTimeout(SILENCE_MS, endBoth)
    })
  join(a, b)
  join(b, a)
}
