/** From a box and a request to a running keeper: what the command sees, as whom it runs, and which descriptors it gets. */
import type { ChildProcess } from 'node:child_process'
import { openSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { Fault } from '@breakfall/faults'
import type { Network } from '@breakfall/wire'
import { closeAll, openFifo } from '../exec/fifo-reader.ts'
import { EXEC_FILES, type FilledRequest } from '../exec/folder.ts'
import { KEEPER_FDS, KEEPER_MARK, spawnKeeper } from '../exec/keeper.ts'
import type { StdinPipe } from '../exec/stdin.ts'
import type { RunnerHost } from '../host.ts'
import {
  type BoxUser,
  bwrapCommand,
  bwrapOptions,
  type BwrapPlan,
  setprivArgs,
  withEnvironment,
} from '../isolation/bwrap-args.ts'
import { commandEnvironment } from '../isolation/environment.ts'
import { BOX_HOME, boxView, type BoxView, withGuards } from '../isolation/view.ts'
import type { BoxPaths, StoredBox } from './stored.ts'
import { guardWorkspace } from './guards.ts'
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
  const { level } = box.record.isolation
  const { workspace } = box.record
  const isHost = level === 'process'
  if (workspace.kind === 'host') requireSame(host, box, command)
  const view = boxView(level, host.layout, {
    workspace: { at: workspace.path, host: box.hostWorkspace, kind: workspace.kind },
    tmp: paths.tmp,
    home: paths.home,
    passwd: paths.passwd,
    group: paths.group,
  })
  const cwd = posix.resolve(workspace.path, request.cwd)
  const environment = commandEnvironment({
    layout: host.layout,
    host: host.environment,
    isHost,
    home: isHost ? paths.home : BOX_HOME,
    tmp: isHost ? paths.tmp : '/tmp',
    cwd,
    user: box.uid === 0 ? 'root' : 'box',
    box: box.env,
    exec: request.env,
  })
  return { view, cwd, environment, command, user: userOf(host, box), network: box.record.network, box }
}

/** 422 while nothing is made yet; what changes after this look is found out at the launch, and in the sandbox. */
function requireSame(host: RunnerHost, box: StoredBox, command: readonly string[]): void {
  try {
    openSame(box.hostWorkspace, box.hostIdentity, host.clock.machineBootId)[Symbol.dispose]()
  } catch (cause) {
    const { errorRaw: detail } = cause as Fault
    throw new Fault('spawn_failed', {
      facts: { name: command[0]?.slice(0, 200) ?? '', detail },
      errorRaw: detail,
      reason: 'cwd_missing',
      cause,
    })
  }
}

/** Null: as the runner itself, without a sandbox. */
function userOf(host: RunnerHost, box: StoredBox): BoxUser | null {
  const { isolation } = host
  const isOther = process.getuid?.() === 0 && box.uid !== 0
  if (isOther && isolation.setpriv !== null)
    return { kind: 'setpriv', uid: box.uid, gid: box.gid, setpriv: isolation.setpriv }
  if (box.record.isolation.level === 'process') return null
  return { kind: 'userns', uid: box.uid, gid: box.gid, disableUserns: isolation.disableUserns }
}

/** Opens what the keeper needs, starts it, and closes our copies. */
export function launch(
  host: RunnerHost,
  plan: LaunchPlan,
  exec: {
    readonly folder: string
    readonly request: FilledRequest
    readonly stdin: StdinPipe
    readonly joins: readonly string[]
    readonly mark: string
  },
): ChildProcess {
  const { folder, request } = exec
  const isSandbox = !plan.view.isHost
  const sandbox = isSandbox ? sandboxPlan(host, plan) : undefined
  const opened: (number | 'ignore')[] = []
  const open = <T extends number | 'ignore'>(fd: T): T => {
    opened.push(fd)
    return fd
  }
  try {
    const hasInput = request.stdin === 'pipe'
    if (sandbox !== undefined)
      writeFileSync(
        join(folder, EXEC_FILES.args),
        bwrapOptions(sandbox)
          .map((option) => `${option}\0`)
          .join(''),
        { mode: 0o600 },
      )
    return spawnKeeper({
      claim: join(folder, EXEC_FILES.claim),
      stdinPath: hasInput ? join(folder, EXEC_FILES.stdin) : '/dev/null',
      hasInput,
      mode: sandbox === undefined ? 'plain' : sandbox.entry === undefined ? 'sandbox' : 'checked',
      sleep: host.sleep,
      joins: exec.joins,
      command:
        sandbox === undefined ? plainCommand(host, plan, exec.mark) : sandboxCommand(host, sandbox, plan.command),
      cwd: isSandbox ? '/' : plan.cwd,
      environment: isSandbox || plan.user !== null ? { PATH: '/usr/bin:/bin' } : plan.environment,
      mark: exec.mark,
      fds: {
        stdout: open(openFifo(join(folder, EXEC_FILES.stdout))),
        stderr: open(openFifo(join(folder, request.merge ? EXEC_FILES.stdout : EXEC_FILES.stderr))),
        status: open(openSync(join(folder, EXEC_FILES.status), 'r+')),
        stdinHold: open(hasInput ? exec.stdin.prepare() : 'ignore'),
        covered: host.inherited,
        cover: open(host.inherited.length === 0 ? 'ignore' : openSync('/dev/null', 'r+')),
        args: open(isSandbox ? openSync(join(folder, EXEC_FILES.args), 'r') : 'ignore'),
      },
    })
  } finally {
    closeAll(opened)
  }
}

/** A host workspace is opened anew and its guards are made now: what was looked at before may have changed. */
function sandboxPlan(host: RunnerHost, plan: LaunchPlan): BwrapPlan {
  const { view, network, cwd, environment, box } = plan
  const user = plan.user as BoxUser
  if (box.record.workspace.kind === 'private') return { view, user, network, cwd, environment }
  const { hostWorkspace: workspace, hostIdentity, uid, gid } = box
  const folder = openSame(workspace, hostIdentity, host.clock.machineBootId)
  const owner = process.getuid?.() === 0 ? { uid, gid } : undefined
  const { mounts, numbers } = guardWorkspace(folder, workspace, owner)
  return { view: withGuards(view, workspace, mounts), user, network, cwd, environment, entry: { workspace, numbers } }
}

function sandboxCommand(host: RunnerHost, plan: BwrapPlan, command: readonly string[]): readonly string[] {
  return [
    host.isolation.bwrap ?? 'bwrap',
    '--args',
    String(KEEPER_FDS.args),
    '--json-status-fd',
    String(KEEPER_FDS.sandboxStatus),
    '--',
    ...bwrapCommand(plan, command),
  ]
}

/** As another user the environment comes in last: until then root runs, and a caller's LD_PRELOAD would be root's. */
function plainCommand(host: RunnerHost, plan: LaunchPlan, mark: string): readonly string[] {
  if (plan.user?.kind !== 'setpriv') return [host.setsid, ...plan.command]
  const environment = { ...plan.environment, [KEEPER_MARK]: mark }
  return [host.setsid, ...setprivArgs(plan.user), ...withEnvironment(environment, plan.command)]
}
