/**
 * One box: its state, its execs, and the order in which both change.
 *
 * I1  Every change of state follows the table and is on disk before anybody is told.
 * I2  An exec is let in only while the box is running, checked again at the moment of reservation without a pause after it:
 *     a stop that comes later finds the exec and ends it; one that came earlier refuses it.
 */
import { Fault, isFault } from '@breakfall/faults'
import type { Box as BoxRecord, BoxState, ExecRequest } from '@breakfall/wire'
import { randomUUIDv7 } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { isoTime } from '../clock.ts'
import { Exec } from '../exec/exec.ts'
import { EXEC_FILES, type ExecReservation, type FilledRequest, makeExecFolder } from '../exec/folder.ts'
import { Reservations } from '../exec/reservations.ts'
import { Uploads } from '../files/uploads.ts'
import type { RunnerHost } from '../host.ts'
import { checkRunnable, whyNot } from '../isolation/lookup.ts'
import { BoxExecs, type ExecView } from './execs.ts'
import { Keepers } from './keepers.ts'
import { type LaunchPlan, planLaunch, prepareJob } from './launch.ts'
import { commandOfRequest, fillRequest, requestHash } from './request.ts'
import { mayFollow, requireRunning, wrongState } from './states.ts'
import { type BoxPaths, saveBox, type StoredBox } from './stored.ts'

const STOP_GRACE_MS_MAX = 1_000 // who stops a box waits for it

export class Box {
  readonly prefix: string
  readonly paths: BoxPaths
  readonly execs: BoxExecs
  readonly keepers: Keepers
  readonly reservations: Reservations
  readonly uploads: Uploads
  readonly stored: StoredBox
  readonly #host: RunnerHost
  readonly #reserving = new Map<string, Promise<ExecView>>()
  #stopping: Promise<void> | undefined
  #lastTurn: Promise<unknown> = Promise.resolve()

  constructor(host: RunnerHost, prefix: string, paths: BoxPaths, stored: StoredBox) {
    this.#host = host
    this.prefix = prefix
    this.paths = paths
    this.stored = stored
    this.execs = new BoxExecs(paths.execs, stored.record.id)
    this.keepers = new Keepers(host, {
      groupName: this.groupName,
      execs: paths.execs,
      pids: () => this.record.limits.pids,
    })
    this.reservations = new Reservations(paths.reservations)
    this.uploads = new Uploads(paths.uploads)
  }

  get id(): string {
    return this.stored.record.id
  }

  get state(): BoxState {
    return this.stored.record.state
  }

  get record(): BoxRecord {
    return this.stored.record
  }

  get groupName(): string {
    return `${this.prefix}.${this.id}`
  }

  /**
   * Refuses an owner that has been replaced; remembers a new one before it may do anything. Ending something must not fail for
   * want of disk space: then a new owner is remembered for as long as this process lives.
   */
  admit(epoch: number | undefined, isEnding: boolean): void {
    if (epoch === undefined || epoch === this.stored.epoch) return
    if (epoch < this.stored.epoch)
      throw new Fault('lease_lost', {
        boundary: 'box',
        boxId: this.id,
        errorRaw: `epoch ${epoch} is lower than ${this.stored.epoch}`,
      })
    const before = this.stored.epoch
    this.stored.epoch = epoch
    try {
      saveBox(this.paths, this.stored)
    } catch (error) {
      if (isEnding) return
      this.stored.epoch = before // or the next call of that owner would pass unremembered
      throw error
    }
  }

  /** Work on the workspace's files that must not overlap with other such work. */
  turn<T>(work: () => T): Promise<T> {
    const mine = this.#lastTurn.then(work)
    this.#lastTurn = mine.catch(ignored)
    return mine
  }

  start(): void {
    if (this.state === 'running') return
    if (this.state !== 'stopped') throw wrongState(this.id, this.state)
    this.openGroups()
    this.moveTo('running')
  }

  openGroups(): void {
    const { memoryMb, pids, cpus } = this.record.limits
    this.#host.cgroups.openBox(this.groupName, { memoryMb, pids, cpus })
  }

  /** Ends all execs; resolves when they are over and the box is stopped. */
  stop(): Promise<void> {
    if (this.state === 'stopped') return Promise.resolve()
    if (this.#stopping !== undefined) return this.#stopping
    if (this.state !== 'running' && this.state !== 'stopping') throw wrongState(this.id, this.state)
    if (this.state === 'running') this.moveTo('stopping')
    this.#stopping = this.#endAll().finally(() => {
      this.#stopping = undefined
    })
    return this.#stopping
  }

  async #endAll(): Promise<void> {
    const live = [...this.execs.live.values()]
    await Promise.all(
      live.map((exec) =>
        exec.stop('box_stopped', Math.min(STOP_GRACE_MS_MAX, exec.setup.reservation.request.killGraceMs)),
      ),
    )
    await this.keepers.close()
    await this.#host.cgroups.closeBox(this.groupName)
    this.moveTo('stopped')
  }

  moveTo(to: BoxState): void {
    const from = this.state
    if (!mayFollow(from, to)) throw new Error(`a box does not go from ${from} to ${to}`)
    const at = isoTime(this.#host.clock.now())
    const before = this.stored.record
    this.stored.record = { ...before, state: to, lastTransition: { at, from, to } }
    try {
      saveBox(this.paths, this.stored) // I1
    } catch (error) {
      if (to === 'running') {
        this.stored.record = before
        throw error
      }
      // A stop must not fail for want of disk space: after a restart the box is what it was before, and can be stopped again.
    }
  }

  /** Starts it, or finds the one with that id. `isNew` tells which. */
  async startExec(input: ExecRequest): Promise<{ readonly exec: ExecView; readonly isNew: boolean }> {
    const execId = input.execId ?? randomUUIDv7()
    const request = fillRequest(input)
    const hash = requestHash(request)
    await this.#reserving.get(execId)?.catch(ignored)
    const known = this.execs.find(execId)
    if (known !== undefined) {
      if (this.execs.hashOf(execId) !== hash)
        throw new Fault('exec_conflict', { facts: { name: execId }, boxId: this.id, execId })
      return { exec: known, isNew: false }
    }
    if (this.#reserving.has(execId)) return this.startExec({ ...input, execId })
    const reserving = this.#reserve(execId, request, hash)
    this.#reserving.set(execId, reserving)
    try {
      return { exec: await reserving, isNew: true }
    } finally {
      this.#reserving.delete(execId)
    }
  }

  async #reserve(execId: string, request: FilledRequest, hash: string): Promise<ExecView> {
    await this.#host.queue.turnstile.pass() // five hundred at once must not stop the rest
    if (this.state === 'stopped' && this.record.autoStart) this.start()
    this.#checkRoom()
    const command = commandOfRequest(request)
    const plan = this.#plan(command, request)
    const { clock, fifos } = this.#host
    const pipes = await fifos.hold(pipesOf(request).length)
    try {
      this.#checkRoom() // pipes may take a while: the box may be stopped, or gone, by now
    } catch (error) {
      fifos.giveBack(pipes)
      throw error
    }
    const reservation: ExecReservation = {
      execId,
      command,
      request,
      hash,
      reservedAtMs: clock.now(),
      reservedMonotonicMs: clock.monotonicMs(),
      machineBootId: clock.machineBootId,
    }
    const folder = this.execs.folderOf(execId)
    // The disk syncs the one while we write the other. A folder without a claim is an exec that certainly never ran.
    const synced = this.reservations.add({ execId, machineBootId: clock.machineBootId, hash })
    synced.catch(ignored) // where the folder fails first, that is what is told
    this.#makeFolder(folder, reservation, plan, pipes)
    try {
      await synced
      this.#checkRoom() // I2
    } catch (error) {
      rmSync(folder, { recursive: true, force: true })
      throw error
    }
    const exec = this.openExec(reservation, plan)
    exec.start()
    return exec
  }

  #plan(command: readonly string[], request: FilledRequest): LaunchPlan {
    try {
      const plan = planLaunch(this.#host, this.stored, this.paths, command, request)
      checkRunnable(plan.view, plan)
      return plan
    } catch (error) {
      throw isFault(error) ? error.with({ boxId: this.id }) : error
    }
  }

  #checkRoom(): void {
    requireRunning(this.id, this.state)
    const max = this.record.limits.execsMax ?? Number.POSITIVE_INFINITY
    if (this.execs.live.size >= max)
      throw new Fault('quota_exceeded', { facts: { limit: `${max} execs at once in a box` }, boxId: this.id })
  }

  /** All or nothing. */
  #makeFolder(folder: string, reservation: ExecReservation, plan: LaunchPlan, pipes: readonly string[]): void {
    const { fifos } = this.#host
    try {
      makeExecFolder(folder, reservation)
    } catch (error) {
      fifos.giveBack(pipes)
      throw error
    }
    const owner = plan.user?.kind === 'setpriv' ? plan.user : undefined
    for (const [i, file] of pipesOf(reservation.request).entries())
      fifos.place(pipes[i] ?? '', join(folder, file), owner)
  }

  /** Also used for execs of an earlier runner, which have no plan: they are never spawned again. */
  openExec(reservation: ExecReservation, plan?: LaunchPlan): Exec {
    const folder = this.execs.folderOf(reservation.execId)
    const { cgroups, clock, queue, pump, runnerId } = this.#host
    const mark = `${runnerId}/${this.prefix}/${this.id}/${reservation.execId}`
    const exec: Exec = new Exec({
      boxId: this.id,
      folder,
      reservation,
      isNew: plan !== undefined,
      level: this.record.isolation.level,
      holdsTree: cgroups.holdsTrees,
      mark,
      clock,
      queue,
      pump,
      spawn: (atMs, onGone, isNew) => {
        if (plan === undefined) throw new Error('an exec of an earlier runner is never started again')
        const { execId, request } = reservation
        const job = prepareJob(this.#host, plan, { folder, request, mark })
        exec.stdin.prepare()
        return this.keepers.run({ execId, atMs, ...job }, onGone, isNew)
      },
      giveBack: (keeper, isClean) => this.keepers.giveBack(keeper, isClean),
      lookAgain: () => (plan === undefined ? undefined : whyNot(plan.view, plan)),
      groupOf: (keeper) => cgroups.execGroup(this.groupName, keeper),
      onEnd: (_, end) => {
        this.execs.addFinished(reservation.execId, end, reservation.hash, false)
        this.#host.onExecEnd(end.exit.cause, end.exit.durationMs, end.exit.stdoutBytes + end.exit.stderrBytes)
        if (this.execs.keptBytes > this.#host.retention.bytesPerBox) this.execs.sweep(clock.now(), this.#host.retention)
      },
    })
    this.execs.addLive(exec)
    return exec
  }
}

/** The pipes that an exec needs. */
function pipesOf(request: FilledRequest): readonly string[] {
  return [
    EXEC_FILES.stdout,
    ...(request.merge ? [] : [EXEC_FILES.stderr]),
    ...(request.stdin === 'pipe' ? [EXEC_FILES.stdin] : []),
  ]
}

const ignored = (): void => {
  // Whoever asked was told why it failed; who comes second tries for itself.
}
