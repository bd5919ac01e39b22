/**
 * One exec from its reservation to its end.
 *
 * I1  The end is written once, after the tree is over and the pipes are empty; so every byte is before `exit`, and
 *     whoever waits is told after it.
 * I2  Why it was ended is decided by the first reason and kept on disk before the first signal.
 * I3  What was spawned is settled by its keeper's words, or by the keeper's certain death; never by a timer alone.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { classify, type Diagnostic } from '@breakfall/faults'
import type { Exec as ExecRecord, SpawnFailure } from '@breakfall/wire'
import type { ExecGroup } from '../isolation/cgroup.ts'
import { RUNNER_DEFAULTS } from '../defaults.ts'
import { killIncomplete, noSpace, spawnRefused, workspaceChanged } from './diagnostics.ts'
import { type EndReason, exitRecord } from './exit-record.ts'
import { EXEC_FILES, type ExecEnd, noteReason, removeWorkingFiles, writeEnd } from './folder.ts'
import type { Keeper } from './keeper.ts'
import { climb } from './kill-ladder.ts'
import { ExecOutput } from './output.ts'
import { prove, sendSignal, startTimeOf } from './process-table.ts'
import { execRecord } from './record.ts'
import type { ExecSetup } from './setup.ts'
import { StatusWatch } from './status-watch.ts'
import { StdinPipe } from './stdin.ts'
import { ProcessTree } from './tree.ts'
import { Waiters } from './waiters.ts'

const SIGNAL_LOOK_MS = 5

export class Exec {
  readonly id: string
  readonly folder: string
  readonly setup: ExecSetup
  readonly stdin: StdinPipe
  readonly #output: ExecOutput
  readonly #watch: StatusWatch
  readonly #tree: ProcessTree
  readonly #waiters = new Waiters()
  readonly #diagnostics: Diagnostic[] = []
  #deadline: NodeJS.Timeout | undefined
  #started: (() => void) | undefined
  #startedAtMs: number | null = null
  #spawnedMonotonicMs: number | undefined
  /** Undefined for an exec of an earlier runner: that keeper answers to nobody. */
  #keeper: Keeper | undefined
  #group: ExecGroup | undefined
  #isSpawned = false
  #isSecondTry = false
  #isKeeperGone = false
  #isReleased = false
  #isSettling = false
  #refusal: SpawnFailure | undefined
  #ended: EndReason | undefined
  #end: ExecEnd | undefined

  constructor(setup: ExecSetup) {
    this.id = setup.reservation.execId
    this.folder = setup.folder
    this.setup = setup
    const listener = {
      onBytes: () => {
        if (this.#startedAtMs === null) this.#begin()
      },
      onChange: () => this.#waiters.notify(),
      onFull: (reason?: Diagnostic) => {
        if (reason !== undefined) this.#diagnostics.push(reason)
        void this.endFor('output_limit')
      },
    }
    this.#output = new ExecOutput(setup, listener)
    this.#watch = new StatusWatch(join(setup.folder, EXEC_FILES.status))
    this.#tree = new ProcessTree(setup.level, setup.holdsTree, setup.mark)
    this.stdin = new StdinPipe(join(setup.folder, EXEC_FILES.stdin), setup.reservation.request.stdin === 'pipe')
  }

  // ---- what others see ----

  get isOver(): boolean {
    return this.#end !== undefined
  }

  /** Events in the log, without the exit event. */
  get count(): number {
    return this.#output.count
  }

  get end(): ExecEnd | undefined {
    return this.#end
  }

  /** As its status file names it; undefined where no keeper has taken it yet. */
  get keeperName(): string | undefined {
    return this.#watch.status.name
  }

  record(): ExecRecord {
    return execRecord(this.setup.boxId, this.setup.reservation, {
      state: this.isOver ? 'exited' : this.#startedAtMs === null ? 'starting' : 'running',
      startedAtMs: this.#startedAtMs,
      stdoutBytes: this.#output.bytes('stdout'),
      stderrBytes: this.#output.bytes('stderr'),
      lastSeq: this.#output.count,
      end: this.#end,
    })
  }

  /** Resolves at the next event, at the end, or when `signal` says so. */
  changed(signal: AbortSignal): Promise<void> {
    return this.isOver ? Promise.resolve() : this.#waiters.next(signal)
  }

  async over(signal: AbortSignal): Promise<void> {
    while (!this.isOver && !signal.aborted) await this.changed(signal)
  }

  // ---- life ----

  start(): void {
    this.setup.queue.add((done) => {
      this.#started = done
      if (this.#ended === undefined && !this.#isReleased) this.#spawn()
      else done() // it was ended while it waited
    })
  }

  /** Takes up an exec of an earlier runner whose keeper still lives. */
  adopt(keeper: number, startedAtMs: number | null, ended: EndReason | undefined): void {
    this.#isSpawned = true
    this.#tree.setKeeper(keeper, startTimeOf(keeper))
    this.#readStatus()
    this.#startedAtMs = startedAtMs
    this.#spawnedMonotonicMs = this.#watch.status.atMs
    this.#ended = ended
    this.#attach()
    if (ended !== undefined) void this.#climb(ended)
  }

  /** Settles an exec of an earlier runner whose keeper is gone, or that never ran. */
  async close(claimed: boolean, startedAtMs: number | null, ended: EndReason | undefined): Promise<void> {
    this.#isSpawned = claimed
    this.#isKeeperGone = true
    this.#startedAtMs = startedAtMs
    this.#ended = ended
    if (claimed) {
      this.#readStatus()
      this.#output.open() // what a survivor wrote may still be in the pipes
    }
    await this.#settle()
  }

  /** Ends it for a reason; the first one counts (I2). Resolves when it is over. */
  async endFor(reason: EndReason, graceMs = this.setup.reservation.request.killGraceMs): Promise<void> {
    if (this.#ended === undefined && !this.isOver && !this.#isSettling) {
      this.#ended = reason
      noteReason(this.folder, reason)
      if (this.#isSpawned) void this.#climb(reason, graceMs)
      else if (this.#started === undefined) void this.#settle() // still in the queue: it never starts
    }
    await this.over(new AbortController().signal)
  }

  /** Waits for a command that is still starting. False where there is nobody to get it any more. */
  async signal(signal: NodeJS.Signals): Promise<boolean> {
    while (!this.isOver && !this.#isReady()) await this.over(AbortSignal.timeout(SIGNAL_LOOK_MS))
    return !this.isOver && this.#tree.signal(signal)
  }

  /** Lets go of files and pipes and leaves the exec to its keeper: this process ends, the exec does not. */
  release(): void {
    if (this.isOver) return
    this.#isReleased = true
    this.#detach()
    this.#keeper?.leave()
    this.stdin.release()
    this.#output.close()
  }

  // ---- details, in the order they are used above ----

  #spawn(): void {
    try {
      this.#spawnedMonotonicMs = this.setup.clock.monotonicMs()
      this.#output.open()
      this.#keeper = this.setup.spawn(this.#spawnedMonotonicMs, (why) => this.#keeperGone(why), this.#isSecondTry)
    } catch (error) {
      this.#refused(error)
      return
    }
    this.#isSpawned = true
    this.#setGroup(this.#keeper.group)
    if (this.#keeper.pid === undefined) return // that it could not be made is told in a moment
    this.#tree.setKeeper(this.#keeper.pid)
    this.#attach()
  }

  #setGroup(group: ExecGroup | undefined): void {
    this.#group = group
    this.#tree.setGroup(group)
  }

  #refused(error: unknown): void {
    this.#isKeeperGone = true
    const fault = classify(error, { boundary: 'box', phase: 'spawn' })
    const isWorkspace = fault.category === 'file_not_found'
    const isFull = fault.category === 'journal_full'
    this.#refusal = isWorkspace ? 'cwd_missing' : isFull ? 'no_space' : 'no_process'
    this.#diagnostics.push(isWorkspace ? workspaceChanged : (isFull ? noSpace : spawnRefused)(fault.errorRaw))
    this.#isSpawned = false
    this.#ended ??= 'spawn_failed'
    void this.#settle()
  }

  #attach(): void {
    this.#output.open()
    const remainingMs =
      this.setup.reservation.request.timeoutMs - (this.setup.clock.monotonicMs() - (this.#spawnedMonotonicMs ?? 0))
    this.#deadline = setTimeout(() => void this.endFor('timed_out'), Math.max(0, remainingMs))
    this.#watch.start(() => this.#look())
    this.#look()
  }

  /** The start event, before any other; with the command's pid where it is known by now. */
  #begin(): void {
    this.#readStatus()
    const { sandboxPid, pid, keeper } = this.#watch.status
    this.#startedAtMs = Math.round(this.setup.clock.now() - this.#sinceSpawnMs()) // a short command is over before it is seen
    this.#output.start(sandboxPid ?? pid ?? keeper ?? this.#tree.keeper ?? 0, this.#startedAtMs)
    this.#started?.()
    this.#waiters.notify()
  }

  /** Something may have been written into the status file. */
  #look(): void {
    if (this.#isSettling || this.#isReleased) return
    this.#readStatus()
    const { exit } = this.#watch.status
    const isRunning = this.#leader() !== undefined
    if (isRunning && this.#startedAtMs === null) this.#begin()
    if (isRunning) this.stdin.open()
    if (exit !== undefined) void this.#settle()
    else if (this.#keeper !== undefined) this.#keeper.wake()
    else if (!this.#tree.wakeKeeper()) this.#keeperGone()
  }

  #readStatus(): void {
    if (!this.#watch.read()) return
    const { holder, name } = this.#watch.status
    if (this.#keeper === undefined && this.#group === undefined && name !== undefined)
      this.#setGroup(this.setup.groupOf(name))
    const leader = this.#leader()
    if (leader !== undefined) this.#tree.setLeader(leader)
    this.#tree.holder = holder
    if (holder !== undefined) this.stdin.holder ??= prove(holder)
  }

  #leader(): number | undefined {
    const { sandboxPid, pid } = this.#watch.status
    return this.setup.level === 'bwrap' ? sandboxPid : pid
  }

  /** With `why` it ended by itself, which it does only before it ran anything: no room, no process to be had. */
  #keeperGone(why?: string): void {
    if (this.#isKeeperGone || this.#isSettling || this.#isReleased) return
    this.#readStatus()
    const isClaimed = this.#keeper === undefined || existsSync(join(this.folder, EXEC_FILES.claim))
    if (!isClaimed && this.#ended === undefined && !this.#isSecondTry) {
      this.#isSecondTry = true // one that waited was killed, and never took this job: a new one gets it
      this.#detach()
      this.#spawn()
    } else if (!isClaimed || (why !== undefined && this.#watch.status.pid === undefined)) {
      this.#refused(new Error(why ?? 'the keeper was killed before it began'))
    } else {
      this.#isKeeperGone = true
      void this.#settle() // I3
    }
  }

  async #climb(reason: EndReason, graceMs = this.setup.reservation.request.killGraceMs): Promise<void> {
    const isEnded = await climb({
      tree: this.#tree,
      graceMs: this.#output.truncated ? 0 : graceMs, // nothing more of it is kept, so there is nothing to wait for
      look: () => this.#isReady(),
      over: async (ms) => {
        await this.over(AbortSignal.timeout(ms))
        return this.isOver || this.#isReleased
      },
      monotonicMs: this.setup.clock.monotonicMs,
    })
    if (isEnded || this.isOver) return // over, its keeper may serve another one by now
    this.#killKeeper()
    this.#diagnostics.push(killIncomplete(reason))
    this.#isKeeperGone = true
    void this.#settle()
  }

  #isReady(): boolean {
    this.#readStatus()
    return this.#tree.isReady()
  }

  async #settle(): Promise<void> {
    if (this.#isSettling || this.#isReleased) return
    this.#isSettling = true
    this.#detach()
    const claimed = this.#isSpawned
    const left = claimed ? await this.#tree.end(RUNNER_DEFAULTS.treeEndMs) : []
    if (this.#isReleased) return // the pipes are closed to us: the next runner reads what is left in them
    if (claimed && this.#startedAtMs === null) this.#begin()
    await this.#output.drain() // I1: nobody is left who could write
    if (this.#isReleased) return
    this.#finish(claimed, left)
  }

  #sinceSpawnMs(): number {
    return this.#spawnedMonotonicMs === undefined ? 0 : this.setup.clock.monotonicMs() - this.#spawnedMonotonicMs
  }

  #finish(claimed: boolean, left: readonly number[]): void {
    const [endedAtMs, durationMs] = [this.setup.clock.now(), this.#sinceSpawnMs()]
    const { losses } = this.#output
    const facts = {
      level: this.setup.level,
      status: this.#watch.status,
      claimed,
      ended: this.#ended,
      refusal: this.#refusal,
      oomKills: this.#group?.oomKills() ?? 0,
      durationMs,
      survivors: this.#tree.survivors(left),
      stdoutBytes: this.#output.bytes('stdout'),
      stderrBytes: this.#output.bytes('stderr'),
      truncated: this.#output.truncated || losses.length > 0,
      diagnostics: [...this.#diagnostics, ...losses],
    }
    this.#end = {
      exit: exitRecord(facts, this.setup.lookAgain),
      startedAtMs: this.#startedAtMs,
      endedAtMs,
      lastSeq: this.#output.count + 1,
    }
    const isKept = this.#keep(this.#end) // I1
    this.#output.close()
    this.#dismiss(isKept && facts.oomKills === 0 && left.length === 0)
    this.#started?.()
    this.#waiters.notify()
    this.stdin.end()
    if (isKept) this.#leave(this.#end)
  }

  #leave(end: ExecEnd): void {
    setImmediate(() => this.#tidy()) // nobody waits for that
    this.setup.onEnd(this, end)
  }

  #tidy(): void {
    try {
      removeWorkingFiles(this.folder)
    } catch {
      // The next start does it again; nothing reads them before.
    }
  }

  /** Its room was taken at the start: what fails is a broken disk, or one file too many. Who waits is told all the same. */
  #keep(end: ExecEnd): boolean {
    try {
      writeEnd(this.folder, end)
      return true
    } catch {
      setTimeout(() => this.#keep(end) && this.#leave(end), RUNNER_DEFAULTS.pollMs).unref()
      return false // until then it is known from memory, and after a restart from the keeper's notes
    }
  }

  /** All is read. A keeper that ran a command to its end, and holds nothing for it, may run the next. */
  #dismiss(isClean: boolean): void {
    const { exit, holder } = this.#watch.status
    if (this.#keeper !== undefined) {
      this.setup.giveBack(this.#keeper, isClean && exit !== undefined && holder === undefined)
      return
    }
    this.#killKeeper()
    this.#group?.kill([])
    this.#group?.remove()
  }

  #killKeeper(): void {
    if (this.#keeper !== undefined) this.#keeper.kill()
    else if (this.#tree.isKeeperThere()) sendSignal(-(this.#tree.keeper as number), 'SIGKILL')
  }

  #detach(): void {
    clearTimeout(this.#deadline)
    this.#watch.stop()
  }
}
