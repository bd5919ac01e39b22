/**
 * Starts execs in a box: reserves the id on disk, makes the exec's folder, and puts it into the spawn queue.
 *
 * I1  An id is used once: it is looked up, reserved and registered without another caller getting in between.
 * I2  An exec is admitted only while the box is running, checked once more right before it is registered: a later stop finds
 *     the exec and ends it, an earlier one refuses it.
 * I3  A refusal leaves nothing behind.
 * I4  An owner that is replaced while its exec is being reserved is refused: the check is repeated right before the start.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { type Diagnostic, Fault, isFault } from '@breakfall/faults'
import type { ExecRequest } from '@breakfall/wire'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { Exec } from '../exec/exec.ts'
import { EXEC_FILES, type ExecEnd, type ExecReservation, makeExecFolder } from '../exec/exec-folder.ts'
import { commandOfRequest, type FilledRequest, fillRequest, requestHash } from '../exec/request.ts'
import type { Reservations } from '../exec/reservations.ts'
import type { RunnerHost } from '../host/host.ts'
import { checkRunnable, whyNotRunnable } from '../isolation/command-lookup.ts'
import type { BoxExecs, ExecView } from './execs.ts'
import type { Keepers } from './keepers.ts'
import { type LaunchPlan, planLaunch, prepareJob } from './launch.ts'
import type { Origin } from './restarts.ts'
import { requireRunning } from './states.ts'
import type { BoxPaths, StoredBox } from './stored-box.ts'
import { newId } from '@breakfall/wire/node'

/** What starting an exec needs of its box. */
export type StartingBox = {
  /** Unique at this runner. */
  readonly key: string
  readonly paths: BoxPaths
  readonly stored: StoredBox
  readonly execs: BoxExecs
  readonly keepers: Keepers
  readonly reservations: Reservations
  start(): void
  usedExec(execId: string): ExecView | undefined
  /** Resolves when an exec may start: a checkpoint may have to be taken first. */
  admitted(): Promise<void>
  /** Makes the network that an exec needs. */
  shareNetwork(isBackground: boolean): Promise<void>
  follow(reservation: ExecReservation): ExecFollower
}

/** Tells what belongs to a box about the life of one exec. */
export type ExecFollower = {
  readonly starts: (exec: Exec) => void
  /** Nothing of it runs any more. Returns what the box was refused meanwhile. */
  readonly isQuiet: () => readonly Diagnostic[]
  readonly ends: (end: ExecEnd) => void
}

export class ExecStarter {
  readonly #host: RunnerHost
  readonly #box: StartingBox
  readonly #reserving = new Map<string, Promise<ExecView>>()
  #admitted = 0

  constructor(host: RunnerHost, box: StartingBox) {
    this.#host = host
    this.#box = box
  }

  /** Whether an exec is about to start. */
  get isStarting(): boolean {
    return this.#admitted > 0
  }

  /** Waits for starts of this id that are under way. After that it is known, or nothing of it is left. */
  async settled(execId: string): Promise<void> {
    while (this.#reserving.has(execId)) await this.#reserving.get(execId)?.catch(ignored)
  }

  /**
   * Starts an exec, or finds the one with the same id and the same body (`isNew` is false then). A burned id has no body: it is
   * found with every body. `admit` throws if the caller is not the owner any more.
   */
  async start(
    input: ExecRequest,
    admit: () => void = () => undefined,
    origin?: Origin,
  ): Promise<{ readonly exec: ExecView; readonly isNew: boolean }> {
    const { execs, stored } = this.#box
    const execId = input.execId ?? newId()
    const request = fillRequest(input)
    const hash = requestHash(request)
    await this.settled(execId)
    admit()
    const known = this.#box.usedExec(execId)
    if (known !== undefined) {
      const isBurned = this.#host.fences.isBurned(this.#box.key, execId)
      if (!isBurned && execs.hashOf(execId) !== hash)
        throw new Fault('exec_conflict', { facts: { name: execId }, boxId: stored.record.id, execId })
      return { exec: known, isNew: false }
    }
    const reserving = this.#reserve(execId, request, { hash, admit, origin }) // I1
    this.#reserving.set(execId, reserving)
    try {
      return { exec: await reserving, isNew: true }
    } finally {
      this.#reserving.delete(execId)
    }
  }

  /** Registers an exec. Without a plan it is one of an earlier runner, and can never be spawned again. */
  open(reservation: ExecReservation, plan?: LaunchPlan): Exec {
    const { key, execs, keepers, stored } = this.#box
    const folder = execs.folderOf(reservation.execId)
    const { clock, queue, pump, runnerId, limits } = this.#host
    const mark = `${runnerId}/${key}/${reservation.execId}`
    const follower = this.#box.follow(reservation)
    const exec = new Exec({
      boxId: stored.record.id,
      folder,
      reservation,
      launch: plan && {
        prepare: () => prepareJob(this.#host, plan, { folder, request: reservation.request, mark }),
        whyNotRunnable: () => whyNotRunnable(plan.view, plan),
      },
      level: stored.record.isolation.level,
      mark,
      clock,
      queue,
      pump,
      keepers,
      onQuiet: follower.isQuiet,
      onEnd: (end) => {
        follower.ends(end)
        this.#host.onExecEnd(end.exit.cause, end.exit.durationMs, end.exit.stdoutBytes + end.exit.stderrBytes)
        if (execs.keptBytes > limits.retention.bytesPerBox) execs.sweep(clock.now(), limits.retention)
      },
    })
    follower.starts(exec)
    return exec
  }

  // ---- details, in the order they are used above ----

  async #reserve(
    execId: string,
    request: FilledRequest,
    about: { hash: string; admit: () => void; origin: Origin | undefined },
  ): Promise<ExecView> {
    await this.#box.admitted()
    this.#admitted += 1
    try {
      return await this.#reserveAdmitted(execId, request, about)
    } finally {
      this.#admitted -= 1
    }
  }

  async #reserveAdmitted(
    execId: string,
    request: FilledRequest,
    { hash, admit, origin }: { hash: string; admit: () => void; origin: Origin | undefined },
  ): Promise<ExecView> {
    const { clock, fifos, queue } = this.#host
    const { execs, reservations, stored } = this.#box
    await queue.turnstile.pass() // five hundred at once must not block the event loop
    if (stored.record.state === 'stopped' && stored.record.autoStart) this.#box.start()
    this.#checkRoom(request)
    await this.#box.shareNetwork(request.background !== undefined)
    const command = commandOfRequest(request)
    const plan = this.#plan(command, request)
    const pipes = await fifos.hold(pipesOf(request).length)
    try {
      this.#checkRoom(request) // making pipes may take a while: the box may be stopped, or gone, by now
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
      ...(origin === undefined ? {} : { origin }),
    }
    const folder = execs.folderOf(execId)
    // The disk syncs the reservation while we write the folder. A folder without a claim is an exec that never ran.
    const synced = reservations.add({ execId, machineBootId: clock.machineBootId, hash })
    synced.catch(ignored) // if the folder fails first, that is the error to report
    try {
      this.#makeFolder(folder, reservation, plan, pipes)
      await synced
      this.#checkRoom(request) // I2: still running
      admit() // I4: still the owner
    } catch (error) {
      rmSync(folder, { recursive: true, force: true }) // I3: a refusal leaves nothing
      throw error
    }
    const exec = this.open(reservation, plan)
    exec.start()
    return exec
  }

  #checkRoom({ background }: FilledRequest): void {
    const { stored, execs } = this.#box
    const { id: boxId, state, limits } = stored.record
    requireRunning(boxId, state)
    const { execsMax, processesMax } = limits
    const [max, name, setting] =
      background === undefined
        ? [execsMax, 'execs', 'limits.execsMax']
        : [processesMax ?? RUNNER_DEFAULTS.processesMax, 'background processes', 'limits.processesMax']
    const isSame = (exec: Exec): boolean => (exec.background === undefined) === (background === undefined)
    const count = [...execs.live.values()].filter(isSame).length
    if (max !== null && count >= max)
      throw new Fault('quota_exceeded', { facts: { limit: `${max} ${name} at once in a box`, setting }, boxId })
  }

  #plan(command: readonly string[], request: FilledRequest): LaunchPlan {
    const { stored, paths } = this.#box
    try {
      const plan = planLaunch(this.#host, stored, paths, command, request)
      checkRunnable(plan.view, plan)
      return plan
    } catch (error) {
      throw isFault(error) ? error.with({ boxId: stored.record.id }) : error
    }
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
      fifos.moveTo(pipes[i] ?? '', join(folder, file), owner)
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
  // The caller that caused the failure has its error; a second caller tries on its own.
}
