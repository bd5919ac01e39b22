/**
 * How long a run stays with its turn, and what a signal means while it does.
 *
 * I1  A parked turn is waited on for a while, and not at all where nothing can change in that time. It stays parked.
 * I2  A signal leaves what is parked, or another's, as it is. Else it is the run's to cancel.
 */
import { duration } from '@breakfall/faults'
import type { SessionEventOf } from '@breakfall/wire'
import type { Interrupt } from '../process/interrupt.ts'
import type { Output } from '../render/output.ts'

export type WatchOptions = {
  readonly parkWaitMs: number
  readonly interrupt: Interrupt
  readonly out: Output
  /** Somebody else has started the turn. */
  readonly isTheirs: boolean
  /** The daemon goes on without this run, and with whatever key it is given. */
  readonly isLasting: () => boolean
}

export class Watch implements Disposable {
  readonly #options: WatchOptions
  readonly #over = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #parked: SessionEventOf<'parked'> | undefined

  constructor(options: WatchOptions) {
    this.#options = options
    this.#leaveOnSignal(options.isTheirs) // I2
  }

  /** Aborted when the turn is left as it is. */
  get signal(): AbortSignal {
    return this.#over.signal
  }

  /** What the turn waits with, while it does. */
  get parked(): SessionEventOf<'parked'> | undefined {
    return this.#parked
  }

  park(event: SessionEventOf<'parked'>): void {
    const { parkWaitMs, out, isLasting } = this.#options
    this.#parked = event
    const isFixed = event.fault.category === 'model_auth_failed' && !isLasting() // its key is this process's own, as it began
    if (isFixed || parkWaitMs === 0) return this.#over.abort() // I1
    if (this.#timer !== undefined) return
    this.#timer = setTimeout(() => this.#over.abort(), parkWaitMs)
    this.#leaveOnSignal(true)
    out.say(`waiting here for up to ${duration(parkWaitMs)}; Ctrl-C leaves it parked`)
  }

  goOn(): void {
    this.#parked = undefined
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#leaveOnSignal(this.#options.isTheirs)
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#leaveOnSignal(false)
  }

  #leaveOnSignal(leaves: boolean): void {
    this.#options.interrupt.leaves(leaves ? () => this.#over.abort() : undefined)
  }
}
