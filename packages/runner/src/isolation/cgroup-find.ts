/** Detects which control groups this process can really use: makes one, sets a limit, removes it. */
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode } from '@breakfall/faults/internal'
import { controlGroupsOf, mountTable } from '@breakfall/supervisor/platform'
import { allowBelow, type CgroupRoot, Cgroups, CONTROLLERS, type Controller } from './cgroup.ts'

/** `name` distinguishes this runner's groups from all others. */
export function findCgroups(name: string, mountsText = mountTable(), ownText = controlGroupsOf('self')): Cgroups {
  const roots = new Map<Controller | 'tree', CgroupRoot>()
  const mounts = parseMounts(mountsText)
  const own = parseOwn(ownText)
  const unified = mounts.find((mount) => mount.type === 'cgroup2')
  if (unified !== undefined) useVersion2(roots, join(unified.at, own.get('') ?? '/'), name)
  for (const controller of CONTROLLERS) {
    if (roots.has(controller)) continue
    const mount = mounts.find((entry) => entry.type === 'cgroup' && entry.options.includes(controller))
    if (mount === undefined) continue
    const folder = join(mount.at, own.get(controller) ?? '/', name)
    if (takesLimit(folder, PROBES[controller])) roots.set(controller, { version: 1, folder })
  }
  const pids = roots.get('pids')
  if (!roots.has('tree') && pids !== undefined) roots.set('tree', pids)
  return new Cgroups(roots)
}

// ---- details ----

const PROBES = {
  memory: ['memory.limit_in_bytes', '67108864'],
  pids: ['pids.max', '64'],
  cpu: ['cpu.cfs_quota_us', '100000'],
} as const

function useVersion2(roots: Map<Controller | 'tree', CgroupRoot>, parent: string, name: string): void {
  const folder = join(parent, name)
  try {
    mkdirSync(folder, { recursive: true })
    readFileSync(join(folder, 'cgroup.procs'))
    writeFileSync(join(folder, 'cgroup.procs'), '', { flag: 'r+' })
  } catch {
    return // we have no permission
  }
  roots.set('tree', { version: 2, folder })
  const offered = readText(join(parent, 'cgroup.controllers')).trim().split(' ')
  for (const controller of CONTROLLERS) {
    if (!offered.includes(controller)) continue
    try {
      allowFrom(parent, controller)
      allowBelow(folder, [controller])
      roots.set(controller, { version: 2, folder })
    } catch {
      // Offered, but not delegated to us: the box's record says that this limit is not enforced.
    }
  }
}

/** A group that contains processes cannot delegate controllers, so our process moves into a leaf and tries again. */
function allowFrom(parent: string, controller: Controller): void {
  try {
    allowBelow(parent, [controller])
  } catch (error) {
    if (errorCode(error) !== 'EBUSY') throw error
    const leaf = join(parent, 'breakfall-runner')
    mkdirSync(leaf, { recursive: true })
    writeFileSync(join(leaf, 'cgroup.procs'), String(process.pid))
    allowBelow(parent, [controller])
  }
}

function takesLimit(folder: string, [file, value]: readonly [string, string]): boolean {
  const probe = join(folder, 'probe')
  try {
    mkdirSync(probe, { recursive: true })
    writeFileSync(join(probe, file), value, { flag: 'r+' })
    rmdirSync(probe)
    return true
  } catch {
    return false // read-only, or no permission
  }
}

type MountLine = { readonly at: string; readonly type: string; readonly options: readonly string[] }

function parseMounts(text: string): readonly MountLine[] {
  return text.split('\n').flatMap((line) => {
    const [, at, type, options] = line.split(' ')
    return at === undefined || type === undefined || options === undefined || !type.startsWith('cgroup')
      ? []
      : [{ at, type, options: options.split(',') }]
  })
}

function parseOwn(text: string): ReadonlyMap<string, string> {
  const own = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [, controllers, ...path] = line.split(':')
    for (const controller of (controllers ?? '').split(',')) own.set(controller, path.join(':'))
  }
  return own
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return '' // without this file there are no usable groups
  }
}
