/**
 * Ctrl-C, SIGTERM and SIGHUP during a run: the first cancels in order, or leaves what is to be left as it is; the second leaves
 * at once. Listens from the run's first moment, so that whatever was started by then is put away as well.
 */
import { EXIT_CODES, Fault, faultFrom } from '@breakfall/faults'
import type { Output } from '../render/output.ts'
import { onSignal } from './signals.ts'

export class Interrupt implements Disposable {
  readonly #out: Output
  readonly #asked = new AbortController()
  readonly #listening: Disposable
  #word = ''
  #cancel: ((reason: string) => Promise<unknown>) | undefined
  #leave: (() => void) | undefined
  #isLeaving = false

  constructor(out: Output) {
    this.#out = out
    this.#listening = onSignal((signal) => this.#receive(signal))
  }

  get signal(): AbortSignal {
    return this.#asked.signal
  }

  /** The outcome of `work`, or the cancel of whoever asks to stop before there is a turn that could be cancelled. */
  async unlessAsked<T>(work: Promise<T>): Promise<T> {
    const { signal } = this.#asked
    signal.throwIfAborted()
    const asked = Promise.withResolvers<never>()
    const onAbort = (): void => asked.reject(signal.reason)
    signal.addEventListener('abort', onAbort)
    try {
      return await Promise.race([work, asked.promise])
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Throws where somebody has asked to stop before there was anything to cancel. */
  throwIfAsked(): void {
    this.#asked.signal.throwIfAborted()
  }

  /** There is something to cancel now; it is cancelled at once where that was asked for already. */
  reaches(cancel: (reason: string) => Promise<unknown>): void {
    this.#cancel = cancel
    if (this.#asked.signal.aborted) this.#run()
  }

  /** While this is set a signal does that, and cancels nothing. */
  leaves(leave: (() => void) | undefined): void {
    this.#leave = leave
  }

  [Symbol.dispose](): void {
    this.#listening[Symbol.dispose]()
  }

  #receive(signal: NodeJS.Signals): void {
    const { aborted } = this.#asked.signal
    if (aborted || this.#isLeaving) leave(signal, this.#out)
    if (this.#leave !== undefined) {
      this.#isLeaving = true
      return this.#leave()
    }
    this.#out.say(this.#out.styleErr('yellow', '\ncancelling… (again to leave at once)'))
    this.#word = wordFor(signal)
    this.#asked.abort(cancelledBy(signal))
    this.#run()
  }

  #run(): void {
    this.#cancel?.(this.#word).catch((thrown: unknown) =>
      this.#out.say(`the cancel did not reach the daemon: ${faultFrom(thrown).error}`),
    )
  }
}

/** Ends this process at once, with its last words. */
export function leave(signal: NodeJS.Signals, out: Output): never {
  const fault = cancelledBy(signal)
  out.rest()
  if (out.json && !out.hasResult) out.result({ outcome: 'cancelled', fault: fault.report })
  out.say(`breakfall: ${fault.error}`)
  process.exit(EXIT_CODES.cancelled)
}

// ---- details ----

const wordFor = (signal: NodeJS.Signals): string => (signal === 'SIGINT' ? 'Ctrl-C' : signal)

const cancelledBy = (signal: NodeJS.Signals): Fault => new Fault('cancelled', { facts: { name: wordFor(signal) } })
