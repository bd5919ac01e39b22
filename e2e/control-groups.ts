/** Removes the control groups of runners that a test killed and did not restart. A restart would have removed them. */
import { existsSync, readdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Handles all runners whose state folder is inside `folder`. A process that was just killed may need a moment to leave its group. */
export async function removeControlGroups(folder: string): Promise<void> {
  const roots = runnersIn(folder).flatMap((runnerId) => hierarchies().map((at) => join(at, `breakfall-${runnerId}`)))
  for (let tries = 0; tries < 40 && roots.some((root) => !removeEmpty(root)); tries += 1) await sleep(25)
}

/** Does not follow links, unlike `recursive`: a test's links may lead anywhere. */
function runnersIn(folder: string): readonly string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return runnersIn(path)
    if (entry.name !== 'identity.json' || !entry.isFile()) return []
    return /"runnerId":\s*"([^"]+)"/.exec(readFileSync(path, 'utf8'))?.[1] ?? []
  })
}

/** Where the runner creates groups: below the groups of this process, wherever they are mounted. */
function hierarchies(): readonly string[] {
  const lines = readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n')
  return lines.flatMap((line) => {
    const [, controllers = '', path = ''] = line.split(':')
    return (controllers === '' ? ['unified', ''] : [controllers]).map((mount) => join('/sys/fs/cgroup', mount, path))
  })
}

/** False if a process still runs in it. */
function removeEmpty(group: string): boolean {
  if (!existsSync(group)) return true
  try {
    for (const entry of readdirSync(group, { withFileTypes: true }))
      if (entry.isDirectory()) removeEmpty(join(group, entry.name))
    rmdirSync(group)
    return true
  } catch {
    return !existsSync(group) // busy, or removed meanwhile
  }
}
