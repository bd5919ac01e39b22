/** Decides what a new box will be, or why it is refused, before anything is made. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'
import type { Box as BoxRecord, BoxCreate, CheckpointMode, IsolationLevel } from '@breakfall/wire'
import { FOLDER_KEY, isSigned } from '@breakfall/wire/node'
import { isoTime } from '../lib/clock.ts'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import type { RunnerHost } from '../host/host.ts'
import { gitForCheckpoints } from './box-checkpoints.ts'
import type { Controller } from '../isolation/cgroup.ts'
import { aboutBox } from './about.ts'
import { canMountHome, planHome } from './home-plan.ts'
import type { BoxPaths, StoredBox } from './stored-box.ts'
import {
  type BoxMount,
  realMounts,
  realWorkspace,
  refusedMount,
  refuseUnallowedMounts,
  refuseUnallowedWorkspace,
} from '../host/allowed-folders.ts'
import { type FolderIdentity, identify } from './workspace-identity.ts'

/** `allowed`: the names of its network, if that is a list, without presets. */
export function designBox(
  host: RunnerHost,
  id: string,
  create: BoxCreate,
  paths: BoxPaths,
  epoch: number,
  allowed?: readonly string[],
): StoredBox {
  const level = levelFor(host, create)
  const hostWorkspace = create.workspace === undefined ? paths.workspace : realWorkspace(create.workspace, host.rules)
  const kind = create.workspace === undefined ? 'private' : 'host'
  const owner = ownerOf(host, level, kind === 'host' ? hostWorkspace : undefined)
  const limits = limitsFor(host, create)
  const network = networkFor(host, level, create)
  const mounts = mountsFor(host, level, create, kind === 'host' ? hostWorkspace : undefined)
  refuseUnallowed(host, create, hostWorkspace, mounts)
  const isReal = hasRealHome(host, level, create)
  const home = planHome(host, { level, isReal, workspace: hostWorkspace, folder: paths.home })
  const at = isoTime(host.clock.now())
  const record: BoxRecord = {
    id,
    state: 'creating',
    createdAt: at,
    workspace: { kind, path: kind === 'private' && level === 'bwrap' ? '/workspace' : hostWorkspace },
    isolation: {
      level,
      userns: level === 'bwrap' && !(process.getuid?.() === 0 && owner.uid !== 0),
      pidns: level === 'bwrap',
      netns: level === 'bwrap' && network !== 'host',
      memoryLimit: limits.memoryMb !== null,
      pidsLimit: limits.pids !== null,
      cpuLimit: limits.cpus !== null,
      seccomp: level === 'bwrap' && host.isolation.seccomp !== null,
      sharedNetwork: level !== 'bwrap' || network === 'host' || host.sharedNetwork,
    },
    limits,
    network,
    autoStart: create.autoStart ?? false,
    checkpoints: checkpointsOf(host, create),
    home: { path: home.at, windows: home.windows, left: home.left },
    ...(mounts.length === 0 ? {} : { mounts }),
    lastTransition: { at, from: 'creating', to: 'creating' },
  }
  const hostIdentity = kind === 'host' ? identify(hostWorkspace, host.clock.machineBootId) : undefined
  const mountIdentities = level === 'process' ? [] : mounts.map(({ path }, index) => identityOf(host, path, index))
  record.about = aboutBox(record, owner.uid, isReal || level === 'process' ? host.toolchains.current.runtimes : [])
  const list = typeof network === 'object' ? { allowed: allowed ?? network.allow } : {}
  return { record, env: create.env ?? {}, hostWorkspace, hostIdentity, mountIdentities, ...owner, epoch, ...list }
}

/** A placeholder for a box whose record cannot be read. */
export function unreadableBox(host: RunnerHost, id: string): StoredBox {
  const at = isoTime(host.clock.now())
  const record: BoxRecord = {
    id,
    state: 'failed',
    createdAt: at,
    workspace: { kind: 'private', path: '/workspace' },
    isolation: {
      level: host.isolation.level ?? 'process',
      userns: false,
      pidns: false,
      netns: false,
      memoryLimit: false,
      pidsLimit: false,
    },
    limits: { memoryMb: null, pids: null, cpus: null, execsMax: null },
    network: 'none',
    autoStart: false,
    lastTransition: { at, from: 'creating', to: 'failed' },
  }
  return { record, env: {}, hostWorkspace: '/nonexistent', uid: 65_534, gid: 65_534, epoch: 0 }
}

// ---- details, in the order they are used above ----

function levelFor(host: RunnerHost, create: BoxCreate): IsolationLevel {
  const { level, because } = host.isolation
  if (level === null)
    throw unavailable(because ?? 'bwrap does not work on this machine', 'this runner does not allow level "process"')
  const { min, level: exact } = create.isolation ?? {}
  if ((min === 'bwrap' || exact === 'bwrap') && level !== 'bwrap')
    throw unavailable(because ?? 'bwrap does not work on this machine', 'the box requires level "bwrap"')
  if (exact !== 'process') return level
  if (!host.isolation.allowsProcess)
    throw unavailable(
      'level "process" was requested',
      'this runner does not allow level "process"; start it, or its daemon, with --allow-isolation process',
    )
  return 'process'
}

function ownerOf(host: RunnerHost, level: IsolationLevel, workspace: string | undefined): { uid: number; gid: number } {
  const own = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
  if (own.uid !== 0 || workspace === undefined) return own
  const { uid, gid } = statSync(workspace)
  if (uid !== 0 && host.isolation.setpriv === null)
    throw unavailable(
      'setpriv does not work on this machine',
      `the workspace belongs to uid ${uid}, and level "${level}" cannot run commands as that user`,
    )
  return uid === 0 ? own : { uid, gid }
}

function limitsFor(host: RunnerHost, create: BoxCreate): BoxRecord['limits'] {
  const requested = create.limits ?? {}
  const execsMax = requested.execsMax ?? RUNNER_DEFAULTS.execsMax
  if (requested.memoryMb !== undefined && requested.memoryMb > host.machine.memoryMb)
    throw new Fault('quota_exceeded', {
      facts: { limit: `limits.memoryMb at most ${host.machine.memoryMb} on this machine` },
      message: less('memoryMb'),
    })
  if (requested.cpus !== undefined && requested.cpus > host.machine.cpus)
    throw new Fault('quota_exceeded', {
      facts: { limit: `limits.cpus at most ${host.machine.cpus} on this machine` },
      message: less('cpus'),
    })
  return {
    memoryMb: enforced(
      host,
      'memory',
      'memoryMb',
      requested.memoryMb,
      Math.min(RUNNER_DEFAULTS.memoryMb, host.machine.memoryMb),
    ),
    pids: enforced(
      host,
      'pids',
      'pids',
      requested.pids,
      Math.max(RUNNER_DEFAULTS.pids, execsMax * RUNNER_DEFAULTS.pidsPerExec),
    ),
    cpus: enforced(host, 'cpu', 'cpus', requested.cpus, null),
    execsMax,
    processesMax: requested.processesMax ?? RUNNER_DEFAULTS.processesMax,
  }
}

/** Refuses a requested limit that cannot be enforced; a default that cannot be enforced becomes null. */
function enforced(
  host: RunnerHost,
  controller: Controller,
  field: string,
  requested: number | undefined,
  byDefault: number | null,
): number | null {
  if (host.cgroups.has(controller)) return requested ?? byDefault
  if (requested === undefined) return null
  throw unavailable(`no usable control group for ${controller}`, `limits.${field} cannot be enforced`)
}

/** Without a sandbox a box sees every folder and writes wherever its user may. */
function mountsFor(
  host: RunnerHost,
  level: IsolationLevel,
  { mounts = [] }: BoxCreate,
  workspace: string | undefined,
): readonly BoxMount[] {
  const checked = realMounts(mounts, host.rules, workspace)
  if (level === 'process' && checked.some(({ mode }) => mode === 'ro'))
    throw unavailable('level "process" mounts nothing', 'a read-only mount cannot be enforced')
  return checked
}

function identityOf({ clock }: RunnerHost, path: string, index: number): FolderIdentity {
  const identity = identify(path, clock.machineBootId)
  if (identity === undefined) throw refusedMount(index, path, 'a folder whose path nobody changes meanwhile')
  return identity
}

/** What this runner was started with allows a folder, or a user of this machine allowed exactly these folders for this box. */
function refuseUnallowed(
  { rules, stateDir }: RunnerHost,
  { workspace, grant }: BoxCreate,
  real: string,
  mounts: readonly BoxMount[],
): void {
  const folders = { workspace: workspace === undefined ? undefined : real, mounts }
  if (grant !== undefined && isSigned(join(stateDir, FOLDER_KEY), folders, grant)) return
  if (workspace !== undefined) refuseUnallowedWorkspace(workspace, real, rules)
  refuseUnallowedMounts(mounts, rules)
}

function hasRealHome(host: RunnerHost, level: IsolationLevel, create: BoxCreate): boolean {
  if (level === 'process' || (create.home ?? host.home) === 'private') return false
  if (canMountHome(host)) return true
  if (create.home === 'real')
    throw unavailable(`the home folder is ${host.rules.home}`, 'home "real" is not possible here')
  return false
}

/** `auto` becomes `off` if this machine cannot take checkpoints. */
function checkpointsOf(host: RunnerHost, { checkpoints = 'off' }: BoxCreate): CheckpointMode {
  if (gitForCheckpoints(host) !== null || checkpoints === 'off') return checkpoints
  if (checkpoints === 'manual') throw unavailable('git is not on the PATH', 'checkpoints need git')
  return 'off'
}

function networkFor(host: RunnerHost, level: IsolationLevel, create: BoxCreate): BoxRecord['network'] {
  if (typeof create.network === 'object' && level === 'bwrap' && !host.sharedNetwork)
    throw unavailable(
      'sharedNetwork is false: nsenter is not on the PATH, or this machine restricts user namespaces',
      'a list of names needs a separate network for the box',
    )
  if (level === 'bwrap') return create.network ?? 'none'
  if (typeof create.network === 'object')
    throw unavailable('level "process" uses the network of the machine', 'a list of names cannot be enforced')
  if (create.network === 'none')
    throw unavailable('level "process" uses the network of the machine', 'network "none" cannot be enforced')
  return 'host'
}

function unavailable(raw: string, detail: string): Fault {
  return new Fault('isolation_unavailable', { facts: { detail }, errorRaw: `${detail}: ${raw}` })
}

const less = (field: string) => ({ advice: `Ask for less with limits.${field}, or use a larger machine.` })
