/**
 * Reads a named pipe without ever blocking a thread. A pipe that both sides hold open never ends by itself: `rest` reads
 * what is left once nobody can write any more.
 *
 * I1  No byte leaves the pipe before `hold` was called: a kill between here and the disk must leave a trace. So whoever waits
 *     for bytes gives libuv no room to read into, and its refusal (ENOBUFS) says that there are some.
 */
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { Socket } from 'node:net'

export type Sink = {
  hold(): void
  /** Gets bytes that are overwritten when it returns. */
  take(bytes: Buffer): void
  /** There were none. */
  release(): void
}

export class FifoReader {
  readonly #fd: number
  readonly #sink: Sink
  #waiting: Socket | undefined
  #closed = false

  constructor(path: string, sink: Sink) {
    this.#sink = sink
    this.#fd = openSync(path, READ)
    this.#wait()
  }

  /** Everything that is in the pipe now, at once. Bounded: a survivor that goes on writing is not listened to for ever. */
  rest(): void {
    for (let taken = 0, length = 1; length > 0 && taken < REST_BYTES_MAX; taken += length) length = this.#once()
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#waiting?.destroy()
    closeSync(this.#fd)
  }

  // ---- details ----

  #wait(): void {
    if (this.#closed) return
    let fd: number
    try {
      fd = openSync(`/proc/self/fd/${this.#fd}`, READ) // closed with the socket
    } catch {
      setTimeout(() => this.#read(), LOOK_MS) // too many files are open: it looks by itself until there is room
      return
    }
    const options = {
      fd,
      readable: true,
      writable: false,
      onread: { buffer: NO_ROOM, callback: () => true },
    }
    this.#waiting = new Socket(options as ConstructorParameters<typeof Socket>[0])
    this.#waiting.once('error', () => this.#read()) // I1
    this.#waiting.resume()
  }

  #read(): void {
    for (let taken = 0; taken < TURN_BYTES_MAX; taken += SHARED.length) {
      if (this.#once() === SHARED.length) continue
      this.#wait()
      return
    }
    setImmediate(() => this.#read()) // there may be more, but others want their turn
  }

  #once(): number {
    if (this.#closed) return 0
    this.#sink.hold()
    const length = this.#bytes()
    if (length > 0) this.#sink.take(SHARED.subarray(0, length))
    else this.#sink.release()
    return length
  }

  #bytes(): number {
    try {
      return readSync(this.#fd, SHARED, 0, SHARED.length, null)
    } catch {
      return 0 // EAGAIN: there is nothing now; a pipe knows no other failure
    }
  }
}

const READ = constants.O_RDONLY | constants.O_NONBLOCK
const NO_ROOM = Buffer.alloc(0)
const REST_BYTES_MAX = 1024 * 1024 // the largest pipe of an ordinary user; ours hold 64 KiB
const TURN_BYTES_MAX = 256 * 1024
const LOOK_MS = 50

const SHARED = Buffer.allocUnsafeSlow(64 * 1024) // one for all pipes: it is filled and emptied within one call

/** Opened for reading and writing: neither side has to be there first, and nobody's leaving ends it. */
export function openFifo(path: string): number {
  return openSync(path, constants.O_RDWR)
}

export function openWriteEnd(path: string): number {
  return openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
}

export const closeAll = (fds: readonly (number | 'ignore')[]): void => {
  for (const fd of fds) if (fd !== 'ignore') closeSync(fd)
}
