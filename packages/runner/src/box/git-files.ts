/**
 * The files of a repository that say what git runs and where it looks: the index, the configuration and `.git` files. Pure.
 *
 * I1  What git would run is judged by a list of harmless settings. A setting that is not on it, or a line that is not plain,
 *     counts as a command: git's own grammar has many ways to write one.
 * I2  An index is read as git does, which takes the length of a name from the flags, and where git has a choice, both ways.
 */

/**
 * Paths of the nested repositories that the index lists. If a nested one has its name in a shared index: every path of that.
 * Undefined if it would take too long to tell, as with no index that git wrote, or if one of them is no text. I2
 */
export function nestedIn(
  index: Buffer,
  hashBytes: 20 | 32,
  shared: (name: string) => Buffer | undefined,
): readonly string[] | undefined {
  const others = [...new Set(sharedIndexesOf(index, hashBytes))].flatMap((name) => shared(name) ?? [])
  const each = [index, ...others].map((bytes) => nestedEntries(bytes, hashBytes))
  const isNameless = others.length > 0 && each[0]?.includes('') === true
  if (isNameless) each.push(...others.map((other) => nestedEntries(other, hashBytes, true)))
  const found: string[] = []
  for (const paths of each) {
    if (paths === undefined) return undefined
    for (const path of paths) if (path !== '') found.push(path)
  }
  return [...new Set(found)]
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

/**
 * The configuration without what makes git run something, and the names of what is missing then. I1
 * `isTree`: whether this is where the files of the repository are; git would look for nested ones in any other place, too.
 */
export function harmlessPart(
  config: string,
  isTree: (path: string) => boolean = () => false,
): { readonly text: string; readonly removed: readonly string[] } {
  const settings = settingsIn(config)
  const isKept = (setting: Setting): boolean =>
    setting.isPlain &&
    (setting.section === 'core' && setting.key === 'worktree' ? isTree(setting.value) : isHarmless(setting))
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

/**
 * Where a `.git` file or a `commondir` leads: a path below the workspace, or undefined if that is elsewhere, or if only following it tells:
 * `..` after a name that may be a link, or bytes that are no text.
 */
export function pathInWorkspace(
  text: string,
  workspace: string,
  from: readonly string[],
): readonly string[] | undefined {
  const path = text.replace(/^gitdir: ?/, '').replace(/(?<![\r\n])[\r\n]+$/, '') // a run of them is read once, not from each of its characters
  if (path === '' || path.includes(NO_TEXT)) return undefined
  const parts = path.startsWith('/') ? [] : [...workspace.split('/'), ...from]
  let isNamed = false
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue
    if (part !== '..') isNamed = true
    else if (isNamed) return undefined
    if (part === '..') parts.pop()
    else parts.push(part)
  }
  const [whole, root] = [parts.filter(Boolean), workspace.split('/').filter(Boolean)]
  return root.every((part, i) => whole[i] === part) ? whole.slice(root.length) : undefined
}

// ---- details, in the order they are used above ----

/** With `isAll` the paths of all entries. */
function nestedEntries(index: Buffer, hashBytes: number, isAll = false): readonly string[] | undefined {
  if (index.length < 12 || index.toString('latin1', 0, 4) !== 'DIRC') return []
  const version = index.readUInt32BE(4)
  if (version < 2 || version > 4) return []
  const found = new Set<string>()
  let steps = STEPS_EXTRA + (STEPS_PER_ENTRY * index.length) / (42 + hashBytes)
  for (const { offset, count } of [{ offset: 12, count: index.readUInt32BE(8) }, ...blocksOf(index)]) {
    let [at, last] = [offset, Buffer.alloc(0)]
    for (let i = 0; i < count && at + 42 + hashBytes <= index.length; i += 1) {
      steps -= 1
      if (steps < 0) return undefined
      const flags = index.readUInt16BE(at + 40 + hashBytes)
      let name = at + 42 + hashBytes + ((flags & 0x4000) === 0 ? 0 : 2)
      const named = flags & 0xfff
      let kept = 0
      if (version === 4) {
        const { value, next } = varint(index, name)
        kept = Math.max(0, last.length - value)
        name = next
      }
      const end = named === 0xfff ? index.indexOf(0, name) : name + named - kept
      if (end < name) break
      if (version === 4) last = Buffer.concat([last.subarray(0, kept), index.subarray(name, end)])
      if (isAll || (index.readUInt32BE(at + 24) & 0o170_000) === 0o160_000) {
        const path = (version === 4 ? last : index.subarray(name, end)).toString('utf8')
        if (path.includes(NO_TEXT)) return undefined
        found.add(path)
      }
      at = version === 4 ? end + 1 : at + ((end + 8 - at) & ~7)
    }
  }
  return [...found]
}

/** Where threads of git start to read. Whatever looks like such a table counts: git finds it by another one at the end. */
function blocksOf(index: Buffer): readonly { readonly offset: number; readonly count: number }[] {
  return occurrences(index, 'IEOT').flatMap((at) => {
    const end = Math.min(at + 8 + index.readUInt32BE(at + 4), index.length - 7)
    const blocks: { offset: number; count: number }[] = []
    for (let entry = at + 12; entry < end && blocks.length < BLOCKS_MAX; entry += 8)
      blocks.push({ offset: index.readUInt32BE(entry), count: index.readUInt32BE(entry + 4) })
    return blocks
  })
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

/** The names in whatever looks like the extension `link`. */
const sharedIndexesOf = (index: Buffer, hashBytes: number): readonly string[] =>
  occurrences(index, 'link').map((at) => `sharedindex.${index.toString('hex', at + 8, at + 8 + hashBytes)}`)

function occurrences(index: Buffer, word: string): readonly number[] {
  const found: number[] = []
  for (let at = index.indexOf(word, 12, 'latin1'); at !== -1; at = index.indexOf(word, at + 1, 'latin1'))
    if (at + 12 <= index.length) found.push(at)
  return found
}

/** What bytes become that are no UTF-8. */
const NO_TEXT = '\uFFFD'
const BLOCKS_MAX = 1_000
const [STEPS_EXTRA, STEPS_PER_ENTRY] = [1_000, 3]

const SECTION = /^\s*\[([A-Za-z0-9-]+)(?:\s+"([^"\\\p{Cc}]*)")?\]\s*$/u
const SETTING = /^\s*([A-Za-z][A-Za-z0-9-]*)\s*=([^"\\#;\p{Cc}]*)$/u

/**
 * None of these names a program, a file with settings, or a protocol that runs one. Not sparse checkouts: an index of one has whole
 * folders as one entry, with nested repositories that only git's objects tell.
 */
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
