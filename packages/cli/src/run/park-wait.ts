/**
 * How long a run stays with its turn, and what a signal does meanwhile.
 *
 * I1  The run waits for a parked turn for a while, or not at all if nothing can change in that time. The turn stays parked.
 * I2  A signal leaves a parked turn, or a turn of another run, alone. Otherwise it cancels the turn.
 */
import { duration } from '@breakfall/faults'
import type { SessionEventOf } from '@breakfall/wire'
import type { Interrupt } from '../process/interrupt.ts'
import type { Output } from '../render/output.ts'

export type ParkWaitOptions = {
  readonly parkWaitMs: number
  readonly interrupt: Pick<Interrupt, 'leaveInstead'>
  readonly out: Output
  /** Another run started the turn. */
  readonly isTheirs: boolean
  /** The daemon outlives this run, and can be given a new key. */
  readonly isLasting: () => boolean
}

export class ParkWait implements Disposable {
  readonly #options: ParkWaitOptions
  readonly #leaving = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #parked: SessionEventOf<'parked'> | undefined

  constructor(options: ParkWaitOptions) {
    this.#options = options
    this.#leaveOnSignal(options.isTheirs) // I2
  }

  /** Aborts when the run leaves the turn alone. */
  get signal(): AbortSignal {
    return this.#leaving.signal
  }

  /** Why the turn is parked, while it is. */
  get parked(): SessionEventOf<'parked'> | undefined {
    return this.#parked
  }

  park(event: SessionEventOf<'parked'>): void {
    const { parkWaitMs, out, isLasting } = this.#options
    this.#parked = event
    const isHopeless = event.fault.category === 'model_auth_failed' && !isLasting() // this process keeps the key it started with
    if (isHopeless || parkWaitMs === 0) return this.#leaving.abort() // I1
    if (this.#timer !== undefined) return
    this.#timer = setTimeout(() => this.#leaving.abort(), parkWaitMs)
    this.#leaveOnSignal(true)
    out.say(`waiting for up to ${duration(parkWaitMs)}; Ctrl-C leaves the turn parked`)
  }

  resume(): void {
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
    this.#options.interrupt.leaveInstead(leaves ? () => this.#leaving.abort() : undefined)
  }
}
