/**
 * The bubblewrap arguments for one exec. Pure.
 *
 * I1  Only allow-listed paths are bound, never `/`; the root of the box is read-only in the end.
 * I2  No capability survives. The host's root is root of a user namespace; a workspace with another owner is used as that
 *     owner, through setpriv inside a sandbox that root built (its paths may be inaccessible to that owner).
 * I3  /proc is read-only. The host's root owns /proc/sys even without capabilities: if it were writable, a command could set
 *     the core pattern of the whole machine, which is a way out of any sandbox.
 * I4  The host can change the paths of a host workspace, and so can a box whose workspace contains it. bwrap mounts by path,
 *     so before the command starts, a shell in the sandbox compares device and inode of each mount with the expected ones.
 *     What remains: if someone swaps a folder for a link in the same millisecond, a guard may be mounted at the wrong place
 *     in its sandbox and be missing at the right one. No other host folder can get in that way.
 */
import { posix } from 'node:path'
import type { Network } from '@breakfall/wire'
import type { BoxView } from './mount-layout.ts'

export type BoxUser =
  | { readonly kind: 'userns'; readonly uid: number; readonly gid: number; readonly disableUserns: boolean }
  | { readonly kind: 'setpriv'; readonly uid: number; readonly gid: number; readonly setpriv: string }

export type BwrapPlan = {
  readonly view: BoxView
  readonly user: BoxUser
  /** `joined`: it starts in its network already. */
  readonly network: Network | 'joined'
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
  /** If set, our own shell in the sandbox checks it and then starts the command. */
  readonly entry?: Entry | undefined
}

/** What must hold before the command starts. */
export type Entry = {
  readonly workspace: string
  readonly numbers: readonly { readonly name: string; readonly numbers: string }[]
}

/** Options for `--args FD`, so they do not show up in a process list. */
export function bwrapOptions(plan: BwrapPlan): readonly string[] {
  const { user, view } = plan
  const isOwn = plan.entry !== undefined // our own shell starts first
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
    ...(plan.network === 'host' || plan.network === 'joined' ? [] : ['--unshare-net']),
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
    ...view.masks.flatMap(({ at, host }) => ['--ro-bind', host, at]),
    ...[...view.links].flatMap(([at, target]) => ['--symlink', target, at]),
    ...['/proc', '/'].flatMap((path) => ['--remount-ro', path]), // I1, I3
    ...(isOwn ? [] : ['--chdir', plan.cwd]),
    '--clearenv',
    ...Object.entries(isOwn ? ENTRY_ENVIRONMENT : plan.environment).flatMap(([name, value]) => [
      '--setenv',
      name,
      value,
    ]),
  ]
}

/** The descriptor that bubblewrap reads the seccomp program from. */
export const SECCOMP_FD = 5

export const seccompOptions = (file: string | null): readonly string[] =>
  file === null ? [] : ['--seccomp', String(SECCOMP_FD)]

/** The command that bubblewrap runs. */
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
    entry.numbers.map(({ name }) => quoted(name)).join(' '),
    entry.numbers.map(({ numbers }) => numbers).join('\n'),
    cwd,
    ...withEnvironment(environment, command),
  ]
}

/** The command with exactly this environment, regardless of the shell's or setpriv's. */
export function withEnvironment(
  environment: Readonly<Record<string, string>>,
  command: readonly string[],
): readonly string[] {
  const isAssignment = command[0]?.includes('=') === true // `env` would treat it as an assignment
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

/** A failed check is reported as a status line on this descriptor, and the command never starts. */
export const ENTRY_STATUS_FD = 8

/**
 * I4. $1 workspace, $2 names below it as words of a shell, $3 their device and inode numbers, $4 the folder to start in, then the command.
 * The script changes into the folder, because bwrap would do so as root without capabilities, which may not enter a folder
 * of another owner.
 */
const ENTRY_SCRIPT = `cd -- "$1" && [ "$(eval "stat -c %d:%i -- $2")" = "$3" ] || { echo refused >&${ENTRY_STATUS_FD}; exit 126; }
exec ${ENTRY_STATUS_FD}>&-
cd -- "$4" || exit 126
shift 4
exec "$@"`

/** Nothing from the caller: until the command starts, only system programs run. */
const ENTRY_ENVIRONMENT = { PATH: '/usr/bin:/bin' }

/** Each mount, after its parent folders: bwrap would make those inaccessible to other users. */
function mountOptions(view: BoxView): readonly string[] {
  const made = new Set<string>(['/'])
  const options: string[] = []
  for (const mount of view.mounts) {
    for (const path of parentsOf(mount.at)) {
      if (made.has(path)) continue
      made.add(path)
      // In a read-only mount a folder exists already, or cannot be made.
      if (!isIn(view, path, 'ro')) options.push('--perms', '0755', '--dir', path)
    }
    made.add(mount.at)
    const kind = mount.mode === 'ro' ? '--ro-bind' : '--bind'
    options.push(mount.isOptional === true ? `${kind}-try` : kind, mount.host, mount.at)
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

/** In single quotes a shell gives no character a special meaning, except the quote itself. */
export const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`
