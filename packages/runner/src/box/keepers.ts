/**
 * The keepers of one box. Idle ones wait for the next exec, the most recent first, and exit after a while.
 *
 * I1  A keeper is reused only if it is alone in its control groups and its settings are unchanged, so an exec never inherits
 *     anything from another.
 * I2  The process limit belongs to the caller: our own processes in the box's group are added to it, and so are those that have
 *     ended but are not collected yet.
 */
import { within } from '@breakfall/faults/internal'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { type Job, Keeper, type OnGone } from '../exec/keeper.ts'
import { readUncollected } from '../exec/process-table.ts'
import type { Programs, RunnerHost } from '../host/host.ts'
import type { ExecGroup } from '../isolation/cgroup.ts'
import { pollUntil } from '../lib/poll-until.ts'
import { EndedProcesses } from './ended-pids.ts'

/** What keepers need of the host. */
export type KeeperHost = Pick<RunnerHost, 'cgroups' | 'runnerId' | 'bootId' | 'keepers' | 'inherited' | 'keyring'> & {
  readonly programs: Pick<Programs, 'sleep'>
}

export type KeepersBox = {
  readonly groupName: string
  readonly execs: string
  readonly pids: () => number | null
}

export class Keepers {
  readonly #host: KeeperHost
  readonly #box: KeepersBox
  /** Idle keepers, the most recent last, each with the timer that ends it. */
  readonly #idle = new Map<Keeper, NodeJS.Timeout>()
  readonly #all = new Set<Keeper>()
  readonly #ending = new Set<Keeper>()
  readonly #ended: EndedProcesses
  /** How much the limit is above the caller's. */
  #addedPids = 0
  #isReviewing = false

  constructor(host: KeeperHost, box: KeepersBox) {
    this.#host = host
    this.#box = box
    this.#ended = new EndedProcesses(readUncollected, RUNNER_DEFAULTS.endedPidsMax, host.keepers)
  }

  /** Gives the job to an idle keeper or a new one. Throws if no process can be made. */
  run(job: Job, onGone: OnGone, newKeeper: boolean): Keeper {
    const waiting = newKeeper ? undefined : [...this.#idle.keys()].at(-1)
    const keeper = waiting ?? this.#make()
    this.#unlist(keeper)
    keeper.expect(job)
    this.#limitPids() // before anything of the job runs
    keeper.run(job, onGone)
    return keeper
  }

  /** After its exec. A clean keeper becomes idle, any other ends. */
  giveBack(keeper: Keeper, isClean: boolean): void {
    const { keepersIdleMax, keepersIdleAll, keeperIdleMs } = RUNNER_DEFAULTS
    const isFull = this.#idle.size >= keepersIdleMax || this.#host.keepers.idle >= keepersIdleAll
    if (keeper.isGone || !isClean || isFull || !this.#isAlone(keeper) || keeper.isChanged()) {
      this.#discard(keeper)
      return
    }
    keeper.done()
    const timer = setTimeout(() => this.#expire(keeper), keeperIdleMs)
    timer.unref()
    this.#idle.set(keeper, timer)
    this.#host.keepers.idle += 1
  }

  /** The control group of an earlier runner's keeper. */
  groupOf(keeperName: string): ExecGroup | undefined {
    return this.#host.cgroups.execGroup(this.#box.groupName, keeperName)
  }

  get holdsTrees(): boolean {
    return this.#host.cgroups.holdsTrees
  }

  /** These have ended, or were killed, and may not be collected yet. */
  ended(pids: Iterable<number>): void {
    if (this.#box.pids() === null) return
    this.#ended.add(pids)
    this.#limitPids()
  }

  /** Ends idle keepers. Resolves when they and their groups are gone. */
  async close(): Promise<void> {
    for (const keeper of this.#idle.keys()) this.#expire(keeper)
    await within(Promise.all([...this.#ending].map((keeper) => keeper.gone)), RUNNER_DEFAULTS.treeEndMs)
    this.#ended.clear() // the next group of the box starts without them
  }

  // ---- details, in the order they are used above ----

  /** Ends a keeper and everything in its group. */
  #discard(keeper: Keeper): void {
    if (!keeper.isGone) this.#ending.add(keeper)
    const others = (keeper.group?.processes() ?? []).filter((pid) => pid !== keeper.pid)
    keeper.kill()
    keeper.group?.kill([])
    this.ended(others) // afterwards: a command that forks without end must not get their places while it is killed
  }

  #make(): Keeper {
    const { cgroups, runnerId, bootId, programs, inherited, keyring } = this.#host
    const name = `${bootId.slice(-12)}-${(this.#host.keepers.made += 1)}`
    const keeper = new Keeper({
      execs: this.#box.execs,
      name,
      mark: keeperMark(runnerId, this.#box.groupName, name),
      sleep: programs.sleep,
      group: cgroups.execGroup(this.#box.groupName, name),
      keyring,
      inherited,
    })
    this.#all.add(keeper)
    void keeper.gone.then(() => this.#forget(keeper))
    return keeper
  }

  #forget(keeper: Keeper): void {
    this.#unlist(keeper)
    keeper.group?.remove()
    this.#all.delete(keeper)
    this.#ending.delete(keeper)
    this.#limitPids()
  }

  #expire(keeper: Keeper): void {
    this.#unlist(keeper)
    this.#discard(keeper)
  }

  #unlist(keeper: Keeper): void {
    clearTimeout(this.#idle.get(keeper))
    if (this.#idle.delete(keeper)) this.#host.keepers.idle -= 1
  }

  /** I1. Without control groups the tree was ended by its marks, and nothing more can be checked. */
  #isAlone(keeper: Keeper): boolean {
    if (keeper.group === undefined || !this.#host.cgroups.holdsTrees) return true
    const inGroup = keeper.group.processes()
    return inGroup.length === 1 && inGroup[0] === keeper.pid
  }

  /** I2. The limit rises at once and falls a moment later, so short commands do not change it twice each. */
  #limitPids(): void {
    const added = this.#toAdd()
    if (added > this.#addedPids) this.#addPids(added)
    else if (added < this.#addedPids) this.#reviewSoon()
  }

  /** The limit was just set to the caller's. */
  limitPidsAnew(): void {
    this.#addedPids = 0
    this.#limitPids()
  }

  #toAdd(): number {
    return [...this.#all].reduce((sum, keeper) => sum + keeper.processes, this.#ended.count(this.#box.pids() ?? 0))
  }

  #addPids(added: number): void {
    const pids = this.#box.pids()
    if (pids === null || added === this.#addedPids) return
    try {
      this.#host.cgroups.limitPids(this.#box.groupName, pids + added) // I2: our own processes are added
      this.#addedPids = added
    } catch {
      // Too many open files. The limit stays until the next keeper starts or ends.
    }
    this.#reviewSoon()
  }

  /** Until nothing is left to lower. */
  #reviewSoon(): void {
    if (this.#isReviewing) return
    this.#isReviewing = true
    const review = (waitedMs: number): true | undefined => {
      if (waitedMs === 0) return undefined
      this.#ended.collect(RUNNER_DEFAULTS.endedPidsLooks)
      this.#addPids(this.#toAdd())
      return this.#ended.isEmpty ? true : undefined
    }
    const limits = { everyMs: RUNNER_DEFAULTS.endedPidsEveryMs, forMs: Number.POSITIVE_INFINITY, ref: false }
    void pollUntil(review, limits).then(() => {
      this.#isReviewing = false
      this.#limitPids()
    })
  }
}

/** The name of a box's control group. */
export const groupNameOf = (prefix: string, boxId: string): string => `${prefix}.${boxId}`

export const keeperMark = (runnerId: string, groupName: string, name: string): string =>
  `${runnerId}/${groupName}/${name}`
