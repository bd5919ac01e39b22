/**
 * How a box sees the world: which host path stands behind which path of the box. The sandbox is built from it, and
 * commands are looked up in it before they start, so that "not found" is known without starting anything.
 */
import { posix } from 'node:path'
import type { IsolationLevel } from '@breakfall/wire'
import type { HostLayout } from './host.ts'

export type Mount = { readonly at: string; readonly host: string; readonly mode: 'ro' | 'rw' }

export type BoxView = {
  /** In the order in which they are mounted: later ones lie over earlier ones. */
  readonly mounts: readonly Mount[]
  readonly links: ReadonlyMap<string, string>
  /** True where paths of the box are the machine's own: nothing is mounted. */
  readonly isHost: boolean
}

export type BoxPlaces = {
  readonly workspace: { readonly at: string; readonly host: string; readonly kind: 'private' | 'host' }
  readonly tmp: string
  readonly home: string
  readonly passwd: string
  readonly group: string
  /** Parts of a host workspace that must not change: host paths of what exists. */
  readonly readOnly: readonly string[]
  /** Folders that hold read-only parts; mounted onto themselves, so that they cannot be moved out of the way. */
  readonly pinned: readonly string[]
}

export const BOX_HOME = '/home/box'

export function boxView(level: IsolationLevel, layout: HostLayout, places: BoxPlaces): BoxView {
  if (level === 'process') return { mounts: [], links: new Map(), isHost: true }
  const same = (path: string, mode: 'ro' | 'rw'): Mount => ({ at: path, host: path, mode })
  const mounts: Mount[] = [
    ...layout.folders.map((path) => same(path, 'ro')),
    ...layout.etc.map((path) => same(path, 'ro')),
    { at: '/etc/passwd', host: places.passwd, mode: 'ro' },
    { at: '/etc/group', host: places.group, mode: 'ro' },
    { at: '/tmp', host: places.tmp, mode: 'rw' },
    { at: BOX_HOME, host: places.home, mode: 'rw' },
    ...layout.homePath.map((path) => same(path, 'ro')),
    { at: places.workspace.at, host: places.workspace.host, mode: 'rw' },
    ...places.pinned.map((path) => same(path, 'rw')),
    ...places.readOnly.map((path) => same(path, 'ro')),
  ]
  return { mounts, links: layout.links, isHost: false }
}

/** The host path behind a path of the box, links not followed; undefined where the box has nothing there. */
export function hostPathOf(view: BoxView, path: string): string | undefined {
  const clean = posix.normalize(path)
  if (view.isHost) return clean
  for (let i = view.mounts.length - 1; i >= 0; i -= 1) {
    const mount = view.mounts[i] as Mount
    if (clean === mount.at) return mount.host
    if (clean.startsWith(mount.at === '/' ? '/' : `${mount.at}/`))
      return posix.join(mount.host, clean.slice(mount.at.length))
  }
  return undefined
}

/** Folders that exist in the box because something is mounted below them. */
export function isMountParent(view: BoxView, path: string): boolean {
  const below = path === '/' ? '/' : `${path}/`
  return (
    view.mounts.some((mount) => mount.at.startsWith(below)) || path === '/dev' || path === '/proc' || path === '/run'
  )
}
