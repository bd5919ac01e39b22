/**
 * How long a run stays with its turn, and what a signal does meanwhile.
 *
 * I1  The run waits for a parked turn for a while, or not at all if nothing can change in that time. The turn stays parked.
 * I2  A signal leaves a parked turn, or a turn of another run, alone. Otherwise it cancels the turn.
 */
import { duration } from '@breakfall/faults/internal'
import type { SessionEventOf } from '@breakfall/wire'
import { continuesByItself } from '@breakfall/wire/turn'
import type { Interrupt } from '../../terminal/interrupt.ts'
import type { Output } from '../../terminal/output.ts'

export type ParkWaitOptions = {
  /** Default: a minute, or until a timed park is over if that is soon. */
  readonly parkWaitMs?: number | undefined
  readonly interrupt: Pick<Interrupt, 'leaveInstead'>
  readonly out: Pick<Output, 'say'>
  /** Another run started the turn. */
  readonly isTheirs: boolean
  /** The reader came to see the turn continue, however long that takes. */
  readonly isAttached?: boolean | undefined
  /** The daemon outlives this run, and takes a new key from elsewhere. */
  readonly isLasting: () => boolean
}

const WAIT_MS = 60_000
const TIMED_WAIT_MS_MAX = 120_000 // a person waits that long if the end is known
const RESUME_MS = 10_000 // for the daemon to resume the turn and say so

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

  /** `isAnswered`: the person at the keyboard is asked, and the run waits for the answer. */
  park(event: SessionEventOf<'parked'>, isAnswered = false): void {
    const { out, isLasting, isAttached = false } = this.#options
    this.#parked = event
    if (isAnswered) return this.#leaveOnSignal(true)
    if (isAttached && continuesByItself(event)) return
    const resumesInMs = event.resumeAt === null ? null : Math.max(0, Date.parse(event.resumeAt) - Date.now())
    const waitMs = this.#options.parkWaitMs ?? waitMsFor(resumesInMs)
    const isHopeless = !continuesByItself(event) && (this.#options.parkWaitMs === undefined || !isLasting()) // who would wait has to act
    if (isHopeless || waitMs === 0) return this.#leaving.abort() // I1
    if (this.#timer !== undefined) return
    this.#timer = setTimeout(() => this.#leaving.abort(), waitMs)
    this.#leaveOnSignal(true)
    const why =
      resumesInMs === null || resumesInMs > waitMs ? '' : `, because the turn resumes in ${duration(resumesInMs)}`
    out.say(`waiting for up to ${duration(waitMs)}${why}; Ctrl-C leaves the turn parked`)
  }

  leave(): void {
    this.#leaving.abort()
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

// ---- details ----

/** At least until the turn resumes automatically, if that is soon. */
function waitMsFor(resumesInMs: number | null): number {
  const isSoon = resumesInMs !== null && resumesInMs <= TIMED_WAIT_MS_MAX
  return isSoon ? Math.max(WAIT_MS, resumesInMs + RESUME_MS) : WAIT_MS
}
