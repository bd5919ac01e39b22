/**
 * One box: its state, its owner's epoch, and what belongs to it.
 *
 * I1  Every change of state follows the table and is on disk before anyone sees it.
 * I2  A burned exec id never starts: it looks like an exec that was killed before it started.
 * I3  An exec id whose record was removed never starts again: it looks like an exec that was lost, and may have run.
 */
import { Fault } from '@breakfall/faults'
import { messageOf, Mutex } from '@breakfall/faults/internal'
import type { Box as BoxRecord, BoxNetworkView, BoxState } from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import type { Checkpoints } from '../checkpoint/checkpoints.ts'
import { isoTime } from '../lib/clock.ts'
import type { Exec } from '../exec/exec.ts'
import { toRequest } from '../exec/request.ts'
import { type ExecReservation, readReservation } from '../exec/exec-folder.ts'
import { Reservations } from '../exec/reservations.ts'
import { Uploads } from '../files/uploads.ts'
import type { RunnerHost } from '../host/host.ts'
import { keepBurned } from './burned-execs.ts'
import { keepLost } from './repair.ts'
import { isNetworkLine, networkLine } from './about.ts'
import { type ExecFollower, ExecStarter } from './exec-starter.ts'
import { BoxExecs, type ExecView } from './execs.ts'
import { replaced } from '../host/fences.ts'
import { networkLost } from '../exec/diagnostics.ts'
import { BoxNames } from '../network/box-names.ts'
import { networkDenied } from '../network/denials.ts'
import { BoxNetwork } from './box-network.ts'
import { BoxPorts } from './box-ports.ts'
import { GuardWatch } from './guard-watch.ts'
import { groupNameOf, Keepers } from './keepers.ts'
import { nextRun, type RestartingBox, Restarts } from './restarts.ts'
import { mayFollow, wrongState } from './states.ts'
import { GitIndexes } from './planted-git-files.ts'
import { type BoxPaths, saveBox, type StoredBox } from './stored-box.ts'
import { checkpointsFor } from './box-checkpoints.ts'
import { openSame } from './workspace-identity.ts'

type Processes = NonNullable<BoxRecord['processes']>

const STOP_GRACE_MS_MAX = 1_000 // a caller is waiting for the stop

export class Box {
  readonly prefix: string
  readonly paths: BoxPaths
  readonly execs: BoxExecs
  readonly starter: ExecStarter
  readonly keepers: Keepers
  readonly restarts: Restarts
  readonly reservations: Reservations
  readonly uploads: Uploads
  /** Undefined if its execs use the machine's network, or cannot share one here. */
  readonly network: BoxNetwork | undefined
  readonly ports = new BoxPorts(() => this.network?.join)
  /** Only for a network of names. */
  readonly names: BoxNames | undefined
  /** Only for a sandbox on a folder of the host. */
  readonly guardWatch: GuardWatch | undefined
  /** Undefined if the box has none. */
  readonly checkpoints: Checkpoints | undefined
  readonly stored: StoredBox
  readonly #host: RunnerHost
  readonly #requireRoom: () => void
  #stopping: Promise<void> | undefined
  readonly #files = new Mutex()

  /** `requireRoom` throws if no more box may run. */
  constructor(host: RunnerHost, prefix: string, paths: BoxPaths, stored: StoredBox, requireRoom: () => void) {
    this.#host = host
    this.#requireRoom = requireRoom
    this.prefix = prefix
    this.paths = paths
    this.stored = stored
    this.reservations = new Reservations(paths.reservations)
    this.execs = new BoxExecs(paths.execs, stored.record.id, (execIds) => this.reservations.forget(execIds))
    this.keepers = new Keepers(host, {
      groupName: this.groupName,
      execs: paths.execs,
      pids: () => this.record.limits.pids,
    })
    this.uploads = new Uploads(paths.uploads)
    this.network = this.#networkFor(host)
    this.names = namesFor(host, stored, paths)
    stored.join = () => this.network?.join
    const indexes = new GitIndexes()
    stored.nested = (name, git) => indexes.nested(name, git)
    this.guardWatch = watchFor(host, stored)
    this.checkpoints = checkpointsFor(host, this)
    this.starter = new ExecStarter(host, this)
    this.restarts = new Restarts(this.#restarting(host))
  }

  /** Makes the network of the box, and serves its names. */
  async openNetwork(): Promise<void> {
    if (this.network === undefined) return
    try {
      await this.network.ensure()
      const { join } = this.network
      if (join === undefined) throw new Error('the process that holds the network ended at once')
      await this.names?.serve(join)
    } catch (cause) {
      throw new Fault('isolation_unavailable', {
        facts: { detail: 'the network of the box could not be made' },
        errorRaw: messageOf(cause),
        cause,
        boxId: this.id,
      })
    }
  }

  /** A background process is useful only if other commands can reach it; a list of names always needs the box's own network. */
  async shareNetwork(isBackground: boolean): Promise<void> {
    const { isolation, network } = this.stored.record
    if (!isBackground && this.names === undefined) return
    if (this.network !== undefined) await this.openNetwork()
    else if (isolation.level === 'bwrap' && network !== 'host')
      throw new Fault('isolation_unavailable', {
        facts: { detail: 'background processes need a network that the commands of a box share' },
        errorRaw: 'sharedNetwork is false: nsenter is not on the PATH, or this machine restricts user namespaces',
        boxId: this.id,
      })
  }

  async admitted(): Promise<void> {
    await this.checkpoints?.admitted()
  }

  follow(reservation: ExecReservation): ExecFollower {
    const { execId, hash } = reservation
    const before = this.names?.denials.snapshot() ?? new Map<string, number>()
    return {
      starts: (exec) => {
        this.checkpoints?.execStarts(execId)
        this.execs.addLive(exec)
        this.guardWatch?.add(exec)
      },
      isQuiet: () => {
        this.guardWatch?.ended(execId)
        const denied = this.names?.denials.since(before) ?? []
        const { network } = this.stored.record
        return denied.length === 0 || typeof network !== 'object' ? [] : [networkDenied(network.allow, denied)]
      },
      ends: (end) => {
        this.guardWatch?.remove(execId)
        this.checkpoints?.execEnds(execId)
        this.execs.addFinished(execId, end, hash, false)
        this.restarts.ended(reservation, end)
      },
    }
  }

  /** After a restart of the runner: processes in the box can still use its names. */
  reopenNames(): void {
    if (this.state === 'running' && this.names !== undefined && this.network?.join !== undefined)
      void this.names.serve(this.network.join).catch(ignored)
  }

  get id(): string {
    return this.stored.record.id
  }

  get state(): BoxState {
    return this.stored.record.state
  }

  get record(): BoxRecord {
    const processes = this.processes()
    return processes.length === 0 ? this.stored.record : { ...this.stored.record, processes }
  }

  networkView(): BoxNetworkView {
    const { network } = this.stored.record
    return {
      mode: typeof network === 'object' ? 'allow' : network,
      allow: typeof network === 'object' ? network.allow : [],
      names: this.stored.allowed ?? [],
      denied: (this.names?.denials.list ?? []).map(({ name, port, count, lastAtMs, because }) => ({
        name,
        port,
        count,
        lastAt: isoTime(lastAtMs),
        because,
      })),
    }
  }

  /** Only for a box that was created with a list. */
  async setNetwork(allow: readonly string[], allowed: readonly string[]): Promise<void> {
    const before = this.stored.record
    if (this.names === undefined)
      throw invalidRequest([
        {
          field: 'allow',
          expected: 'a box that was created with a list of names',
          got: JSON.stringify(before.network),
        },
      ])
    const { allowed: allowedBefore } = this.stored
    const network = { allow: [...allow] }
    this.stored.record = {
      ...before,
      network,
      about: before.about?.map((line) => (isNetworkLine(line) ? networkLine(network) : line)),
    }
    this.stored.allowed = allowed
    try {
      saveBox(this.paths, this.stored)
    } catch (error) {
      this.stored.record = before
      this.stored.allowed = allowedBefore
      throw error
    }
    this.names.allow(allowed)
    if (this.network?.join !== undefined) await this.names.serve(this.network.join) // a new port may be listed
  }

  /** Its background processes, and those that wait to be started again. */
  processes(): Processes {
    return [...[...this.execs.live.values()].flatMap(listed), ...this.restarts.waiting.map(listedAsWaiting)]
  }

  /** The newest run of a background process; undefined if the exec is none. */
  newestRun(execId: string): ExecReservation | undefined {
    let found = reservationOf(this.execs, execId)
    for (let next = found && nextRun(found); next !== undefined && this.execs.find(next.execId) !== undefined;) {
      found = reservationOf(this.execs, next.execId)
      next = found && nextRun(found)
    }
    return found
  }

  get groupName(): string {
    return groupNameOf(this.prefix, this.id)
  }

  /** Unique at this runner. */
  get key(): string {
    return `${this.prefix}/${this.id}`
  }

  /** The exec with this id, also if the id was burned. */
  findExec(execId: string): ExecView | undefined {
    const found = this.execs.find(execId)
    if (found !== undefined || !this.#host.fences.isBurned(this.key, execId)) return found
    keepBurned(this.#host, this.execs, execId) // I2: a burned id never starts
    return this.execs.get(execId)
  }

  /** The same, also if the record was removed: for callers that would otherwise start it, or report that it never ran. */
  usedExec(execId: string): ExecView | undefined {
    const found = this.findExec(execId)
    const forgotten = found === undefined ? this.reservations.find(execId) : undefined
    if (forgotten === undefined) return found
    keepLost(this.#host, this.execs, forgotten) // I3: it may have run
    return this.execs.get(execId)
  }

  /**
   * Refuses an owner that has been replaced, and saves a new owner's epoch before it may do anything. Ending something must
   * not fail because the disk is full: in that case the new epoch is kept in memory only.
   */
  admit(epoch: number | undefined, isEnding: boolean): void {
    const seen = Math.max(this.stored.epoch, this.#host.fences.epochOf(this.key))
    if (epoch === undefined || epoch === this.stored.epoch) return
    if (epoch < seen) throw replaced(this.key, epoch, seen)
    const before = this.stored.epoch
    this.stored.epoch = epoch
    try {
      saveBox(this.paths, this.stored)
    } catch (error) {
      if (isEnding) return
      this.stored.epoch = before // otherwise that owner's next call would pass unsaved
      throw error
    }
  }

  /** Runs work on the workspace's files one at a time. */
  exclusive<T>(work: () => T | Promise<T>): Promise<T> {
    return this.#files.run(work)
  }

  start(): void {
    if (this.state === 'running') return
    if (this.state !== 'stopped') throw wrongState(this.id, this.state)
    this.#requireRoom()
    this.openGroups()
    this.moveTo('running')
  }

  openGroups(): void {
    const { memoryMb, pids, cpus } = this.record.limits
    this.#host.cgroups.openBox(this.groupName, { memoryMb, pids, cpus })
    this.keepers.limitPidsAnew()
  }

  /** Throws if an exec is running: for callers that may only end an unused box. */
  requireIdle(): void {
    const size = this.execs.live.size + this.restarts.waiting.length
    if (size === 0) return
    throw new Fault('box_invalid_state', {
      facts: { name: this.id, boxState: this.state },
      message: {
        happened: `Box ${this.id} is in use: ${size} running exec${size === 1 ? '' : 's'}.`,
        advice: 'Wait until they have ended.',
      },
      boxId: this.id,
      boxState: this.state,
    })
  }

  /** Ends all execs. Resolves when they are over and the box is stopped. */
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

  #networkFor({ isolation, programs, sharedNetwork, clock }: RunnerHost): BoxNetwork | undefined {
    const { bwrap } = isolation
    const { nsenter } = programs
    if (!sharedNetwork || bwrap === null || nsenter === null) return undefined
    const { level } = this.stored.record.isolation
    if (level !== 'bwrap' || this.stored.record.network === 'host') return undefined
    return new BoxNetwork({ bwrap, nsenter }, this.paths.network, clock.machineBootId, () => {
      for (const exec of this.execs.live.values()) exec.note(networkLost)
    })
  }

  #restarting({ clock }: RunnerHost): RestartingBox {
    const box = (): Box => this // read later: its state may have changed by then
    return {
      get state() {
        return box().state
      },
      get sinceMs() {
        return Date.parse(box().stored.record.lastTransition.at)
      },
      now: () => clock.now(),
      has: (execId) => this.usedExec(execId) !== undefined,
      folderOf: (execId) => this.execs.folderOf(execId),
      start: ({ request, execId, origin }, admit) => this.starter.start(toRequest(request, execId), admit, origin),
    }
  }

  async #endAll(): Promise<void> {
    this.restarts.close()
    const live = [...this.execs.live.values()]
    await Promise.all(
      live.map((exec) =>
        exec.stop('box_stopped', Math.min(STOP_GRACE_MS_MAX, exec.setup.reservation.request.killGraceMs)),
      ),
    )
    await this.keepers.close()
    this.ports.closeAll()
    this.names?.close()
    this.network?.close()
    await this.#host.cgroups.closeBox(this.groupName)
    this.reservations.close() // a stopped box uses no descriptor; the next exec opens it again
    this.moveTo('stopped')
  }

  moveTo(to: BoxState): void {
    const from = this.state
    if (!mayFollow(from, to)) throw new Error(`a box cannot go from ${from} to ${to}`)
    const at = isoTime(this.#host.clock.now())
    const before = this.stored.record
    this.stored.record = { ...before, state: to, lastTransition: { at, from, to } }
    try {
      saveBox(this.paths, this.stored) // I1: on disk before anyone sees it
    } catch (error) {
      if (to === 'running') {
        this.stored.record = before
        throw error
      }
      // A stop must not fail because the disk is full. After a restart the box has its old state and can be stopped again.
    }
  }
}

function namesFor(host: RunnerHost, { record, allowed }: StoredBox, paths: BoxPaths): BoxNames | undefined {
  if (typeof record.network !== 'object') return undefined
  const { programs, internet, clock } = host
  const files = { file: paths.names, deniedFile: paths.denied }
  return new BoxNames({ ...files, ip: programs.ip, internet, now: () => clock.now() }, allowed ?? [])
}

function watchFor(host: RunnerHost, stored: StoredBox): GuardWatch | undefined {
  const { record, hostWorkspace, hostIdentity, uid, gid } = stored
  if (record.isolation.level !== 'bwrap' || record.workspace.kind !== 'host') return undefined
  const owner = process.getuid?.() === 0 ? { uid, gid } : undefined
  return new GuardWatch({
    workspace: hostWorkspace,
    tools: host.programs,
    open: () => openSame(hostWorkspace, hostIdentity, host.clock.machineBootId),
    owner,
    nested: (name, git) => stored.nested?.(name, git),
  })
}

const listed = (exec: Exec): Processes =>
  exec.background === undefined
    ? []
    : [
        {
          execId: exec.id,
          name: exec.background.name,
          state: exec.startedAtMs === null ? 'starting' : 'running',
          ports: [...exec.ports()],
        },
      ]

const listedAsWaiting = ({ execId, request }: ExecReservation): Processes[number] => ({
  execId,
  name: request.background?.name ?? execId,
  state: 'restarting',
  ports: [],
})

function reservationOf(execs: BoxExecs, execId: string): ExecReservation | undefined {
  const reservation = execs.live.get(execId)?.setup.reservation ?? readReservation(execs.folderOf(execId))
  return reservation.request.background === undefined ? undefined : reservation
}

const ignored = (): void => {
  // Its caller has the error; the next piece of work runs regardless.
}
