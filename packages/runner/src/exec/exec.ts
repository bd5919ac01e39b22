/**
 * One exec from its reservation to its end. The only place that writes its log.
 *
 * I1  Output is appended only from here, the end is written once, after the tree is over and the pipes are empty;
 *     so every byte is before `exit`, and whoever waits is told after it.
 * I2  Why it was ended is decided by the first reason and kept on disk before the first signal.
 * I3  What was spawned is settled by its keeper's words, or by the keeper's certain death; never by a timer alone.
 */
import type { ChildProcess } from 'node:child_process'
import { type FSWatcher, readFileSync, watch, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { classify, type Diagnostic } from '@breakfall/faults'
import type { Exec as ExecRecord } from '@breakfall/wire'
import { RUNNER_DEFAULTS } from '../defaults.ts'
import { killIncomplete, outputNotKept, spawnRefused } from './diagnostics.ts'
import { EventLog, type Stream } from './event-log.ts'
import { type EndReason, exitRecord } from './exit-record.ts'
import { FifoReader } from './fifo-reader.ts'
import { EXEC_FILES, type ExecEnd, removeWorkingFiles, writeEnd } from './folder.ts'
import { climb } from './kill-ladder.ts'
import { sendSignal } from './process-table.ts'
import { execRecord } from './record.ts'
import type { ExecSetup } from './setup.ts'
import { type KeeperStatus, parseStatus } from './status.ts'
import { StdinPipe } from './stdin.ts'
import { ProcessTree } from './tree.ts'
import { Waiters } from './waiters.ts'

const SIGNAL_LOOK_MS = 5

export class Exec {
  readonly id: string
  readonly folder: string
  readonly setup: ExecSetup
  readonly stdin: StdinPipe
  readonly #log: EventLog
  readonly #tree: ProcessTree
  readonly #readers: FifoReader[] = []
  readonly #waiters = new Waiters()
  readonly #diagnostics: Diagnostic[] = []
  #status: KeeperStatus = parseStatus('')
  #watcher: FSWatcher | undefined
  #poll: NodeJS.Timeout | undefined
  #deadline: NodeJS.Timeout | undefined
  #started: (() => void) | undefined
  #startedAtMs: number | null = null
  #spawnedMonotonicMs: number | undefined
  #isSpawned = false
  #isKeeperGone = false
  #isReleased = false
  #isSettling = false
  #truncated = false
  #ended: EndReason | undefined
  #end: ExecEnd | undefined

  constructor(setup: ExecSetup) {
    this.id = setup.reservation.execId
    this.folder = setup.folder
    this.setup = setup
    this.#log = new EventLog(setup.folder)
    this.#tree = new ProcessTree(setup.level, setup.group, setup.holdsTree, setup.mark)
    this.stdin = new StdinPipe(join(setup.folder, EXEC_FILES.stdin), setup.reservation.request.stdin === 'pipe')
  }

  // ---- what others see ----

  get isOver(): boolean {
    return this.#end !== undefined
  }

  /** Events in the log, without the exit event. */
  get count(): number {
    return this.#log.count
  }

  get end(): ExecEnd | undefined {
    return this.#end
  }

  record(): ExecRecord {
    return execRecord(this.setup.boxId, this.setup.reservation, {
      state: this.isOver ? 'exited' : this.#startedAtMs === null ? 'starting' : 'running',
      startedAtMs: this.#startedAtMs,
      stdoutBytes: this.#log.bytes('stdout'),
      stderrBytes: this.#log.bytes('stderr'),
      lastSeq: this.#log.count,
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
  adopt(keeper: number, ageMs: number, startedAtMs: number | null, ended: EndReason | undefined): void {
    this.#isSpawned = true
    this.#tree.setKeeper(keeper)
    this.#startedAtMs = startedAtMs
    this.#spawnedMonotonicMs = this.setup.clock.monotonicMs() - ageMs
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
      this.#openReaders() // what a survivor wrote may still be in the pipes
    }
    await this.#settle()
  }

  /** Ends it for a reason; the first one counts (I2). Resolves when it is over. */
  async endFor(reason: EndReason, graceMs = this.setup.reservation.request.killGraceMs): Promise<void> {
    if (this.#ended === undefined && !this.isOver && !this.#isSettling) {
      this.#ended = reason
      this.#note(reason)
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
    for (const reader of this.#readers) reader.close()
    this.stdin.release()
    this.#log.close()
  }

  // ---- details, in the order they are used above ----

  #spawn(): void {
    let child: ChildProcess
    try {
      this.#spawnedMonotonicMs = this.setup.clock.monotonicMs()
      this.#openReaders()
      child = this.setup.spawn()
    } catch (error) {
      this.#refused(error)
      return
    }
    this.#isSpawned = true
    child.once('error', (error) => this.#refused(error))
    if (child.pid === undefined) return
    this.#tree.setKeeper(child.pid)
    child.once('exit', () => this.#keeperGone())
    child.unref()
    this.#attach()
  }

  #refused(error: unknown): void {
    this.#isKeeperGone = true
    const fault = classify(error, { boundary: 'box', phase: 'spawn' })
    this.#diagnostics.push(spawnRefused(fault.errorRaw))
    this.#isSpawned = false
    this.#ended ??= 'spawn_failed'
    void this.#settle()
  }

  #attach(): void {
    if (this.#readers.length === 0) this.#openReaders()
    const remainingMs =
      this.setup.reservation.request.timeoutMs - (this.setup.clock.monotonicMs() - (this.#spawnedMonotonicMs ?? 0))
    this.#deadline = setTimeout(() => void this.endFor('timed_out'), Math.max(0, remainingMs))
    try {
      this.#watcher = watch(join(this.folder, EXEC_FILES.status), () => this.#look())
      this.#watcher.on('error', () => this.#watcher?.close())
    } catch {
      // Out of inotify watches: the poll below sees the same, later.
    }
    this.#poll = setInterval(() => this.#look(), RUNNER_DEFAULTS.pollMs)
    this.#look()
  }

  #openReaders(): void {
    const { merge } = this.setup.reservation.request
    for (const [stream, file] of [
      ['stdout', EXEC_FILES.stdout],
      ['stderr', EXEC_FILES.stderr],
    ] as const) {
      if (merge && stream === 'stderr') continue
      this.#readers.push(new FifoReader(join(this.folder, file), (bytes) => this.#take(stream, bytes)))
    }
  }

  #take(stream: Stream, bytes: Buffer): void {
    if (this.isOver) return
    if (this.#startedAtMs === null) this.#begin()
    if (this.#truncated) return
    const room = this.setup.reservation.request.outputBytesMax - this.#log.bytes('stdout') - this.#log.bytes('stderr')
    try {
      if (bytes.length > 0 && room > 0) this.#log.append(stream, bytes.length > room ? bytes.subarray(0, room) : bytes)
    } catch (error) {
      this.#diskRefused(error)
    }
    if (bytes.length > room) {
      this.#truncated = true
      void this.endFor('output_limit')
    }
    this.#waiters.notify()
  }

  #diskRefused(error: unknown): void {
    const fault = classify(error, { boundary: 'runner' })
    this.#truncated = true
    this.#diagnostics.push(outputNotKept(fault.errorRaw))
    void this.endFor('output_limit')
  }

  /** The start event, before any other; with the command's pid where it is known by now. */
  #begin(): void {
    this.#readStatus()
    const pid = this.#status.sandboxPid ?? this.#status.pid ?? this.#status.keeper ?? this.#tree.keeper ?? 0
    this.#startedAtMs = this.setup.clock.now()
    try {
      this.#log.start(pid, this.#startedAtMs)
    } catch (error) {
      this.#diskRefused(error)
    }
    this.#started?.()
    this.#waiters.notify()
  }

  /** Something may have been written into the status file. */
  #look(): void {
    if (this.#isSettling || this.#isReleased) return
    this.#readStatus()
    const status = this.#status
    const isRunning = this.#isLeaderKnown()
    if (isRunning && this.#startedAtMs === null) this.#begin()
    if (isRunning) this.stdin.open()
    if (status.exit !== undefined) void this.#settle()
    else if (!this.#tree.isKeeperThere()) this.#keeperGone()
  }

  #readStatus(): void {
    try {
      this.#status = parseStatus(readFileSync(join(this.folder, EXEC_FILES.status), 'latin1'))
    } catch {
      return // the folder is being removed; what was known is all there is to know
    }
    const leader = this.setup.level === 'bwrap' ? this.#status.sandboxPid : this.#status.pid
    if (leader !== undefined) this.#tree.setLeader(leader)
    this.#tree.holder = this.#status.holder
    this.stdin.holder = this.#status.holder
  }

  #keeperGone(): void {
    if (this.#isKeeperGone || this.#isSettling) return
    this.#isKeeperGone = true
    this.#readStatus()
    void this.#settle() // I3
  }

  #note(reason: EndReason): void {
    try {
      writeFileSync(join(this.folder, 'ended'), reason)
    } catch {
      // A full disk: only a restart in the next seconds would miss the reason.
    }
  }

  async #climb(reason: EndReason, graceMs = this.setup.reservation.request.killGraceMs): Promise<void> {
    const isEnded = await climb({
      tree: this.#tree,
      graceMs: this.#truncated ? 0 : graceMs, // nothing more of it is kept, so there is nothing to wait for
      look: () => this.#isReady(),
      over: async (ms) => {
        await this.over(AbortSignal.timeout(ms))
        return this.isOver || this.#isReleased
      },
      monotonicMs: this.setup.clock.monotonicMs,
    })
    if (isEnded) return
    if (this.#tree.keeper !== undefined) sendSignal(-this.#tree.keeper, 'SIGKILL')
    this.#diagnostics.push(killIncomplete(reason))
    this.#keeperGone()
  }

  #isReady(): boolean {
    this.#readStatus()
    return this.#tree.isReady()
  }

  #isLeaderKnown(): boolean {
    return (this.setup.level === 'bwrap' ? this.#status.sandboxPid : this.#status.pid) !== undefined
  }

  async #settle(): Promise<void> {
    if (this.#isSettling || this.#isReleased) return
    this.#isSettling = true
    this.#detach()
    const claimed = this.#isSpawned
    const durationMs =
      this.#spawnedMonotonicMs === undefined ? 0 : this.setup.clock.monotonicMs() - this.#spawnedMonotonicMs
    const left = claimed ? await this.#endTree() : []
    if (claimed && this.#startedAtMs === null) this.#begin()
    for (const reader of this.#readers) {
      try {
        reader.rest() // I1: nobody is left who could write
      } catch (error) {
        this.#diskRefused(error)
      }
      reader.close()
    }
    try {
      this.#log.flush()
    } catch (error) {
      this.#diskRefused(error)
    }
    this.#finish(claimed, durationMs, left)
  }

  #finish(claimed: boolean, durationMs: number, left: readonly number[]): void {
    const facts = {
      level: this.setup.level,
      status: this.#status,
      claimed,
      ended: this.#ended,
      oomKills: this.setup.group?.oomKills() ?? 0,
      durationMs,
      survivors: this.#tree.survivors(left),
      stdoutBytes: this.#log.bytes('stdout'),
      stderrBytes: this.#log.bytes('stderr'),
      truncated: this.#truncated,
      diagnostics: this.#diagnostics,
    }
    this.#end = {
      exit: exitRecord(facts),
      startedAtMs: this.#startedAtMs,
      endedAtMs: this.setup.clock.now(),
      lastSeq: this.#log.count + 1,
    }
    this.#keep(this.#end) // I1
    this.#log.close()
    if (this.#tree.keeper !== undefined && !this.#isKeeperGone) sendSignal(-this.#tree.keeper, 'SIGKILL') // all is read
    this.#started?.()
    this.#waiters.notify()
    this.stdin.release()
    this.setup.group?.remove()
    removeWorkingFiles(this.folder)
    this.setup.onEnd(this, this.#end)
  }

  #keep(end: ExecEnd): void {
    try {
      writeEnd(this.folder, end)
    } catch (error) {
      // Its room was taken at the start, so this is a broken disk. Who waits is told all the same.
      end.exit.diagnostics.push({ ...outputNotKept(String(error)), evidence: [] })
    }
  }

  /** What an exec leaves running ends with it. Whatever is left even so is returned. */
  async #endTree(): Promise<readonly number[]> {
    let left = this.#tree.remaining()
    for (let waitedMs = 0; left.length > 0 && waitedMs < RUNNER_DEFAULTS.treeEndMs; waitedMs += 5) {
      this.#tree.kill()
      await sleep(5)
      left = this.#tree.remaining()
    }
    return left
  }

  #detach(): void {
    clearTimeout(this.#deadline)
    clearInterval(this.#poll)
    this.#watcher?.close()
  }
}
