/**
 * What an exec writes: the pump copies it from the pipes into the spools, and here it becomes the exec's log. The only
 * place that writes the log.
 *
 * I1  Bytes are kept in the order in which they came, up to the limit of the exec; after the first one that is not kept,
 *     none is. A disk that refuses them counts as the limit.
 * I2  The start event comes before any byte: `onBytes` is asked first.
 * I3  The pipes are held open here as long as the pump has to read them: what is in a pipe is gone with the last who has it
 *     open, and neither the pump, which may be just starting, nor the keeper is there for certain.
 * I4  What may have been lost is noted in the folder before anything else: the exec tells it at its end, whoever writes that.
 */
import { appendFileSync, closeSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { classify, type Diagnostic } from '@breakfall/faults'
import { outputLost, outputNotKept } from './diagnostics.ts'
import { EventLog, type Stream } from './event-log.ts'
import { openFifo } from './fifo.ts'
import { EXEC_FILES } from './folder.ts'
import type { Pump } from './pump.ts'
import type { ExecSetup } from './setup.ts'

export type OutputListener = {
  /** Bytes came, and are not in the log yet. */
  readonly onBytes: () => void
  /** Whoever reads the log may find more in it. */
  readonly onChange: () => void
  /** Nothing more is kept; with a reason where it was not the exec's own limit. */
  readonly onFull: (reason?: Diagnostic) => void
}

export class ExecOutput {
  /** Where bytes may be missing: a pump was killed while this exec was open. */
  readonly losses: Diagnostic[]
  readonly #setup: ExecSetup
  readonly #pump: Pump
  readonly #listener: OutputListener
  readonly #log: EventLog
  readonly #held: number[] = []
  #pumpId: number | undefined
  #isClosed = false
  #truncated = false

  constructor(setup: ExecSetup, listener: OutputListener) {
    this.#setup = setup
    this.#pump = setup.pump
    this.#listener = listener
    this.#log = new EventLog(setup.folder, setup.isNew)
    this.losses = setup.isNew ? [] : notedLosses(setup.folder).map(outputLost)
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
    if (this.#pumpId !== undefined) return
    const { folder, isNew, reservation } = this.#setup
    const streams: readonly Stream[] = reservation.request.merge ? ['stdout'] : ['stdout', 'stderr']
    if (!isNew && this.#pump.isAfterKill) this.#noteLoss()
    for (const stream of streams) this.#held.push(openFifo(join(folder, EXEC_FILES[stream]))) // I3
    this.#pumpId = this.#pump.open(
      {
        bytesMax: reservation.request.outputBytesMax,
        copies: streams.map((stream) => ({ pipe: join(folder, EXEC_FILES[stream]), spool: join(folder, stream) })),
      },
      {
        onBytes: (copy, bytes) => this.#onBytes(streams[copy] ?? 'stdout', bytes),
        onFull: (raw) => this.#full(raw),
        onLoss: () => this.#noteLoss(),
      },
    )
  }

  /** The start event. */
  start(pid: number, atMs: number): void {
    this.#orFull(() => this.#log.start(pid, atMs))
  }

  /** Takes what is left in the pipes, for good: nobody may be left who could write. */
  async drain(): Promise<void> {
    if (this.#pumpId !== undefined) await this.#pump.drain(this.#pumpId)
    if (this.#isClosed) return // left to the next runner meanwhile
    this.#orFull(() => this.#log.flush())
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const fd of this.#held) closeSync(fd)
    if (this.#pumpId !== undefined) this.#pump.forget(this.#pumpId)
    this.#log.close()
  }

  // ---- details, in the order they are used above ----

  /** I4 */
  #noteLoss(): void {
    const where = `byte ${this.bytes('stdout')} of stdout, ${this.bytes('stderr')} of stderr`
    if (this.losses.some(({ evidence }) => evidence.includes(where))) return
    this.losses.push(outputLost(where))
    try {
      appendFileSync(join(this.#setup.folder, LOST), `${where}\n`)
    } catch {
      // A full disk: only a restart before the end of the exec would miss it.
    }
  }

  #onBytes(stream: Stream, bytes: number): void {
    if (bytes === this.bytes(stream)) return // told once more, by a pump that was started anew
    this.#listener.onBytes() // I2
    if (!this.#truncated) this.#orFull(() => this.#log.grow(stream, bytes))
    this.#listener.onChange()
  }

  #orFull(write: () => void): void {
    try {
      write()
    } catch (error) {
      this.#full(classify(error, { boundary: 'runner' }).errorRaw)
    }
  }

  #full(raw?: string): void {
    this.#truncated = true
    this.#listener.onFull(raw === undefined ? undefined : outputNotKept(raw))
  }
}

const LOST = 'lost'

function notedLosses(folder: string): readonly string[] {
  const file = join(folder, LOST)
  return existsSync(file) ? readFileSync(file, 'latin1').split('\n').filter(Boolean) : []
}
