/**
 * What an exec writes, from its pipes into its log. The only place that writes the log.
 *
 * I1  Bytes are kept in the order in which they came, up to the limit of the exec; after the first one that is not kept,
 *     none is. A disk that refuses them counts as the limit.
 * I2  The start event comes before any byte: `onBytes` is asked first.
 */
import { join } from 'node:path'
import { classify, type Diagnostic } from '@breakfall/faults'
import { outputNotKept } from './diagnostics.ts'
import { EventLog, type Stream } from './event-log.ts'
import { FifoReader } from './fifo-reader.ts'
import { EXEC_FILES, type FilledRequest } from './folder.ts'

export type OutputListener = {
  /** Bytes came, and are not in the log yet. */
  readonly onBytes: () => void
  /** Whoever reads the log may find more in it. */
  readonly onChange: () => void
  /** Nothing more is kept; with a reason where it was not the exec's own limit. */
  readonly onFull: (reason?: Diagnostic) => void
}

export class ExecOutput {
  readonly #folder: string
  readonly #request: FilledRequest
  readonly #listener: OutputListener
  readonly #log: EventLog
  readonly #readers: FifoReader[] = []
  #truncated = false

  constructor(folder: string, request: FilledRequest, listener: OutputListener, isNew: boolean) {
    this.#folder = folder
    this.#request = request
    this.#listener = listener
    this.#log = new EventLog(folder, isNew)
  }

  /** Events in the log. */
  get count(): number {
    return this.#log.count
  }

  get truncated(): boolean {
    return this.#truncated
  }

  bytes(stream: Stream): number {
    return this.#log.bytes(stream)
  }

  /** Reads from now on. Once is enough. */
  open(): void {
    if (this.#readers.length > 0) return
    const streams: readonly Stream[] = this.#request.merge ? ['stdout'] : ['stdout', 'stderr']
    for (const stream of streams)
      this.#readers.push(
        new FifoReader(join(this.#folder, EXEC_FILES[stream]), {
          hold: () => this.#hold(stream, 0),
          take: (bytes) => this.#take(stream, bytes),
          release: () => this.#log.release(),
        }),
      )
  }

  /** The start event. */
  start(pid: number, atMs: number): void {
    this.#orFull(() => this.#log.start(pid, atMs))
  }

  /** Takes what is left in the pipes, for good: nobody may be left who could write. */
  drain(): void {
    for (const reader of this.#readers) {
      this.#orFull(() => reader.rest())
      reader.close()
    }
    this.#orFull(() => this.#log.flush())
  }

  close(): void {
    for (const reader of this.#readers) reader.close()
    this.#log.close()
  }

  // ---- details, in the order they are used above ----

  #take(stream: Stream, bytes: Buffer): void {
    const room = this.#request.outputBytesMax - this.bytes('stdout') - this.bytes('stderr')
    const kept = bytes.length > room ? bytes.subarray(0, room) : bytes
    this.#hold(stream, kept.length)
    this.#listener.onBytes() // I2
    if (this.#truncated) return
    if (kept.length > 0) this.#orFull(() => this.#log.append(stream, kept))
    if (bytes.length > room) this.#full()
    this.#listener.onChange()
  }

  /** What is not kept cannot be lost. */
  #hold(stream: Stream, length: number): void {
    if (!this.#truncated) this.#orFull(() => this.#log.hold(stream, length))
  }

  #orFull(write: () => void): void {
    try {
      write()
    } catch (error) {
      this.#full(outputNotKept(classify(error, { boundary: 'runner' }).errorRaw))
    }
  }

  #full(reason?: Diagnostic): void {
    this.#truncated = true
    this.#log.release()
    this.#listener.onFull(reason)
  }
}
