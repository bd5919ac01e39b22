/**
 * The arguments of bubblewrap for one exec. Pure.
 *
 * I1  Binds by allow-list only, never `/`; the root of the box is read-only in the end.
 * I2  No capability survives. Root of the host is root of a user namespace; another owner's workspace is served as that
 *     owner, by setpriv inside a sandbox that root built (its paths may lie where that owner cannot go).
 * I3  /proc is read-only. Root of the host stays the owner of /proc/sys, whatever its capabilities: left writable, a
 *     command could set the core pattern of the whole machine, which is a way out of any sandbox.
 * I4  Paths of a host workspace are the host's to change, and another box's whose workspace lies around it. bwrap mounts by
 *     path; so before the command starts, a shell in the sandbox compares what was mounted with what was meant, by device and
 *     inode. What remains: a mount that landed on the wrong place of its own sandbox, which then lacks that one guard, if
 *     somebody swaps folders for links in the same millisecond. No folder of the host can come in that way.
 */
import { posix } from 'node:path'
import type { Network } from '@breakfall/wire'
import type { BoxView } from './view.ts'

export type BoxUser =
  | { readonly kind: 'userns'; readonly uid: number; readonly gid: number; readonly disableUserns: boolean }
  | { readonly kind: 'setpriv'; readonly uid: number; readonly gid: number; readonly setpriv: string }

export type BwrapPlan = {
  readonly view: BoxView
  readonly user: BoxUser
  readonly network: Network
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
  /** With one, the command is reached through a shell of ours in the sandbox. */
  readonly entry?: Entry | undefined
}

/** What must hold before the command may start. */
export type Entry = {
  readonly workspace: string
  readonly numbers: readonly { readonly name: string; readonly numbers: string }[]
}

/** Options, to be given by `--args FD`: nothing of them shows in a process list. */
export function bwrapOptions(plan: BwrapPlan): readonly string[] {
  const { user, view } = plan
  return [
    ...(user.kind === 'userns'
      ? [
          '--unshare-user',
          '--uid',
          String(user.uid),
          '--gid',
          String(user.gid),
          ...(user.disableUserns ? ['--disable-userns'] : []),
        ]
      : []),
    '--unshare-pid',
    '--unshare-ipc',
    '--unshare-uts',
    '--unshare-cgroup-try',
    ...(plan.network === 'none' ? ['--unshare-net'] : []),
    '--hostname',
    'box',
    '--die-with-parent',
    '--new-session',
    '--cap-drop',
    'ALL', // I2
    ...(user.kind === 'setpriv'
      ? ['CAP_SETUID', 'CAP_SETGID', 'CAP_SETPCAP'].flatMap((cap) => ['--cap-add', cap])
      : []),
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    '--tmpfs',
    '/run',
    '--tmpfs',
    '/var/tmp',
    ...mountOptions(view),
    ...[...view.links].flatMap(([at, target]) => ['--symlink', target, at]),
    ...['/proc', '/'].flatMap((path) => ['--remount-ro', path]), // I1, I3
    ...(plan.entry === undefined ? ['--chdir', plan.cwd] : []),
    '--clearenv',
    ...Object.entries(plan.entry === undefined ? plan.environment : ENTRY_ENVIRONMENT).flatMap(([name, value]) => [
      '--setenv',
      name,
      value,
    ]),
  ]
}

/** What bubblewrap is told to run. */
export function bwrapCommand(plan: Omit<BwrapPlan, 'view' | 'network'>, command: readonly string[]): readonly string[] {
  const { entry, user, cwd, environment } = plan
  if (entry === undefined) return command
  return [
    ...(user.kind === 'setpriv' ? setprivArgs(user) : []),
    '/bin/sh',
    '-c',
    ENTRY_SCRIPT,
    'sh',
    entry.workspace,
    entry.numbers.map(({ name }) => name).join(' '), // fixed names without blanks
    entry.numbers.map(({ numbers }) => numbers).join('\n'),
    cwd,
    ...withEnvironment(environment, command),
  ]
}

/** The command with exactly that environment, whatever the shell or setpriv before it ran with. */
export function withEnvironment(
  environment: Readonly<Record<string, string>>,
  command: readonly string[],
): readonly string[] {
  const isAssignment = command[0]?.includes('=') === true // to env it would be one
  return [
    '/usr/bin/env',
    '-i',
    ...Object.entries(environment).map(([name, value]) => `${name}=${value}`),
    ...(isAssignment ? ['/bin/sh', '-c', 'exec "$@"', 'sh'] : []),
    ...command,
  ]
}

export function setprivArgs(user: {
  readonly uid: number
  readonly gid: number
  readonly setpriv: string
}): readonly string[] {
  return [
    user.setpriv,
    `--reuid=${user.uid}`,
    `--regid=${user.gid}`,
    '--clear-groups',
    '--no-new-privs',
    '--inh-caps=-all',
    '--bounding-set=-all',
    '--',
  ]
}

/** Into the sandbox it is a status line of its own (descriptor 8), and the command never starts. */
export const ENTRY_STATUS_FD = 8

/**
 * I4. $1 workspace, $2 names below it, $3 their device and inode numbers, $4 the folder to start in, then the command.
 * The folder is entered here, since bwrap would do it as a root without capabilities, to whom a folder of another owner
 * may be closed.
 */
const ENTRY_SCRIPT = `cd -- "$1" && [ "$(stat -c %d:%i -- $2)" = "$3" ] || { echo refused >&${ENTRY_STATUS_FD}; exit 126; }
exec ${ENTRY_STATUS_FD}>&-
cd -- "$4" || exit 126
shift 4
exec "$@"`

/** Nothing of the caller's: until the command starts, only programs of the machine run. */
const ENTRY_ENVIRONMENT = { PATH: '/usr/bin:/bin' }

/** Each mount, after the folders above it: left to bwrap those would be closed to other users. */
function mountOptions(view: BoxView): readonly string[] {
  const made = new Set<string>(['/'])
  const options: string[] = []
  for (const mount of view.mounts) {
    for (const path of parentsOf(mount.at)) {
      if (made.has(path)) continue
      made.add(path)
      // What lies in a read-only mount is there already, or cannot be made.
      if (!isIn(view, path, 'ro')) options.push('--perms', '0755', '--dir', path)
    }
    made.add(mount.at)
    options.push(mount.mode === 'ro' ? '--ro-bind' : '--bind', mount.host, mount.at)
  }
  return options
}

/** Outermost first. */
function parentsOf(path: string): readonly string[] {
  const parents: string[] = []
  for (let parent = posix.dirname(path); parent !== '/'; parent = posix.dirname(parent)) parents.unshift(parent)
  return parents
}

const isIn = (view: BoxView, path: string, mode: 'ro' | 'rw'): boolean =>
  view.mounts.some((mount) => mount.mode === mode && (path === mount.at || path.startsWith(`${mount.at}/`)))
