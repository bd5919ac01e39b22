/** Connects a box with its checkpoints. */
import { existsSync } from 'node:fs'
import { type CheckpointedBox, Checkpoints } from '../checkpoint/checkpoints.ts'
import type { CommandPlace } from '../checkpoint/git-command.ts'
import { numbersOf } from '../files/walk.ts'
import type { RunnerHost } from '../host/host.ts'
import type { ExecStarter } from './exec-starter.ts'
import type { BoxExecs } from './execs.ts'
import type { BoxPaths, StoredBox } from './stored-box.ts'
import { isInside } from '../lib/paths.ts'
import { workspaceOf } from './workspace-access.ts'

type BoxParts = {
  readonly id: string
  readonly paths: BoxPaths
  readonly stored: StoredBox
  readonly execs: BoxExecs
  readonly starter: ExecStarter
  exclusive<T>(work: () => T | Promise<T>): Promise<T>
}

/** The git that the sandbox of checkpoints can see; null if there is none. */
export function gitForCheckpoints({ programs, layout }: Pick<RunnerHost, 'programs' | 'layout'>): string | null {
  const isVisible = (path: string): boolean =>
    layout.folders.some((folder) => isInside(path, folder)) && existsSync(path)
  return [programs.git, '/usr/bin/git'].find((path) => path !== null && isVisible(path)) ?? null
}

/** Undefined if the box has none. */
export function checkpointsFor(host: RunnerHost, box: BoxParts): Checkpoints | undefined {
  const { checkpoints = 'off' } = box.stored.record
  if (checkpoints === 'off') return undefined
  const workspace: CheckpointedBox['workspace'] = () => workspaceOf(box.stored, host.clock.machineBootId)
  return new Checkpoints(host, {
    id: box.id,
    git: gitForCheckpoints(host) ?? 'git',
    folder: box.paths.checkpoints,
    isAuto: checkpoints === 'auto',
    live: () => [...box.execs.live.keys()],
    nameOf: (execId) => box.execs.live.get(execId)?.background?.name,
    isStarting: () => box.starter.isStarting,
    workspace,
    place: (store) => placeFor(host, box.stored, store, workspace),
    exclusive: (work) => box.exclusive(work),
  })
}

/** Reads where the workspace is now; throws if it is gone or replaced. */
function placeFor(
  { isolation, layout }: RunnerHost,
  { record, hostWorkspace }: StoredBox,
  store: string,
  workspace: CheckpointedBox['workspace'],
): CommandPlace {
  using folder = workspace().open()
  return {
    bwrap: record.isolation.level === 'bwrap' ? isolation.bwrap : null,
    layout,
    store,
    workspace: hostWorkspace,
    numbers: numbersOf(folder.fd),
    isRoot: process.getuid?.() === 0,
    uid: process.getuid?.() ?? 0,
    gid: process.getgid?.() ?? 0,
  }
}
