/**
 * The daemon of a run: a daemon that answers for the state folder, else a child of the run. Found again whenever it is lost.
 *
 * I1  A state folder has one daemon. Of runs that start together the fastest starts it, and the others use it.
 * I2  Another run's daemon ends with its work; then this run starts its own. A daemon that was started with `up`, or named by
 *     BREAKFALL_URL, is waited for instead: its owner restarts it.
 * I3  At the end the run releases the daemon that it started, and starts none after that.
 */
import type { DaemonAddress } from '@breakfall/client'
import { Fault, isFault, POLICY_DEFAULTS, retrying } from '@breakfall/faults'
import { ChildDaemon, type ChildDaemonOptions } from '../../daemon/child.ts'
import { type DaemonPlace, findDaemon, type FoundDaemon } from '../../daemon/find.ts'
import type { Output } from '../../terminal/output.ts'
import type { RunContext } from './options.ts'

export type RunDaemonOptions = {
  readonly place: DaemonPlace
  /** How to start one. */
  readonly childOptions: ChildDaemonOptions
  /** Called before the run uses a daemon that it did not start. */
  readonly onTheirs: (found: FoundDaemon) => void
}

export class RunDaemon implements AsyncDisposable {
  readonly #options: RunDaemonOptions
  #child: ChildDaemon | undefined
  #theirs: FoundDaemon | undefined
  #finding: Promise<DaemonAddress> | undefined
  #isOver = false
  #leavesTurn = false

  constructor(options: RunDaemonOptions) {
    this.#options = options
  }

  /** Its current address. */
  address(): Promise<DaemonAddress> {
    this.#finding ??= retrying(() => this.#find(), { policy: POLICY }).finally(() => (this.#finding = undefined))
    return this.#finding
  }

  /** It keeps running after all runs have ended, as `up` does. */
  get isLasting(): boolean {
    return this.#child === undefined && this.#theirs?.untilIdle !== true
  }

  /** The turn and its daemon continue without this run. */
  leaveTurn(): void {
    this.#leavesTurn = true
  }

  get leavesTurn(): boolean {
    return this.#leavesTurn
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true // I3
    await this.#child?.release(this.#leavesTurn)
  }

  async #find(): Promise<DaemonAddress> {
    if (this.#child?.running !== undefined) return this.#child.running
    const { place, childOptions, onTheirs } = this.#options
    const theirs = await findDaemon(place) // I1
    if (theirs !== undefined) {
      if (theirs.address.url !== this.#theirs?.address.url) onTheirs(theirs)
      this.#theirs = theirs
      return theirs.address
    }
    if (this.#child === undefined && this.#theirs?.untilIdle === false) return this.#theirs.address // I2
    if (this.#isOver) throw new Fault('cancelled') // I3
    this.#child ??= new ChildDaemon(childOptions)
    return this.#child.address().catch((error: unknown) => {
      throw isFault(error) && error.category === 'lease_lost' ? notAnsweringYet(error) : error // I1
    })
  }
}

/** How a run starts its own daemon: its folder and its isolation level. Its model comes with its session. */
export function childDaemonFor({ config, options, out }: RunContext, folder: string): ChildDaemonOptions {
  const level = options.isolation ?? options.answer?.isolation ?? config.runner.isolation
  return {
    args: ['--state-dir', config.stateDir, ...(level === 'process' ? ['--allow-isolation', 'process'] : [])],
    env: config.childEnv,
    cwd: folder,
    onRestart: onRestart(out),
    onStart: (pid) => out.say(`daemon: pid ${pid}, for this run`),
  }
}

export const onRestart = (out: Output) => (): void =>
  out.say("the run's daemon died; restarting it, and the turn continues")

// ---- details, in the order they are used above ----

/** Another run's daemon that is starting answers within seconds, and a daemon that is ending releases the folder. */
const POLICY = { ...POLICY_DEFAULTS, attemptsMax: 9, backoffMs: 100 } as const

const notAnsweringYet = (cause: Fault): Fault =>
  new Fault('daemon_unreachable', {
    error: cause.error,
    errorRaw: 'another daemon holds the lock of the state folder, but does not answer yet',
    cause,
  })
