/**
 * The warm sandboxes of one box: built and checked ahead, used once. An exec takes one, gives it words, and runs 14 ms sooner.
 * Without one that is ready and still right, an exec takes the ordinary path: nothing depends on this pool.
 *
 * I1  A sandbox is offered only while its door waits (`ready`), its keeper lives, and both its mounts and the inodes of its
 *     guards are what they would be if it were built now. Otherwise it is discarded.
 * I2  The next one is built after an exec's end was reported, never before, and not while others wait to be started.
 * I3  One per box, more only if that was not enough (at most `warmMax`); each ends after a minute without use.
 * I4  All boxes together have at most `warm.max`. A box that runs commands takes the place of the sandbox that has waited longest.
 */
import { chownSync, closeSync, mkdirSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { sendSignal } from '@breakfall/supervisor/platform'
import { RUNNER_DEFAULTS } from '../defaults.ts'
import { type DoorJob, goText } from '../exec/door.ts'
import { openFifo } from '../exec/fifo.ts'
import { claim, EXEC_FILES, makeWarmFolder, useWarmFolder, type ExecReservation } from '../exec/folder.ts'
import type { Keeper, OnGone } from '../exec/keeper.ts'
import { startTimeOf } from '../exec/process-table.ts'
import { StatusFile } from '../exec/status-file.ts'
import type { RunnerHost } from '../host.ts'
import type { AheadPlan } from './launch.ts'

/** What the pool needs of its box. */
export type WarmBox = {
  readonly folder: string
  readonly isRunning: () => boolean
  /** Undefined if the box has no sandbox. Throws if its workspace is gone. */
  readonly plan: () => AheadPlan | undefined
  /** A keeper in its own control group. */
  readonly makeKeeper: () => Keeper
  /** Ends a keeper and everything in its group. */
  readonly discardKeeper: (keeper: Keeper) => void
  readonly onChange: () => void
}

export type WarmHost = Pick<RunnerHost, 'fifos' | 'queue' | 'clock' | 'warm' | 'isPlainShell'>

export class WarmSandboxes {
  readonly #host: WarmHost
  readonly #box: WarmBox
  readonly #ready: WarmSandbox[] = []
  readonly #all = new Set<WarmSandbox>()
  #wanted = 1
  #serial = 0
  #building = 0
  #isUsed = false
  #isClosed = false
  #timer: NodeJS.Timeout | undefined

  constructor(host: WarmHost, box: WarmBox) {
    this.#host = host
    this.#box = box
  }

  /** For an exec without input that would have this plan. Takes it out of the pool. */
  take(plan: AheadPlan): WarmSandbox | undefined {
    this.#isUsed = true
    for (let next = this.#ready.shift(); next !== undefined; next = this.#ready.shift()) {
      if (next.isUsable(plan)) {
        this.#forget(next)
        return next
      }
      this.#discard(next) // I1
    }
    this.#wanted = Math.min(RUNNER_DEFAULTS.warmMax, this.#wanted + 1)
    return undefined
  }

  /** A taken one that will not run anything. */
  abandon(sandbox: WarmSandbox): void {
    this.#discard(sandbox)
  }

  /** Builds what is missing a moment later: the answer to the caller goes first. */
  refillSoon(delayMs: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.refill()
    }, delayMs)
    this.#timer.unref()
  }

  /** Builds what is missing, the first in this keeper if it is given. True if the keeper is used. */
  refill(keeper?: Keeper): boolean {
    const { warm, queue } = this.#host
    const isFull = (): boolean =>
      this.#isClosed ||
      !this.#box.isRunning() ||
      queue.length > 0 || // I2
      this.#all.size + this.#building >= this.#wanted
    let given = keeper
    while (warm.isOn && !isFull() && this.#hasPlace()) {
      void this.#build(given)
      given = undefined
    }
    return keeper !== undefined && given === undefined
  }

  /** Ends all of them; nothing is built any more until `open`. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
    for (const sandbox of this.#all) this.#discard(sandbox)
  }

  open(): void {
    this.#isClosed = false
    this.#wanted = 1
  }

  // ---- details, in the order they are used above ----

  /** I4. A box that has not run anything takes no other's place: creating many boxes builds no sandbox in vain. */
  #hasPlace(): boolean {
    const { warm } = this.#host
    if (warm.count < warm.max) return true
    const [discardOldest] = this.#isUsed ? warm.waiting.values() : []
    discardOldest?.()
    return discardOldest !== undefined
  }

  async #build(given: Keeper | undefined): Promise<void> {
    this.#building += 1
    this.#host.warm.count += 1
    let pipes: readonly string[] = []
    let keeper = given
    try {
      pipes = await this.#host.fifos.hold(PIPES.length)
      const plan = this.#isClosed ? undefined : this.#box.plan()
      if (plan === undefined) throw new Error('no sandbox')
      const name = `${this.#host.clock.now().toString(36)}-${(this.#serial += 1)}`
      const folder = join(this.#box.folder, name)
      mkdirSync(this.#box.folder, { recursive: true, mode: 0o700 })
      makeWarmFolder(
        folder,
        new Map([
          [EXEC_FILES.args, plan.args],
          [EXEC_FILES.door, plan.door],
          [EXEC_FILES.launch, ''],
        ]),
      )
      if (plan.owner !== undefined) chownSync(join(folder, EXEC_FILES.launch), plan.owner.uid, plan.owner.gid)
      for (const [i, file] of PIPES.entries()) this.#host.fifos.moveTo(pipes[i] ?? '', join(folder, file), plan.owner)
      pipes = []
      keeper ??= this.#box.makeKeeper()
      const sandbox = new WarmSandbox(folder, plan, keeper, this.#host.isPlainShell)
      this.#all.add(sandbox)
      sandbox.start(name, Math.round(this.#host.clock.monotonicMs()), {
        onReady: () => this.#offer(sandbox),
        onGone: () => this.#discard(sandbox),
      })
      this.#box.onChange()
    } catch {
      // The workspace is gone, the disk is full, or no process can be made: the next exec takes the ordinary path and reports it.
      this.#host.fifos.giveBack(pipes)
      this.#host.warm.count -= 1
      if (keeper !== undefined) this.#box.discardKeeper(keeper)
    } finally {
      this.#building -= 1
    }
  }

  #offer(sandbox: WarmSandbox): void {
    if (!this.#all.has(sandbox)) return
    this.#ready.push(sandbox)
    this.#host.warm.waiting.set(sandbox, () => this.#discard(sandbox))
    sandbox.expireAfter(RUNNER_DEFAULTS.keeperIdleMs, () => {
      this.#wanted = Math.max(1, this.#wanted - 1) // I3
      this.#discard(sandbox)
    })
  }

  #forget(sandbox: WarmSandbox): void {
    this.#host.warm.waiting.delete(sandbox)
    if (!this.#all.delete(sandbox)) return
    const at = this.#ready.indexOf(sandbox)
    if (at !== -1) this.#ready.splice(at, 1)
    this.#host.warm.count -= 1
  }

  #discard(sandbox: WarmSandbox): void {
    this.#forget(sandbox)
    sandbox.close()
    this.#box.discardKeeper(sandbox.keeper)
    sandbox.removeFolder()
  }
}

/** Its end may not have been reported yet. */
const isAlive = (pid: number | undefined): boolean => pid !== undefined && startTimeOf(pid) !== undefined

function removeIfPossible(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true })
  } catch {
    // Something was made in it meanwhile. It goes with its keeper, or with its box.
  }
}

const PIPES = [EXEC_FILES.stdout, EXEC_FILES.stderr, EXEC_FILES.job]

/** One of them, from its build to its use. */
export class WarmSandbox {
  readonly keeper: Keeper
  readonly plan: AheadPlan
  readonly #isPlainShell: boolean
  readonly #status: StatusFile
  #folder: string
  #job: number | undefined
  #expiry: NodeJS.Timeout | undefined
  #isTaken = false

  constructor(folder: string, plan: AheadPlan, keeper: Keeper, isPlainShell: boolean) {
    this.#folder = folder
    this.plan = plan
    this.keeper = keeper
    this.#isPlainShell = isPlainShell
    this.#status = new StatusFile(join(folder, EXEC_FILES.status))
    this.#job = openFifo(join(folder, EXEC_FILES.job)) // the door waits as long as this is open
  }

  start(name: string, atMs: number, listener: { readonly onReady: () => void; readonly onGone: () => void }): void {
    const look = (): void => {
      if (this.#isTaken || !this.#status.read()) return
      const { ready, exit } = this.#status.status
      if (!ready && exit === undefined) return
      this.#status.unfollow()
      if (exit === undefined) listener.onReady()
      else listener.onGone()
    }
    this.#status.follow(look)
    this.keeper.warm(name, atMs, listener.onGone)
  }

  /** I1 */
  isUsable(plan: AheadPlan): boolean {
    const isSame = plan.args === this.plan.args && plan.numbers === this.plan.numbers && plan.door === this.plan.door
    if (!isSame || this.keeper.isGone || !this.#status.read()) return false
    const { exit, pid, sandboxPid } = this.#status.status
    return exit === undefined && [this.keeper.pid, pid, sandboxPid].every(isAlive)
  }

  expireAfter(ms: number, onExpired: () => void): void {
    this.#expiry = setTimeout(onExpired, ms)
    this.#expiry.unref()
  }

  /** Its folder becomes the exec's. Throws if that fails, and the sandbox is of no use then. */
  become(folder: string, reservation: ExecReservation): void {
    this.#isTaken = true
    clearTimeout(this.#expiry)
    useWarmFolder(this.#folder, folder, reservation)
    this.#folder = folder
  }

  /** Gives it the command. From the claim on, it may run. */
  run(job: Omit<DoorJob, 'guarded' | 'isPlainShell'>, onGone: OnGone): Keeper {
    const text = goText({ ...job, guarded: this.plan.guarded, isPlainShell: this.#isPlainShell })
    writeFileSync(join(this.#folder, EXEC_FILES.launch), text, { flag: 'r+' }) // the door has this very file open
    if (!claim(this.#folder)) throw new Error('the exec is claimed already')
    this.keeper.take(onGone)
    this.#wake()
    if (this.#job !== undefined) writeSync(this.#job, '\n')
    this.#closeJob()
    return this.keeper
  }

  /** The door ends when its job pipe closes. */
  close(): void {
    clearTimeout(this.#expiry)
    this.#status.unfollow()
    this.#closeJob()
  }

  /** A keeper that is just starting opens files there, so it is removed again once the keeper is gone. An exec's folder stays. */
  removeFolder(): void {
    if (this.#isTaken) return
    const folder = this.#folder
    removeIfPossible(folder)
    void this.keeper.gone.then(() => removeIfPossible(folder))
  }

  /** Someone may have stopped its processes while it waited. */
  #wake(): void {
    const { pid, sandboxPid } = this.#status.status
    this.keeper.wake()
    if (pid !== undefined) sendSignal(pid, 'SIGCONT')
    if (sandboxPid === undefined) return
    sendSignal(sandboxPid, 'SIGCONT')
    sendSignal(-sandboxPid, 'SIGCONT') // the group of its door
  }

  #closeJob(): void {
    if (this.#job !== undefined) closeSync(this.#job)
    this.#job = undefined
  }
}
