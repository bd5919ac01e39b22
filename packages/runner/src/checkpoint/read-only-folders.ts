/** Without root, the contents of a read-only folder cannot change. A restore makes the folder writable while it works. */
import { chmodSync, fstatSync } from 'node:fs'
import { openFolder, type OpenFolder } from '../files/walk.ts'
import { bytesOf, type TreePath } from './listing.ts'
import { parentsOf, type RestorePlan } from './plan.ts'

/**
 * Returns the permissions that these folders had. If we are killed, they stay writable for their owner. A folder that its
 * owner cannot list stays closed: no safety checkpoint holds what is in it.
 */
export function makeWritable(
  root: OpenFolder,
  { removals, writes, modes, folders }: RestorePlan,
): readonly [TreePath, number][] {
  const uid = process.getuid?.() ?? 0
  if (uid === 0) return []
  const changed = [...removals, ...[...writes, ...modes, ...folders].map(({ path }) => path)]
  const parents = [...new Set(changed.flatMap(parentsOf))].toSorted()
  return parents.flatMap((path): [TreePath, number][] => {
    try {
      using folder = openFolder(root.itself, path.split('/').map(bytesOf))
      const { uid: owner, mode } = fstatSync(folder.fd)
      if (owner !== uid || (mode & OWNERS) !== READ_ONLY) return []
      chmodSync(folder.itself, (mode & PERM) | OWNERS)
      return [[path, mode & PERM]]
    } catch {
      return [] // not there, or not to be entered: what is in it is reported as skipped
    }
  })
}

const [PERM, OWNERS, READ_ONLY] = [0o7777, 0o700, 0o500]
