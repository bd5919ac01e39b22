/**
 * The arguments of bubblewrap for one exec. Pure.
 *
 * I1  Binds by allow-list only, never `/`; the root of the box is read-only in the end.
 * I2  No capability survives. Root of the host is root of a user namespace; another owner's workspace is served as that
 *     owner, by setpriv inside a sandbox that root built (its paths may lie where that owner cannot go).
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
    ...parentsOf(view).flatMap((path) => ['--perms', '0755', '--dir', path]), // left to bwrap they would be closed to other users
    ...view.mounts.flatMap((mount) => [mount.mode === 'ro' ? '--ro-bind' : '--bind', mount.host, mount.at]),
    ...[...view.links].flatMap(([at, target]) => ['--symlink', target, at]),
    '--remount-ro',
    '/', // I1
    '--chdir',
    plan.cwd,
    '--clearenv',
    ...Object.entries(plan.environment).flatMap(([name, value]) => ['--setenv', name, value]),
  ]
}

/** What bubblewrap is told to run. */
export function bwrapCommand(user: BoxUser, command: readonly string[]): readonly string[] {
  return user.kind === 'userns' ? command : [...setprivArgs(user), ...command]
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

/** Folders above mounts that no mount brings along, outermost first. */
function parentsOf(view: BoxView): readonly string[] {
  const parents = new Set<string>()
  for (const { at } of view.mounts) {
    for (let path = posix.dirname(at); path !== '/'; path = posix.dirname(path)) {
      if (!view.mounts.some((mount) => path === mount.at || path.startsWith(`${mount.at}/`))) parents.add(path)
    }
  }
  return [...parents].toSorted()
}
