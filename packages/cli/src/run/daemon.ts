/**
 * The daemon of a run: the one that answers for the state folder, else one of the run's own. Asked again whenever it is lost.
 *
 * I1  A state folder has one daemon. Of runs that start together the fastest has it, and the others use it.
 * I2  The daemon of another run ends with its work; then this run goes on with one of its own. One that somebody started with
 *     `up`, or named, is waited for instead: whoever started it starts it again.
 * I3  What was started here is let go of at the end; nothing is started after that.
 */
import { Fault, isFault, POLICY_DEFAULTS, retrying } from '@breakfall/faults'
import type { DaemonAddress } from '../daemon/client.ts'
import { findDaemon } from '../daemon/find.ts'
import { OwnDaemon, type OwnDaemonOptions } from '../daemon/child.ts'

export type RunDaemonOptions = {
  readonly stateDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** How to start one. Asked when it is needed, since it takes choosing a model. */
  readonly own: () => Promise<OwnDaemonOptions>
  /** Another's is used. May refuse to. */
  readonly onTheirs: (address: DaemonAddress) => Promise<void>
}

/** A daemon of another run that is just starting answers within seconds, and one that is just ending leaves the folder. */
const PATIENCE = { ...POLICY_DEFAULTS, attemptsMax: 9, backoffMs: 100 } as const

export class RunDaemon implements AsyncDisposable {
  readonly #options: RunDaemonOptions
  #own: OwnDaemon | undefined
  #theirs: DaemonAddress | undefined
  #asking: Promise<DaemonAddress> | undefined
  #isOver = false

  constructor(options: RunDaemonOptions) {
    this.#options = options
  }

  /** Where it is now. */
  address(): Promise<DaemonAddress> {
    this.#asking ??= retrying(() => this.#find(), { policy: PATIENCE }).finally(() => (this.#asking = undefined))
    return this.#asking
  }

  /** It stays when all runs have ended, as `up` does. */
  get isLasting(): boolean {
    return this.#own === undefined && this.#theirs?.untilIdle !== true
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true // I3
    await this.#own?.release()
  }

  async #find(): Promise<DaemonAddress> {
    if (this.#own?.running !== undefined) return this.#own.running
    const { stateDir, env, own, onTheirs } = this.#options
    const theirs = (await findDaemon(stateDir, env))?.address // I1
    if (theirs !== undefined) {
      if (theirs.url !== this.#theirs?.url) await onTheirs(theirs)
      this.#theirs = theirs
      return theirs
    }
    if (this.#own === undefined && this.#theirs?.untilIdle === false) return this.#theirs // I2
    const options = await own()
    if (this.#isOver) throw new Fault('cancelled') // I3
    this.#own ??= new OwnDaemon(options)
    return this.#own.address().catch((error: unknown) => {
      throw isFault(error) && error.category === 'lease_lost' ? notYet(error) : error // I1
    })
  }
}

// ---- details ----

const notYet = (cause: Fault): Fault =>
  new Fault('daemon_unreachable', { error: cause.error, errorRaw: 'its lock is taken, but it does not answer', cause })
