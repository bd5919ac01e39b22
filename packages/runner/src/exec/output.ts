/**
 * What an exec writes: the pump copies it from the pipes into the spools, and this turns it into the exec's log. Nothing
 * else writes the log.
 *
 * I1  Bytes are kept in order, up to the exec's limit; after the first byte that is not kept, none is. A disk that refuses
 *     bytes counts as the limit.
 * I2  The start event comes before any byte: `onBytes` is called first.
 * I3  The pipes are held open here while the pump has to read them: a pipe loses its bytes when the last process closes it,
 *     and neither the pump, which may be restarting, nor the keeper is certain to be alive.
 * I4  A possible loss is noted in the folder at once, so the end reports it even if another runner writes the end.
 */
import { appendFileSync, closeSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { classify, type Diagnostic } from '@breakfall/faults'
import { outputLost, outputNotCopied, outputNotKept } from './diagnostics.ts'
import { OutputWindow } from './output-window.ts'
import { EventLog, type Stream } from './event-log.ts'
import { EXEC_FILES } from './exec-folder.ts'
import type { Pump } from './pump.ts'
import type { ExecSetup } from './exec-setup.ts'
import { openFifo } from './fifo-pool.ts'

export type OutputListener = {
  /** Bytes have arrived and are not in the log yet. */
  readonly onBytes: () => void
  /** The log may have grown. */
  readonly onChange: () => void
  /** Nothing more is kept; with a reason, unless the exec's limit was reached. */
  readonly onFull: (reason?: Diagnostic) => void
  /** Nothing can be kept, because no process copies it. */
  readonly onUnavailable: (reason: Diagnostic) => void
}

export class ExecOutput {
  /** The places where bytes may be missing, because a pump was killed while this exec was open. */
  readonly losses: Diagnostic[]
  readonly #setup: ExecSetup
  readonly #pump: Pump
  readonly #listener: OutputListener
  readonly #log: EventLog
  readonly #held: number[] = []
  /** Of a background exec. */
  readonly #window: OutputWindow | undefined
  #pumpId: number | undefined
  #isClosed = false
  #truncated = false

  constructor(setup: ExecSetup, listener: OutputListener) {
    this.#setup = setup
    this.#pump = setup.pump
    this.#listener = listener
    this.#log = new EventLog(setup.folder, setup.launch !== undefined)
    this.#window = setup.reservation.request.background === undefined ? undefined : new OutputWindow(setup.folder)
    this.losses = setup.launch !== undefined ? [] : notedLosses(setup.folder).map(outputLost)
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

  /** Starts reading. Idempotent. */
  open(): void {
    if (this.#pumpId !== undefined) return
    const { folder, launch, reservation } = this.#setup
    const streams: readonly Stream[] = reservation.request.merge ? ['stdout'] : ['stdout', 'stderr']
    if (launch === undefined && this.#pump.isAfterKill) this.#noteLoss()
    for (const stream of streams) this.#held.push(openFifo(join(folder, EXEC_FILES[stream]))) // I3
    this.#pumpId = this.#pump.open(
      {
        bytesMax: this.#window === undefined ? reservation.request.outputBytesMax : Number.MAX_SAFE_INTEGER,
        copies: streams.map((stream) => ({ pipe: join(folder, EXEC_FILES[stream]), spool: join(folder, stream) })),
      },
      {
        onBytes: (copy, bytes) => this.#onBytes(streams[copy] ?? 'stdout', bytes),
        onFull: (raw) => this.#full(raw),
        onLoss: () => this.#noteLoss(),
        onUnavailable: (raw) => {
          this.#truncated = true
          this.#listener.onUnavailable(outputNotCopied(raw))
        },
      },
    )
  }

  /** The start event. */
  start(pid: number, atMs: number): void {
    this.#orFull(() => this.#log.start(pid, atMs))
  }

  ready(ports: readonly number[], atMs: number): void {
    this.#orFull(() => this.#log.ready(ports, atMs))
  }

  /** Reads what is left in the pipes. No process may be left that could write. */
  async drain(): Promise<void> {
    if (this.#pumpId !== undefined) await this.#pump.drain(this.#pumpId)
    if (this.#isClosed) return // released to the next runner meanwhile
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

  /** I4: noted on disk at once. */
  #noteLoss(): void {
    const where = `byte ${this.bytes('stdout')} of stdout, ${this.bytes('stderr')} of stderr`
    if (this.losses.some(({ evidence }) => evidence.includes(where))) return
    this.losses.push(outputLost(where))
    try {
      appendFileSync(join(this.#setup.folder, LOST), `${where}\n`)
    } catch {
      // The disk is full: only a restart before the end of the exec would miss this.
    }
  }

  #onBytes(stream: Stream, bytes: number): void {
    if (bytes === this.bytes(stream)) return // reported again, by a restarted pump
    this.#listener.onBytes() // I2: the start comes before any byte
    if (!this.#truncated) this.#orFull(() => this.#log.grow(stream, bytes))
    this.#window?.grown(stream, bytes)
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
