/**
 * The input of a command: a named pipe that a holder process keeps open, so the input survives the runner. To end the
 * input, we close our end and kill the holder; then the command sees EOF.
 */
import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { Fault } from '@breakfall/faults'
import { sendSignal } from '@breakfall/supervisor/platform'
import { isThere, type Proven } from './process-table.ts'
import { openFifo, openWriteEnd } from './fifo-pool.ts'

export class StdinPipe {
  readonly #path: string
  readonly #isPipe: boolean
  #socket: Socket | undefined
  /** Both ends, until the command has opened its own: a pipe without a reader cannot be opened for writing. */
  #both: number | undefined
  #isClosed = false
  holder: Proven | undefined
  /** Serializes writes, so the bytes of two callers do not mix. */
  #last: Promise<void> = Promise.resolve()

  constructor(path: string, isPipe: boolean) {
    this.#path = path
    this.#isPipe = isPipe
  }

  /** Before the start: whichever process opens one end must find the other open. */
  prepare(): void {
    if (this.#isPipe) this.#both ??= openFifo(this.#path)
  }

  /** Call once the command has opened its end. */
  open(): void {
    if (!this.#isPipe || this.#socket !== undefined || this.#isClosed) return
    let fd: number
    try {
      fd = openWriteEnd(this.#path)
    } catch {
      this.#isClosed = true // ENXIO: the command has already closed its input
      this.#closeBoth()
      return
    }
    this.#closeBoth()
    this.#socket = new Socket({ fd, readable: false, writable: true })
    this.#socket.on('error', () => this.#shut()) // EPIPE: the command has closed its input
    this.#socket.on('close', () => this.#shut())
  }

  /** Resolves when the pipe has accepted all bytes. `ready` resolves when the command runs. */
  write(
    chunks: AsyncIterable<Buffer>,
    eof: boolean,
    execId: string,
    ready: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const job = this.#last.then(() => this.#writeAll(chunks, eof, execId, ready, signal))
    this.#last = job.catch(ignore)
    return job
  }

  /** The exec is over. A keeper normally ends the holder, but the keeper itself may have been killed. */
  end(): void {
    this.release()
    this.#endHolder()
  }

  release(): void {
    this.#closeBoth()
    this.#socket?.destroy()
    this.#socket = undefined
    this.#isClosed = true
  }

  // ---- details ----

  async #writeAll(
    chunks: AsyncIterable<Buffer>,
    eof: boolean,
    execId: string,
    ready: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    if (!this.#isPipe)
      throw new Fault('invalid_request', {
        execId,
        error: `exec ${execId} has no input; start it with "stdin": "pipe".`,
      })
    await ready()
    for await (const chunk of chunks) {
      const socket = this.#socket
      if (this.#isClosed || socket === undefined) throw closed(execId)
      await this.#push(socket, chunk, signal, execId)
    }
    if (this.#isClosed) throw closed(execId)
    if (eof) this.#finish()
  }

  #push(socket: Socket, chunk: Buffer, signal: AbortSignal, execId: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const gone = (): void => reject(closed(execId))
      socket.once('close', gone)
      signal.addEventListener('abort', gone)
      socket.write(chunk, (error) => {
        socket.off('close', gone)
        signal.removeEventListener('abort', gone)
        if (error === null || error === undefined) resolve()
        else gone()
      })
    })
  }

  #finish(): void {
    this.#socket?.end()
    this.#isClosed = true
    this.#endHolder()
  }

  #endHolder(): void {
    if (this.holder !== undefined && isThere(this.holder)) sendSignal(this.holder.pid, 'SIGKILL')
  }

  #shut(): void {
    this.#isClosed = true
    this.#socket?.destroy()
    this.#socket = undefined
  }

  #closeBoth(): void {
    if (this.#both !== undefined) closeSync(this.#both)
    this.#both = undefined
  }
}

const closed = (execId: string): Fault =>
  new Fault('exec_finished', {
    execId,
    error: `exec ${execId} accepts no more input: it has closed its input or is over.`,
  })

const ignore = (): void => {
  // That writer has the error; the next one starts over.
}
