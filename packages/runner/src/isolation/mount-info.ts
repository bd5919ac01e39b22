/** What is mounted where in a sandbox, as the kernel shows it outside. Pure but for `readMounts`. */
import { mountInfoOf } from '@breakfall/supervisor/platform'

/** Mount point → its options, such as `ro,nosuid,nodev`. */
export type MountedAt = ReadonlyMap<string, readonly string[]>

/** Undefined if the process is gone. */
export function readMounts(pid: number): MountedAt | undefined {
  const text = mountInfoOf(pid)
  return text === undefined ? undefined : parseMountInfo(text)
}

export function parseMountInfo(text: string): MountedAt {
  const mounts = new Map<string, readonly string[]>()
  for (const line of text.split('\n')) {
    const [, , , , at, options] = line.split(' ')
    if (at !== undefined && options !== undefined) mounts.set(decoded(at), options.split(','))
  }
  return mounts
}

/** The options of the mount that a path is in. */
export function optionsAt(mounts: MountedAt, path: string): readonly string[] {
  for (let at = path; at !== ''; at = at.slice(0, at.lastIndexOf('/'))) {
    const options = mounts.get(at)
    if (options !== undefined) return options
  }
  return mounts.get('/') ?? []
}

/** The kernel writes blanks, line ends and backslashes in octal. */
function decoded(path: string): string {
  const bytes = path.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))
  return Buffer.from(bytes, 'latin1').toString('utf8')
}
