/**
 * What git and find print, as values. Pure.
 *
 * A path is kept as a string with one character per byte (latin1): names need not be valid UTF-8, and may contain newlines.
 */

export type TreePath = string

export const bytesOf = (path: TreePath): Buffer => Buffer.from(path, 'latin1')

/** For people and JSON. Bytes that are not UTF-8 become U+FFFD. */
export const shown = (path: TreePath): string => bytesOf(path).toString('utf8')

export const splitNul = (bytes: Buffer): TreePath[] =>
  bytes
    .toString('latin1')
    .split('\0')
    .filter((entry) => entry !== '')

export const joinNul = (paths: readonly TreePath[]): Buffer => bytesOf(paths.map((path) => `${path}\0`).join(''))

/** One side of a difference: git's mode and object; null if the path is not there. */
export type TreeEntry = { readonly mode: string; readonly oid: string } | null
export type TreeChange = { readonly path: TreePath; readonly from: TreeEntry; readonly to: TreeEntry }

/** From `diff-files` or `diff-tree` with `--raw -z --no-renames`. */
export function parseRawDiff(bytes: Buffer): TreeChange[] {
  const words = bytes.toString('latin1').split('\0')
  const changes: TreeChange[] = []
  for (let i = 0; i + 1 < words.length; i += 2) {
    const [fromMode = '', toMode = '', fromOid = '', toOid = ''] = (words[i] ?? '').slice(1).split(' ')
    changes.push({ path: words[i + 1] ?? '', from: side(fromMode, fromOid), to: side(toMode, toOid) })
  }
  return changes
}

/** What find reports about an entry of the workspace. */
export type FoundKind = 'file' | 'folder' | 'empty' | 'link' | 'special'
export type FoundEntry = {
  readonly path: TreePath
  readonly kind: FoundKind
  readonly perm: number
  readonly bytes: number
  readonly isReadable: boolean
}

/** The arguments of find. Skips `.git` everywhere, and the given folders. */
export function findCommand(pruned: readonly TreePath[]): readonly string[] {
  const print = (kind: string): string => `-printf ${kind}\\040%m\\040%s\\040%P\\0`
  const tests = [
    `-type f -readable ${print('f')}`,
    `-type f ${print('u')}`,
    `-type d -readable -executable -empty ${print('e')}`,
    `-type d ${print('d')}`,
    `-type l ${print('l')}`,
    print('s'),
  ].join(' -o ')
  const skip = pruned.flatMap((path) => ['-o', '-path', `./${escaped(path)}`])
  const start = 'find . -xdev -mindepth 1 ( -name .git'.split(' ')
  return [...start, ...skip, ')', '-prune', '-o', ...tests.split(' ')]
}

export function parseFound(bytes: Buffer): FoundEntry[] {
  return splitNul(bytes).flatMap((line) => {
    const found = /^([fuedls]) (\d+) (\d+) ([\s\S]+)$/.exec(line)
    if (found === null) return []
    const [, letter = '', perm = '', size = '', path = ''] = found
    return [
      {
        path,
        kind: KINDS[letter] ?? 'special',
        perm: Number.parseInt(perm, 8),
        bytes: Number(size),
        isReadable: letter !== 'u',
      },
    ]
  })
}

/** What git's trees do not hold: permissions that git has no mode for, empty folders, folders' permissions, and what is left out. */
export type Manifest = {
  /** Files whose permissions are not the usual ones of their mode. */
  readonly files: ReadonlyMap<TreePath, number>
  /** Folders that are empty, or whose permissions are not 0755. */
  readonly folders: ReadonlyMap<TreePath, { readonly perm: number; readonly isEmpty: boolean }>
  /** Paths that were there but are not held, as ignored and large files: a restore must not take them for new ones. */
  readonly leftOut: readonly TreePath[]
}

export function manifestOf(found: readonly FoundEntry[], leftOut: readonly TreePath[]): Manifest {
  const files = new Map<TreePath, number>()
  const folders = new Map<TreePath, { perm: number; isEmpty: boolean }>()
  const isLeftOut = withinAny(leftOut)
  for (const { path, kind, perm } of found) {
    if (isLeftOut(path)) continue
    if (kind === 'file' && perm !== usualPerm((perm & 0o100) === 0 ? '100644' : '100755')) files.set(path, perm)
    if (kind === 'empty' || (kind === 'folder' && perm !== FOLDER_PERM))
      folders.set(path, { perm, isEmpty: kind === 'empty' })
  }
  return { files, folders, leftOut: leftOut.slice(0, LEFT_OUT_MAX).toSorted() }
}

const LEFT_OUT_MAX = 10_000 // each checkpoint stores the list again if it has changed

export const FOLDER_PERM = 0o755
export const usualPerm = (mode: string): number => (mode === '100755' ? 0o755 : 0o644)

/** The same manifest gives the same bytes. */
export function encodeManifest({ files, folders, leftOut }: Manifest): Buffer {
  const lines = [
    ...[...files].map(([path, perm]) => `f ${perm.toString(8)} ${path}`),
    ...[...folders].map(([path, { perm, isEmpty }]) => `${isEmpty ? 'e' : 'd'} ${perm.toString(8)} ${path}`),
    ...leftOut.map((path) => `x 0 ${path}`),
  ]
  return joinNul(lines.toSorted())
}

export function decodeManifest(bytes: Buffer): Manifest {
  const files = new Map<TreePath, number>()
  const folders = new Map<TreePath, { perm: number; isEmpty: boolean }>()
  const leftOut: TreePath[] = []
  for (const line of splitNul(bytes)) {
    const found = /^([fedx]) (\d+) ([\s\S]+)$/.exec(line)
    if (found === null) throw new Error('the manifest of the checkpoint is damaged')
    const [, letter, octal = '', path = ''] = found
    const perm = Number.parseInt(octal, 8)
    if (letter === 'x') leftOut.push(path)
    else if (letter === 'f') files.set(path, perm)
    else folders.set(path, { perm, isEmpty: letter === 'e' })
  }
  return { files, folders, leftOut }
}

/** Whether a path is in this list, or below a listed path that ends in `/`. */
export function withinAny(paths: readonly TreePath[]): (path: TreePath) => boolean {
  const exact = new Set(paths.map((path) => path.replace(/\/$/, '')))
  return (path) => {
    if (exact.has(path)) return true
    for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1))
      if (exact.has(path.slice(0, at))) return true
    return false
  }
}

// ---- details ----

const KINDS: Readonly<Record<string, FoundKind>> = {
  f: 'file',
  u: 'file',
  e: 'empty',
  d: 'folder',
  l: 'link',
  s: 'special',
}

const side = (mode: string, oid: string): TreeEntry => (/^0+$/.test(mode) ? null : { mode, oid })

/** `-path` is a pattern. */
const escaped = (path: TreePath): string => path.replaceAll(/[*?[\]\\]/g, (character) => `\\${character}`)
