/** Turns a box and a request into a job for a keeper: what the command sees, as which user it runs, and its files. */
import { existsSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { Fault, isFault } from '@breakfall/faults'
import type { Network } from '@breakfall/wire'
import { EXEC_FILES } from '../exec/exec-folder.ts'
import { type Job, KEEPER_FDS, launchText } from '../exec/keeper.ts'
import { KEEPER_MARK } from '../exec/process-table.ts'
import type { FilledRequest } from '../exec/request.ts'
import { numbersOf, openFolder } from '../files/walk.ts'
import type { RunnerHost } from '../host/host.ts'
import {
  type BoxUser,
  bwrapCommand,
  bwrapOptions,
  type BwrapPlan,
  type Entry,
  seccompOptions,
  setprivArgs,
  withEnvironment,
} from '../isolation/bwrap-args.ts'
import { commandEnvironment } from '../isolation/environment.ts'
import { BOX_HOME, boxView, type BoxView, hostPathOf, withGuards } from '../isolation/mount-layout.ts'
import type { BoxPaths, StoredBox } from './stored-box.ts'
import { guardWorkspace } from './guards.ts'
import { type HomePlan, planHome } from './home-plan.ts'
import { openSame } from './workspace-identity.ts'

export type LaunchPlan = {
  readonly view: BoxView
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
  readonly command: readonly string[]
  readonly user: BoxUser | null
  readonly network: Network
  readonly box: StoredBox
}

export function planLaunch(
  host: RunnerHost,
  box: StoredBox,
  paths: BoxPaths,
  command: readonly string[],
  request: FilledRequest,
): LaunchPlan {
  const { workspace, isolation, network } = box.record
  requireSame(host, box, command)
  const { home, view } = planView(host, box, paths)
  const cwd = posix.resolve(workspace.path, request.cwd)
  const environment = commandEnvironment({
    path: home.path,
    host: host.environment,
    home: home.at,
    tmp: isolation.level === 'process' ? paths.tmp : '/tmp',
    cwd,
    user: box.uid === 0 ? 'root' : 'box',
    locations: home.locations,
    box: box.env,
    exec: request.env,
    needsCertificate: (file) => network !== 'none' && canRead(view, file),
  })
  return { view, cwd, environment, command, user: userOf(host, box), network, box }
}

/** The file of the machine is in the box, at the same path. */
function canRead(view: BoxView, file: string): boolean {
  if (!file.startsWith('/')) return false
  const host = hostPathOf(view, file)
  return host !== undefined && existsSync(host)
}

/** What the box sees, as of now. */
export function planView(host: RunnerHost, box: StoredBox, paths: BoxPaths): { home: HomePlan; view: BoxView } {
  const { isolation, workspace } = box.record
  const { level } = isolation
  const writable = (box.record.mounts ?? []).filter(({ mode }) => mode === 'rw')
  host.toolchains.distrust(writable.map(({ path }) => path))
  const isReal = box.record.home !== undefined && box.record.home.path !== BOX_HOME
  const home = planHome(host, { level, isReal, workspace: box.hostWorkspace, folder: paths.home })
  const view = boxView(level, host.layout, {
    workspace: { at: workspace.path, host: box.hostWorkspace, kind: workspace.kind },
    tmp: paths.tmp,
    home: { at: home.at, host: paths.home },
    more: [...home.mounts, ...(box.record.mounts ?? []).map(({ path, mode }) => ({ at: path, host: path, mode }))],
    etc: host.etc.current,
    passwd: paths.passwd,
    group: paths.group,
    nothing: host.nothing.file,
    resolv: typeof box.record.network === 'object' ? paths.resolv : undefined,
  })
  return { home, view }
}

/** Refuses with 422 before anything is made. Later changes are detected at the launch, and in the sandbox. */
function requireSame(host: RunnerHost, box: StoredBox, command: readonly string[]): void {
  try {
    if (box.record.workspace.kind === 'host')
      openSame(box.hostWorkspace, box.hostIdentity, host.clock.machineBootId)[Symbol.dispose]()
    mountNumbers(host, box)
  } catch (cause) {
    const detail = isFault(cause) ? cause.errorRaw : String(cause)
    throw new Fault('spawn_failed', {
      facts: { name: command[0]?.slice(0, 200) ?? '', detail },
      errorRaw: detail,
      reason: 'cwd_missing',
      cause,
    })
  }
}

/** Null: as the runner's user, without a sandbox. */
function userOf(host: RunnerHost, box: StoredBox): BoxUser | null {
  const { isolation } = host
  const isOther = process.getuid?.() === 0 && box.uid !== 0
  if (isOther && isolation.setpriv !== null)
    return { kind: 'setpriv', uid: box.uid, gid: box.gid, setpriv: isolation.setpriv }
  if (box.record.isolation.level === 'process') return null
  return { kind: 'userns', uid: box.uid, gid: box.gid, disableUserns: isolation.disableUserns }
}

/** Writes the files that the keeper reads, and returns the job. */
export function prepareJob(
  host: RunnerHost,
  plan: LaunchPlan,
  exec: { readonly folder: string; readonly request: FilledRequest; readonly mark: string },
): Omit<Job, 'execId' | 'atMs'> {
  const { folder, request } = exec
  const sandbox = plan.view.isHost || plan.user === null ? undefined : sandboxPlan(host, plan, plan.user)
  const write = (name: string, text: string): void => writeFileSync(join(folder, name), text, { mode: 0o600 })
  if (sandbox === undefined) {
    write(EXEC_FILES.launch, launchText(plan.cwd, plainCommand(host, plan, exec.mark)))
  } else {
    const options = bwrapOptions(sandbox).map((option) => `${option}\0`)
    write(EXEC_FILES.args, options.join(''))
    write(
      EXEC_FILES.launch,
      launchText(undefined, sandboxCommand(host, plan.box, sandbox, plan.command), host.isolation.seccomp),
    )
  }
  return {
    mode: sandbox === undefined ? 'plain' : sandbox.entry === undefined ? 'sandbox' : 'checked',
    stdin: request.stdin === 'pipe' ? EXEC_FILES.stdin : undefined,
    stderr: request.merge ? EXEC_FILES.stdout : EXEC_FILES.stderr,
  }
}

/** Opens a host workspace again and makes its guards now, because it may have changed since the check. */
function sandboxPlan(host: RunnerHost, plan: LaunchPlan, user: BoxUser): BwrapPlan {
  const { view, cwd, environment, box } = plan
  const network = box.join?.() === undefined ? plan.network : 'joined'
  const mounted = [...mountNumbers(host, box), ...windowNumbers(host, view)]
  if (box.record.workspace.kind === 'private') {
    const entry = mounted.length === 0 ? undefined : { workspace: box.record.workspace.path, numbers: mounted }
    return { view, user, network, cwd, environment, entry }
  }
  const { hostWorkspace: workspace, hostIdentity, uid, gid } = box
  const folder = openSame(workspace, hostIdentity, host.clock.machineBootId)
  const owner = process.getuid?.() === 0 ? { uid, gid } : undefined
  const { mounts, numbers } = guardWorkspace(folder, workspace, owner, box.nested ?? (() => []))
  const entry = { workspace, numbers: [...numbers, ...mounted] }
  return { view: withGuards(view, workspace, mounts), user, network, cwd, environment, entry }
}

/** Throws if one of them is another folder than when the box was created. What bubblewrap then finds is compared in the sandbox. */
function mountNumbers(host: RunnerHost, { record, mountIdentities }: StoredBox): Entry['numbers'] {
  if (mountIdentities === undefined || record.isolation.level === 'process') return [] // of an earlier version
  return (record.mounts ?? []).map(({ path }, i) => {
    using folder = openSame(path, mountIdentities[i], host.clock.machineBootId, 'folder')
    return { name: path, numbers: numbersOf(folder.fd) }
  })
}

/** Of the windows that a command could make a link in this moment. */
function windowNumbers({ toolchains }: RunnerHost, { mounts }: BoxView): Entry['numbers'] {
  const windows = mounts.filter(({ at, host, mode }) => mode === 'ro' && at === host && toolchains.isWritable(at))
  return windows.flatMap(({ at, isOptional }) => {
    if (isOptional !== true) return []
    using folder = openFolder('/', at.split('/').filter(Boolean))
    return [{ name: at, numbers: numbersOf(folder.fd) }]
  })
}

function sandboxCommand(
  host: RunnerHost,
  box: StoredBox,
  plan: BwrapPlan,
  command: readonly string[],
): readonly string[] {
  return [
    ...(box.join?.() ?? []),
    host.isolation.bwrap ?? 'bwrap',
    '--args',
    String(KEEPER_FDS.args),
    '--json-status-fd',
    String(KEEPER_FDS.sandboxStatus),
    ...seccompOptions(host.isolation.seccomp),
    '--',
    ...bwrapCommand(plan, command),
  ]
}

/** The environment is set last: until then root may be running, and a caller's LD_PRELOAD would apply to root. */
function plainCommand(host: RunnerHost, plan: LaunchPlan, mark: string): readonly string[] {
  const environment = { ...plan.environment, [KEEPER_MARK]: mark }
  const user = plan.user?.kind === 'setpriv' ? setprivArgs(plan.user) : []
  return [host.programs.setsid, ...user, ...withEnvironment(environment, plan.command)]
}
