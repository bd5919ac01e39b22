/** What can be done to a client's connection below HTTP: reset it, close it half-way, write bytes that are no whole answer. */
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** Where toxics stand between the client and us, the HTTP server's stream is not the socket: this finds it. */
const sockets = new WeakMap<Duplex, Socket>()

export function standsFor(stream: Duplex, socket: Socket): void {
  sockets.set(stream, socket)
}

/** RST. What was written before has been given to the kernel; a moment lets the client read it before it learns of the reset. */
export async function reset(stream: Duplex): Promise<void> {
  await flushed(stream)
  await moment()
  const socket = stream instanceof Socket ? stream : sockets.get(stream)
  socket?.resetAndDestroy()
  stream.destroy()
}

/** FIN after what was written. A client that does not close its side is left behind after a bounded time. */
export async function finish(stream: Duplex): Promise<void> {
  await flushed(stream)
  const timer = setTimeout(() => stream.destroy(), LINGER_MS)
  timer.unref()
  stream.once('close', () => clearTimeout(timer))
  stream.end()
}

export function writeRaw(stream: Duplex, bytes: string | Buffer): Promise<void> {
  return new Promise((resolve) => {
    // A client that is gone already gets nothing; that is no failure of the injection.
    stream.write(bytes, () => resolve())
  })
}

// ---- details ----

const LINGER_MS = 2_000
const MOMENT_MS = 5

const moment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, MOMENT_MS))

function flushed(stream: Duplex): Promise<void> {
  if (stream.destroyed || stream.writableLength === 0) return Promise.resolve()
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off('drain', check)
      stream.off('close', done)
      clearInterval(timer)
      resolve()
    }
    const check = (): void => {
      if (stream.destroyed || stream.writableLength === 0) done()
    }
    // `drain` only comes where a write was told to wait; a reader that never reads must not hold us for ever either.
    const timer = setInterval(check, 1)
    setTimeout(done, LINGER_MS).unref()
    stream.on('drain', check)
    stream.on('close', done)
  })
}
