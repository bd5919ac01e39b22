/**
 * A box's view of the file system: which host path is behind which path of the box. The sandbox is built from it, and
 * commands are looked up in it first, so "not found" is known without starting anything.
 */
import { posix } from 'node:path'
import type { IsolationLevel } from '@breakfall/wire'
import type { BoxEtc } from './etc-copy.ts'
import type { HostLayout } from './host-layout.ts'

export type Mount = {
  readonly at: string
  readonly host: string
  readonly mode: 'ro' | 'rw'
  /** It may be gone by now: then the box is without it. */
  readonly isOptional?: boolean | undefined
}

export type BoxView = {
  /** In mount order: later ones cover earlier ones. */
  readonly mounts: readonly Mount[]
  readonly links: ReadonlyMap<string, string>
  /** What covers files of /proc that show more than the box's own: the descriptions of its user's keys. */
  readonly masks: readonly Pick<Mount, 'at' | 'host'>[]
  /** True if the box uses the machine's own paths and nothing is mounted. */
  readonly isHost: boolean
}

export type BoxFolders = {
  readonly workspace: { readonly at: string; readonly host: string; readonly kind: 'private' | 'host' }
  readonly tmp: string
  readonly home: { readonly at: string; readonly host: string }
  /** Over the home folder and the system: toolchains, and what the user adds. */
  readonly more: readonly Mount[]
  readonly etc: BoxEtc
  /** Only for a box with a list of names. */
  readonly resolv: string | undefined
  readonly passwd: string
  readonly group: string
  /** An empty file. */
  readonly nothing: string
}

/** HOME of a box whose home is private. */
export const BOX_HOME = '/home/box'

const RESOLV = '/etc/resolv.conf'

export function boxView(level: IsolationLevel, layout: HostLayout, folders: BoxFolders): BoxView {
  if (level === 'process') return { mounts: [], links: new Map(), masks: [], isHost: true }
  const same = (path: string, mode: 'ro' | 'rw'): Mount => ({ at: path, host: path, mode })
  const mounts: Mount[] = [
    ...layout.folders.map((path) => same(path, 'ro')),
    ...(folders.etc.folder === undefined ? [] : [{ at: '/etc', host: folders.etc.folder, mode: 'ro' as const }]),
    ...folders.etc.files
      .filter((path) => path !== RESOLV || folders.resolv === undefined)
      .map((path) => ({ ...same(path, 'ro'), isOptional: true })), // a VPN may have removed resolv.conf since the start
    ...(folders.resolv === undefined ? [] : [{ at: RESOLV, host: folders.resolv, mode: 'ro' as const }]),
    { at: '/etc/passwd', host: folders.passwd, mode: 'ro' },
    { at: '/etc/group', host: folders.group, mode: 'ro' },
    { at: '/tmp', host: folders.tmp, mode: 'rw' },
    { ...folders.home, mode: 'rw' },
    ...folders.more,
    { at: folders.workspace.at, host: folders.workspace.host, mode: 'rw' },
  ]
  const masks = layout.masked.map((at) => ({ at, host: folders.nothing }))
  return { mounts, links: layout.links, masks, isHost: false }
}

/**
 * The view with mounts inside the workspace. A command that runs there can redirect their paths meanwhile: a guard that lands
 * on a system folder of the box is covered by that folder again.
 */
export function withGuards(view: BoxView, workspace: string, guards: readonly Mount[]): BoxView {
  const system = view.mounts.filter(
    ({ at, mode }) => mode === 'ro' && !workspace.startsWith(`${at}/`) && !at.startsWith(`${workspace}/`),
  )
  return guards.length === 0 ? view : { ...view, mounts: [...view.mounts, ...guards, ...system] }
}

/** The host path behind a path of the box, without following links; undefined if the box has nothing there. */
export function hostPathOf(view: BoxView, path: string): string | undefined {
  const clean = posix.normalize(path)
  if (view.isHost) return clean
  for (const mount of view.mounts.toReversed()) {
    if (clean === mount.at) return mount.host
    if (clean.startsWith(mount.at === '/' ? '/' : `${mount.at}/`))
      return posix.join(mount.host, clean.slice(mount.at.length))
  }
  return undefined
}

/** Folders that exist only in the box, or because something is mounted below them. */
export function isOwnFolder(view: BoxView, path: string): boolean {
  if (view.isHost) return false
  const below = path === '/' ? '/' : `${path}/`
  return view.mounts.some((mount) => mount.at.startsWith(below)) || OWN.folders.has(path)
}

export function isDevice(view: BoxView, path: string): boolean {
  return !view.isHost && OWN.devices.has(path)
}

/** What bubblewrap creates for each command: empty folders and devices. */
const OWN = {
  folders: new Set(['/', '/dev', '/dev/pts', '/dev/shm', '/proc', '/run', '/var', '/var/tmp']),
  devices: new Set(['/dev/null', '/dev/zero', '/dev/full', '/dev/random', '/dev/urandom', '/dev/tty', '/dev/ptmx']),
}
