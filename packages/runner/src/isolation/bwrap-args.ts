/**
 * The arguments of bubblewrap for one exec. Pure.
 *
 * I1  Binds by allow-list only, never `/`; the root of the box is read-only in the end.
 * I2  No capability survives. Root of the host is root of a user namespace; another owner's workspace is served as that
 *     owner, by setpriv inside a sandbox that root built (its paths may lie where that owner cannot go).
 * I3  /proc is read-only. Root of the host stays the owner of /proc/sys, whatever its capabilities: left writable, a
 *     command could set the core pattern of the whole machine, which is a way out of any sandbox.
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
    ...(user.kind === 'userns' ? ['--chdir', plan.cwd] : []),
    '--clearenv',
    ...Object.entries(plan.environment).flatMap(([name, value]) => ['--setenv', name, value]),
  ]
}

/** What bubblewrap is told to run. */
export function bwrapCommand(user: BoxUser, cwd: string, command: readonly string[]): readonly string[] {
  if (user.kind === 'userns') return command
  // bwrap would enter the folder as a root without capabilities, to whom another owner's private folder is closed.
  return [...setprivArgs(user), '/bin/sh', '-c', 'cd "$1" || exit 126; shift; exec "$@"', 'sh', cwd, ...command]
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
