/**
 * Reads a named pipe without ever blocking a thread. A pipe that both sides hold open never ends by itself: `rest` reads
 * what is left once nobody can write any more.
 */
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { Socket } from 'node:net'

export class FifoReader {
  readonly #fd: number
  readonly #socket: Socket
  readonly #take: (bytes: Buffer) => void
  #closed = false

  /** `take` gets bytes that are overwritten when it returns. */
  constructor(path: string, take: (bytes: Buffer) => void) {
    this.#take = take
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    this.#fd = fd
    const options = {
      fd,
      readable: true,
      writable: false,
      // One buffer for all pipes: it is filled and emptied within one callback.
      onread: {
        buffer: SHARED,
        callback: (length: number, buffer: Uint8Array): boolean => {
          this.#take(Buffer.from(buffer.buffer, buffer.byteOffset, length))
          return true
        },
      },
    }
    this.#socket = new Socket(options as ConstructorParameters<typeof Socket>[0])
    this.#socket.on('error', () => {
      // A pipe that cannot be read any more shows in what `rest` finds; there is nobody else to tell.
    })
    this.#socket.resume()
  }

  /** Everything that is in the pipe now, at once. Bounded: a survivor that goes on writing is not listened to for ever. */
  rest(): void {
    if (this.#closed || this.#socket.destroyed) return // all who could write are gone, and it was read to its end
    this.#socket.pause()
    const buffer = Buffer.allocUnsafe(SHARED.length)
    for (let taken = 0, length = 0; taken < REST_BYTES_MAX; taken += length) {
      try {
        length = readSync(this.#fd, buffer, 0, buffer.length, null)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return
        throw error
      }
      if (length === 0) return
      this.#take(buffer.subarray(0, length))
    }
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#socket.destroy()
  }
}

const REST_BYTES_MAX = 1024 * 1024 // the largest pipe of an ordinary user; ours hold 64 KiB

const SHARED = Buffer.allocUnsafeSlow(64 * 1024)

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
