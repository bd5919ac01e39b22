/**
 * The files of a repository that say what git runs and where it looks: the index, the configuration and `.git` files. Pure.
 *
 * I1  What git would run is judged by a list of harmless settings. A setting that is not on it, or a line that is not plain,
 *     counts as a command: git's own grammar has many ways to write one.
 */

/** Paths of the nested repositories that the index lists. For a split index or a damaged one: every path that it has. */
export function nestedIn(
  index: Buffer,
  hashBytes: 20 | 32,
  shared: (name: string) => Buffer | undefined,
): readonly string[] {
  const own = entriesOf(index, hashBytes)
  const link = own === undefined ? undefined : sharedIndexOf(index, own.end, hashBytes)
  if (own === undefined) return []
  if (link === undefined) return own.entries.filter(({ isNested }) => isNested).map(({ path }) => path)
  const other = shared(link)
  const all = [...own.entries, ...((other && entriesOf(other, hashBytes)?.entries) ?? [])]
  return all.some(({ isNested }) => isNested) ? [...new Set(all.map(({ path }) => path).filter(Boolean))] : []
}

/** The settings in a configuration, in order. Keys in lower case but for the part in quotes. */
export function settingsIn(config: string): readonly Setting[] {
  let section = ''
  return config.split(/\r?\n/).flatMap((line): Setting[] => {
    if (/^\s*(?:[#;].*)?$/.test(line)) return []
    const [, name, sub] = SECTION.exec(line) ?? []
    if (name !== undefined) {
      section = sub === undefined ? name.toLowerCase() : `${name.toLowerCase()}.${sub}`
      return []
    }
    const [, key = '', value = ''] = SETTING.exec(line) ?? []
    return [{ section, key: key.toLowerCase(), value: value.trim(), isPlain: key !== '' }]
  })
}

export type Setting = {
  readonly section: string
  readonly key: string
  readonly value: string
  /** False: the line is written in a way that this reader does not follow. */
  readonly isPlain: boolean
}

/** The configuration without what makes git run something, and the names of what is missing then. I1 */
export function harmlessPart(config: string): { readonly text: string; readonly removed: readonly string[] } {
  const settings = settingsIn(config)
  const isKept = (setting: Setting): boolean => setting.isPlain && isHarmless(setting)
  const kept = settings.filter(isKept).map(({ section, key, value }) => {
    const at = section.indexOf('.')
    const head = at === -1 ? section : `${section.slice(0, at)} "${section.slice(at + 1)}"`
    return `[${head}]\n\t${key} = ${value}\n`
  })
  const removed = settings
    .filter((setting) => !isKept(setting))
    .map(({ section, key }) => (key === '' ? 'an unusual line' : `${section}.${key}`))
  return { text: kept.join(''), removed: [...new Set(removed)] }
}

/** Where a `.git` file or a `commondir` leads: a path below the workspace, or undefined if that is elsewhere. */
export function pathInWorkspace(
  text: string,
  workspace: string,
  from: readonly string[],
): readonly string[] | undefined {
  const path = text.replace(/^gitdir: ?/, '').replace(/[\r\n]+$/, '')
  const parts = path.startsWith('/') ? [] : [...workspace.split('/'), ...from]
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue
    if (part === '..') parts.pop()
    else parts.push(part)
  }
  const [whole, root] = [parts.filter(Boolean), workspace.split('/').filter(Boolean)]
  return root.every((part, i) => whole[i] === part) ? whole.slice(root.length) : undefined
}

// ---- details, in the order they are used above ----

type Entries = {
  readonly entries: readonly { readonly path: string; readonly isNested: boolean }[]
  readonly end: number
}

/** Undefined if git would not read it either. */
function entriesOf(index: Buffer, hashBytes: number): Entries | undefined {
  if (index.length < 12 || index.toString('latin1', 0, 4) !== 'DIRC') return undefined
  const [version, count] = [index.readUInt32BE(4), index.readUInt32BE(8)]
  if (version < 2 || version > 4) return undefined
  const entries: { path: string; isNested: boolean }[] = []
  let [at, last] = [12, '']
  for (let i = 0; i < count && at + 42 + hashBytes <= index.length; i += 1) {
    const mode = index.readUInt32BE(at + 24)
    const flags = index.readUInt16BE(at + 40 + hashBytes)
    let name = at + 42 + hashBytes + (version > 2 && (flags & 0x4000) !== 0 ? 2 : 0)
    let kept = ''
    if (version === 4) {
      const { value, next } = varint(index, name)
      kept = last.slice(0, Math.max(0, last.length - value))
      name = next
    }
    const end = index.indexOf(0, name)
    if (end === -1) break
    last = kept + index.toString('latin1', name, end)
    entries.push({ path: Buffer.from(last, 'latin1').toString('utf8'), isNested: (mode & 0o170_000) === 0o160_000 })
    at = version === 4 ? end + 1 : at + Math.ceil((end + 1 - at) / 8) * 8
  }
  return { entries, end: at }
}

/** The variable-length numbers of packs and of version 4. */
function varint(bytes: Buffer, from: number): { readonly value: number; readonly next: number } {
  let at = from
  let byte = bytes[at] ?? 0
  let value = byte & 0x7f
  while ((byte & 0x80) !== 0 && at < bytes.length) {
    at += 1
    byte = bytes[at] ?? 0
    value = (value + 1) * 128 + (byte & 0x7f)
  }
  return { value, next: at + 1 }
}

/** The name in the extension `link`. */
function sharedIndexOf(index: Buffer, from: number, hashBytes: number): string | undefined {
  for (let at = from; at + 8 <= index.length - hashBytes;) {
    const size = index.readUInt32BE(at + 4)
    if (index.toString('latin1', at, at + 4) === 'link')
      return `sharedindex.${index.toString('hex', at + 8, at + 8 + hashBytes)}`
    at += 8 + size
  }
  return undefined
}

const SECTION = /^\s*\[([A-Za-z0-9-]+)(?:\s+"([^"\\\p{Cc}]*)")?\]\s*$/u
const SETTING = /^\s*([A-Za-z][A-Za-z0-9-]*)\s*=([^"\\#;\p{Cc}]*)$/u

/** None of these names a program, a file with settings, or a protocol that runs one. */
const HARMLESS: Readonly<Record<string, readonly string[]>> = {
  core: [
    'repositoryformatversion',
    'filemode',
    'bare',
    'logallrefupdates',
    'ignorecase',
    'precomposeunicode',
    'symlinks',
    'autocrlf',
    'eol',
    'safecrlf',
    'quotepath',
    'worktree',
    'sparsecheckout',
    'sparsecheckoutcone',
  ],
  user: ['name', 'email'],
  init: ['defaultbranch'],
  pull: ['rebase', 'ff'],
  push: ['default', 'autosetupremote'],
  fetch: ['prune'],
  gc: ['auto'],
  lfs: ['repositoryformatversion'],
  index: ['version'],
  extensions: ['objectformat', 'partialclone', 'worktreeconfig', 'refstorage'],
  'remote.*': ['url', 'pushurl', 'fetch', 'tagopt', 'promisor', 'partialclonefilter'],
  'branch.*': ['remote', 'merge', 'rebase'],
  'submodule.*': ['url', 'active', 'branch', 'ignore'],
}

function isHarmless({ section, key, value }: Setting): boolean {
  const at = section.indexOf('.')
  const keys = HARMLESS[at === -1 ? section : `${section.slice(0, at)}.*`] ?? []
  return keys.includes(key) && !value.includes('::') // `ext::` runs a program
}
