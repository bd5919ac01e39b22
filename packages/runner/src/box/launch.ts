/** From a box and a request to a running keeper: what the command sees, as whom it runs, and which descriptors it gets. */
import type { ChildProcess } from 'node:child_process'
import { openSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import type { Network } from '@breakfall/wire'
import { closeAll, openFifo } from '../exec/fifo-reader.ts'
import { EXEC_FILES, type FilledRequest } from '../exec/folder.ts'
import { KEEPER_FDS, spawnKeeper } from '../exec/keeper.ts'
import type { StdinPipe } from '../exec/stdin.ts'
import type { RunnerHost } from '../host.ts'
import { type BoxUser, bwrapCommand, bwrapOptions, setprivArgs } from '../isolation/bwrap-args.ts'
import { commandEnvironment } from '../isolation/environment.ts'
import { BOX_HOME, boxView, type BoxView } from '../isolation/view.ts'
import type { BoxPaths, StoredBox } from './stored.ts'
import { protectedPaths } from './workspace.ts'

export type LaunchPlan = {
  readonly view: BoxView
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
  readonly command: readonly string[]
  readonly user: BoxUser | null
  readonly network: Network
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
  const guard = workspace.kind === 'host' ? protectedPaths(box.hostWorkspace) : { readOnly: [], pinned: [] }
  const view = boxView(level, host.layout, {
    workspace: { at: workspace.path, host: box.hostWorkspace, kind: workspace.kind },
    tmp: paths.tmp,
    home: paths.home,
    passwd: paths.passwd,
    group: paths.group,
    ...guard,
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
  return { view, cwd, environment, command, user: userOf(host, box), network: box.record.network }
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
  const opened: (number | 'ignore')[] = []
  const open = <T extends number | 'ignore'>(fd: T): T => {
    opened.push(fd)
    return fd
  }
  try {
    const hasInput = request.stdin === 'pipe'
    if (isSandbox)
      writeFileSync(
        join(folder, EXEC_FILES.args),
        sandboxOptions(plan)
          .map((option) => `${option}\0`)
          .join(''),
        { mode: 0o600 },
      )
    return spawnKeeper({
      claim: join(folder, EXEC_FILES.claim),
      stdinPath: hasInput ? join(folder, EXEC_FILES.stdin) : '/dev/null',
      hasInput,
      mode: isSandbox ? 'sandbox' : 'plain',
      sleep: host.sleep,
      command: isSandbox ? sandboxCommand(host, plan) : plainCommand(host, plan),
      cwd: isSandbox ? '/' : plan.cwd,
      environment: isSandbox ? { PATH: '/usr/bin:/bin' } : plan.environment,
      mark: exec.mark,
      fds: {
        stdout: open(openFifo(join(folder, EXEC_FILES.stdout))),
        stderr: open(openFifo(join(folder, request.merge ? EXEC_FILES.stdout : EXEC_FILES.stderr))),
        status: open(openSync(join(folder, EXEC_FILES.status), 'r+')),
        stdinHold: open(hasInput ? exec.stdin.prepare() : 'ignore'),
        joins: KEEPER_FDS.join.map((_, i) => open(openSync(exec.joins[i] ?? '/dev/null', 'w'))),
        args: open(isSandbox ? openSync(join(folder, EXEC_FILES.args), 'r') : 'ignore'),
      },
    })
  } finally {
    closeAll(opened)
  }
}

function sandboxOptions(plan: LaunchPlan): readonly string[] {
  const { view, network, cwd, environment } = plan
  return bwrapOptions({ view, user: plan.user as BoxUser, network, cwd, environment })
}

function sandboxCommand(host: RunnerHost, plan: LaunchPlan): readonly string[] {
  return [
    host.isolation.bwrap ?? 'bwrap',
    '--args',
    String(KEEPER_FDS.args),
    '--json-status-fd',
    String(KEEPER_FDS.sandboxStatus),
    '--',
    ...bwrapCommand(plan.user as BoxUser, plan.cwd, plan.command),
  ]
}

function plainCommand(host: RunnerHost, plan: LaunchPlan): readonly string[] {
  return [host.setsid, ...(plan.user?.kind === 'setpriv' ? setprivArgs(plan.user) : []), ...plan.command]
}
