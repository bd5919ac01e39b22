/** Faults of a client's connection below HTTP: reset it, close it half-way, write part of an answer. */
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** With toxics in between, the HTTP server's stream is not the client's socket; this map finds it. */
const sockets = new WeakMap<Duplex, Socket>()

export function setSocket(stream: Duplex, socket: Socket): void {
  sockets.set(stream, socket)
}

/** Sends a RST. First waits until the kernel has all bytes, and a moment longer, so the client can read them. */
export async function reset(stream: Duplex): Promise<void> {
  await flushed(stream)
  await moment()
  const socket = stream instanceof Socket ? stream : sockets.get(stream)
  socket?.resetAndDestroy()
  stream.destroy()
}

/** Sends a FIN after what was written. If the client does not close its side in time, the socket is destroyed. */
export async function finish(stream: Duplex): Promise<void> {
  await flushed(stream)
  const timer = setTimeout(() => stream.destroy(), LINGER_MS)
  timer.unref()
  stream.once('close', () => clearTimeout(timer))
  stream.end()
}

export function writeRaw(stream: Duplex, bytes: string | Buffer): Promise<void> {
  return new Promise((resolve) => {
    // A client that has disconnected gets nothing; the injection did not fail.
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
    // `drain` fires only after a write returned false, and a client that never reads must not block us forever.
    const timer = setInterval(check, 1)
    setTimeout(done, LINGER_MS).unref()
    stream.on('drain', check)
    stream.on('close', done)
  })
}
