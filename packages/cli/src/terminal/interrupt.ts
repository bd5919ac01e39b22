/**
 * Ctrl-C, SIGTERM and SIGHUP: in a run, the first cancels the turn, or leaves it alone; the second exits at once. Registered as the
 * run starts, so everything that the run starts is cleaned up.
 *
 * I1  A terminal that closes (SIGHUP) cancels no turn that a daemon can continue, even if the turn is about to start. The kernel and
 *     the shell both send the signal, so more of it changes nothing.
 */
import { EXIT_CODES, Fault, faultFrom } from '@breakfall/faults'
import { onSignal } from '../process/signals.ts'
import type { Output } from './output.ts'

export class Interrupt implements Disposable {
  readonly #out: Output
  readonly #stop = new AbortController()
  readonly #listening: Disposable
  #reason = ''
  #cancel: ((reason: string) => Promise<unknown>) | undefined
  #leave: (() => void) | undefined
  #isLeaving = false
  readonly #hangUp = new AbortController()
  #survivesHangUp = false

  constructor(out: Output) {
    this.#out = out
    this.#listening = onSignal((signal) => this.#receive(signal))
  }

  /** Aborts when the user wants the run to end. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  /** Aborts when the terminal has closed and the turn continues without the run. */
  get hungUp(): AbortSignal {
    return this.#hangUp.signal
  }

  /** From now on the prompt is known, and the daemon outlives the terminal. */
  surviveHangUp(): void {
    this.#survivesHangUp = true
  }

  /** The result of `work`, or the cancellation if a signal arrives first: there is no turn yet that could be cancelled. */
  async unlessInterrupted<T>(work: Promise<T>): Promise<T> {
    const { signal } = this.#stop
    signal.throwIfAborted()
    const interrupted = Promise.withResolvers<never>()
    const onAbort = (): void => interrupted.reject(signal.reason)
    signal.addEventListener('abort', onAbort)
    try {
      return await Promise.race([work, interrupted.promise])
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  throwIfInterrupted(): void {
    this.#stop.signal.throwIfAborted()
  }

  /** From now on there is a turn to cancel. If a signal has arrived already, it is cancelled now. */
  onCancel(cancel: (reason: string) => Promise<unknown>): void {
    this.#cancel = cancel
    if (this.#stop.signal.aborted) this.#run()
  }

  /** While `leave` is set, a signal calls it and cancels nothing. */
  leaveInstead(leave: (() => void) | undefined): void {
    this.#leave = leave
  }

  [Symbol.dispose](): void {
    this.#listening[Symbol.dispose]()
  }

  #receive(signal: NodeJS.Signals): void {
    if (signal === 'SIGHUP' && this.#survivesHangUp) return this.#hangUp.abort() // I1
    if (this.#stop.signal.aborted || this.#isLeaving) exitCancelled(signal, this.#out)
    if (this.#leave !== undefined) {
      this.#isLeaving = true
      return this.#leave()
    }
    this.#out.say(this.#out.styleErr('yellow', '\ncancelling… (press again to exit at once)'))
    this.#reason = signalName(signal)
    this.#stop.abort(cancelledBy(signal))
    this.#run()
  }

  #run(): void {
    this.#cancel?.(this.#reason).catch((thrown: unknown) =>
      this.#out.say(`the cancel did not reach the daemon: ${faultFrom(thrown).error}`),
    )
  }
}

/** Ends this process at once, with a result line and a message. */
export function exitCancelled(signal: NodeJS.Signals, out: Output): never {
  const fault = cancelledBy(signal)
  out.endStyle()
  if (out.json && !out.hasResult) out.result({ outcome: 'cancelled', fault: fault.report })
  out.say(`breakfall: ${fault.error}`)
  process.exit(EXIT_CODES.cancelled)
}

/** For a server: resolves with the first signal, to shut down in order. The second one ends the process at once. */
export function untilSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false
    onSignal((signal) => {
      if (isStopping) process.exit(EXIT_CODES.cancelled)
      isStopping = true
      resolve(signal)
    })
  })
}

// ---- details, in the order they are used above ----

const signalName = (signal: NodeJS.Signals): string => (signal === 'SIGINT' ? 'Ctrl-C' : signal)

const cancelledBy = (signal: NodeJS.Signals): Fault => new Fault('cancelled', { facts: { name: signalName(signal) } })
