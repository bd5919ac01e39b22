/**
 * The git store of a box's checkpoints, in the box's folder: outside the workspace, and independent of its repository.
 *
 * I1  The workspace and its `.git` are only read.
 * I2  The index is a cache: in whatever state a killed process leaves it, the next capture compares it with the files again.
 * I3  A checkpoint exists once its ref does, and the ref is written last.
 * I4  What the seed borrows from the workspace's repository is copied into the store; until then a box could damage it.
 */
import { createHash, randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { copyRegular, readRegular } from '../files/regular-file.ts'
import { numbersOf, openFolder, type OpenFolder } from '../files/walk.ts'
import { type CommandOptions, type CommandPlace, runInPlace } from './git-command.ts'
import {
  decodeManifest,
  encodeManifest,
  joinNul,
  type Manifest,
  parseRawDiff,
  shown,
  splitNul,
  type TreeChange,
  type TreePath,
} from './listing.ts'

export type Snapshot = { readonly tree: string; readonly manifest: Manifest; readonly manifestOid: string }

export class ShadowStore {
  readonly #git: string
  readonly #place: CommandPlace
  #isSeeded: boolean

  constructor(git: string, place: CommandPlace) {
    this.#git = git
    this.#place = place
    this.#isSeeded = existsSync(this.#file('seeded'))
  }

  /** Whether objects of the workspace's repository are still needed. */
  get isSeeded(): boolean {
    return this.#isSeeded
  }

  get hasIndex(): boolean {
    return existsSync(this.#file('index'))
  }

  /** Makes the store if there is none, and removes what a killed process left. */
  async prepare(signal: AbortSignal): Promise<void> {
    rmSync(this.#file('index.lock'), { force: true }) // I2: one process at a time uses this store
    if (!existsSync(this.#file('HEAD'))) {
      for (const folder of ['objects', 'refs', 'info']) mkdirSync(this.#file(folder), { recursive: true, mode: 0o700 })
      writeFileSync(this.#file('config'), CONFIG)
      writeFileSync(this.#file('info/attributes'), ATTRIBUTES)
      writeFileSync(this.#file('HEAD'), 'ref: refs/heads/none\n')
      if (!this.hasIndex) await this.#seed(signal)
    }
    writeFileSync(this.#file('info/exclude'), EXCLUDED + this.#ownExcludes())
  }

  /** Starts over with an empty index: the seed was of no use, or the index is damaged. */
  forgetIndex(): void {
    rmSync(this.#file('index'), { force: true })
    this.#unseed()
  }

  git(args: readonly string[], options: Omit<CommandOptions, 'isSeeded'>): Promise<Buffer> {
    return this.run([this.#git, ...args], options)
  }

  /** Several commands in one sandbox; resolves with the output of each. A line is a command of git, without the word. */
  async gitAll(lines: readonly string[], options: Omit<CommandOptions, 'isSeeded'>): Promise<readonly Buffer[]> {
    const mark = randomUUID() // no file can have it in its name
    const script = lines.map((line) => `"$1" ${line}`).join(`; printf %s ${mark}; `)
    const output = await this.run(['/bin/sh', '-ec', script, 'sh', this.#git], options)
    const parts: Buffer[] = []
    for (let from = 0; ;) {
      const to = output.indexOf(mark, from)
      parts.push(output.subarray(from, to === -1 ? output.length : to))
      if (to === -1) return parts
      from = to + mark.length
    }
  }

  run(command: readonly string[], options: Omit<CommandOptions, 'isSeeded'>): Promise<Buffer> {
    return runInPlace(this.#place, command, { ...options, isSeeded: this.#isSeeded })
  }

  /** Adds these paths to the index and removes those, in steps: an interrupted capture keeps what it has done. */
  async update(added: readonly TreePath[], removed: readonly TreePath[], signal: AbortSignal): Promise<void> {
    if (removed.length > 0)
      await this.git(['update-index', '--force-remove', '-z', '--stdin'], { input: joinNul(removed), signal })
    for (let from = 0; from < added.length; from += PATHS_AT_ONCE)
      await this.git(['update-index', '--add', '--remove', '--replace', '-z', '--stdin'], {
        input: joinNul(added.slice(from, from + PATHS_AT_ONCE)),
        signal,
      })
  }

  async write(manifest: Manifest, signal: AbortSignal): Promise<Snapshot> {
    const lines = ['write-tree', 'hash-object -w --no-filters --stdin']
    const [tree, oid] = await this.gitAll(lines, { input: encodeManifest(manifest), signal })
    return { tree: textOf(tree), manifest, manifestOid: textOf(oid) }
  }

  /** I3: the ref comes last. */
  async keep(id: string, { tree, manifestOid }: Snapshot, signal: AbortSignal): Promise<void> {
    const input = joinNul([`040000 tree ${tree}\tfiles`, `100644 blob ${manifestOid}\tmanifest`])
    await this.gitAll([`update-ref ${REFS}/${id} "$("$1" mktree -z)"`], { input, signal })
  }

  async load(id: string, signal: AbortSignal): Promise<Snapshot> {
    const ref = `${REFS}/${id}`
    const lines = [`rev-parse ${ref}:files ${ref}:manifest`, `cat-file blob ${ref}:manifest`]
    const [names, bytes = EMPTY] = await this.gitAll(lines, { signal })
    const [tree = '', manifestOid = ''] = textOf(names).split('\n')
    return { tree, manifest: decodeManifest(bytes), manifestOid }
  }

  async changes(from: Snapshot, to: Snapshot, signal: AbortSignal): Promise<TreeChange[]> {
    return parseRawDiff(await this.git([...DIFF_TREE, '--raw', '-z', from.tree, to.tree], { signal }))
  }

  /** Which of these files and folders a state holds. */
  async held({ tree }: Snapshot, names: readonly string[], signal: AbortSignal): Promise<readonly string[]> {
    const found: string[] = []
    for (let from = 0; from < names.length; from += NAMES_AT_ONCE) {
      const some = names.slice(from, from + NAMES_AT_ONCE)
      const listed = await this.git(['ls-tree', '-z', '--full-tree', '--name-only', tree, '--', ...some], { signal })
      found.push(...splitNul(listed).map(shown))
    }
    return found
  }

  /** As text, for people. */
  textDiff(from: Snapshot, to: Snapshot, signal: AbortSignal): Promise<Buffer> {
    return this.git([...DIFF_TREE, '-p', '--no-ext-diff', '--no-textconv', '--no-color', from.tree, to.tree], {
      signal,
    })
  }

  /** Each object's bytes, checked against its name: a damaged object is not restored. */
  async blobs(oids: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, Buffer>> {
    const input = Buffer.from(oids.map((oid) => `${oid}\n`).join(''))
    const output = await this.git(['cat-file', '--batch'], { input, signal })
    const found = new Map<string, Buffer>()
    let at = 0
    for (const oid of oids) {
      const end = output.indexOf(10, at)
      const [name, type, size = ''] = output.toString('latin1', at, end).split(' ')
      if (name !== oid || type !== 'blob') throw new Error(`object ${oid} is missing from the store`)
      const bytes = output.subarray(end + 1, end + 1 + Number(size))
      const actual = createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex')
      if (actual !== oid) throw new Error(`object ${oid} is damaged`)
      found.set(oid, bytes)
      at = end + 1 + Number(size) + 1
    }
    return found
  }

  async sizes(oids: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, number>> {
    if (oids.length === 0) return new Map()
    const input = Buffer.from(oids.map((oid) => `${oid}\n`).join(''))
    const output = textOf(await this.git(['cat-file', '--batch-check=%(objectname) %(objectsize)'], { input, signal }))
    return new Map(
      output.split('\n').map((line) => {
        const [oid = '', size = ''] = line.split(' ')
        return [oid, Number(size)] as const
      }),
    )
  }

  async drop(ids: readonly string[], signal: AbortSignal): Promise<void> {
    const input = Buffer.from(ids.map((id) => `delete ${REFS}/${id}\0\0`).join(''))
    await this.git(['update-ref', '-z', '--stdin'], { input, signal })
  }

  /** Removes all but these: a killed process may have left some that no list names. */
  async keepOnly(ids: readonly string[], signal: AbortSignal): Promise<void> {
    const refs = textOf(await this.git(['for-each-ref', '--format=%(refname:lstrip=2)', REFS], { signal }))
    const others = refs.split('\n').filter((id) => id !== '' && !ids.includes(id))
    if (others.length > 0) await this.drop(others, signal)
  }

  /** Deletes objects that no checkpoint needs. */
  async prune(signal: AbortSignal): Promise<void> {
    await this.gitAll(['repack -a -d -q', 'prune --expire=now'], { signal })
  }

  /** Loose objects and bytes on disk. */
  async size(signal: AbortSignal): Promise<{ readonly loose: number; readonly bytes: number }> {
    const text = textOf(await this.git(['count-objects', '-v'], { signal }))
    const value = (name: string): number => Number(new RegExp(`^${name}: (\\d+)$`, 'm').exec(text)?.[1] ?? 0)
    return { loose: value('count'), bytes: (value('size') + value('size-pack') + value('size-garbage')) * 1024 }
  }

  /** I4: nothing stays borrowed. */
  async settle(signal: AbortSignal): Promise<void> {
    if (!this.#isSeeded) return
    await this.git(['repack', '-a', '-q'], { signal })
    this.#unseed()
  }

  // ---- details, in the order they are used above ----

  #file(name: string): string {
    return join(this.#place.store, name)
  }

  #unseed(): void {
    this.#isSeeded = false
    rmSync(this.#file('seeded'), { force: true })
  }

  /** Starts from a copy of the repository's index: what git has already hashed is not hashed again. */
  async #seed(signal: AbortSignal): Promise<void> {
    try {
      using own = this.#openOwn()
      openFolder(own.itself, ['objects'])[Symbol.dispose]() // a folder, and no link
      const config = readRegular(own.at('config'))?.toString('latin1')
      if (config === undefined || /objectformat/i.test(config)) return
      const index = copyRegular(own.at('index'), this.#file('index'), INDEX_BYTES_MAX)
      if (index === undefined) return
      // Git compares files again that changed in the second in which the index was written, or later.
      utimesSync(this.#file('index'), index.atime, Math.floor(index.mtimeMs / 1000) - 1)
      writeFileSync(this.#file('seeded'), '')
      this.#isSeeded = true
      await this.#cleanSeed(signal)
      await this.git(['write-tree'], { signal }) // every object must be there
    } catch {
      signal.throwIfAborted()
      this.forgetIndex() // a split or sparse index, or a partial clone: the first capture reads every file instead
    }
  }

  /** Removes what a repository's index may say but a checkpoint's must not: links, conflicts, files that git must not look at. */
  async #cleanSeed(signal: AbortSignal): Promise<void> {
    const [stages = EMPTY, flags = EMPTY] = await this.gitAll(['ls-files -z --stage', 'ls-files -z -v'], { signal })
    const odd = splitNul(stages).filter((line) => line.startsWith('160000') || !/^\d+ \w+ 0\t/.test(line))
    const flagged = splitNul(flags).filter((line) => !line.startsWith('H '))
    const removed = [...odd.map((line) => line.slice(line.indexOf('\t') + 1)), ...flagged.map((line) => line.slice(2))]
    if (removed.length > 0)
      await this.git(['update-index', '--force-remove', '-z', '--stdin'], {
        input: joinNul([...new Set(removed)]),
        signal,
      })
  }

  /** The workspace's `.git`, if it is a folder. Throws if not. A command may run meanwhile, so all of it is read by descriptor. */
  #openOwn(): OpenFolder {
    const workspace = openFolder(this.#place.workspace, [])
    if (numbersOf(workspace.fd) === this.#place.numbers) return openFolder(workspace, ['.git'])
    workspace[Symbol.dispose]()
    throw new Error('the workspace is another folder now')
  }

  /** Of the workspace's repository. */
  #ownExcludes(): string {
    try {
      using info = openFolder(this.#openOwn(), ['info'])
      return readRegular(info.at('exclude'), EXCLUDE_BYTES_MAX)?.toString('latin1') ?? ''
    } catch {
      return '' // no repository, or no exclude file in it
    }
  }
}

const EMPTY = Buffer.alloc(0)
const REFS = 'refs/checkpoints'
const NAMES_AT_ONCE = 200 // a command line of at most a megabyte
const PATHS_AT_ONCE = 2_000
const INDEX_BYTES_MAX = 256 * 1024 * 1024
const EXCLUDE_BYTES_MAX = 64 * 1024
const DIFF_TREE = ['diff-tree', '-r', '--no-renames', '--ignore-submodules=all'] as const

const textOf = (bytes: Buffer | undefined): string => (bytes ?? EMPTY).toString('latin1').trimEnd()

/** Our files in the workspace, and folders that people do not edit by hand; a `.gitignore` can override this. */
const EXCLUDED = `.breakfall-????????-????-????-????-????????????
node_modules/
.venv/
__pycache__/
`

/** Highest precedence: bytes are stored and compared as they are, whatever the workspace's attributes say. */
const ATTRIBUTES = '* -text -eol -crlf -ident -filter -working-tree-encoding -export-subst\n'

const CONFIG = `[core]
	repositoryformatversion = 0
	bare = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	precomposeUnicode = false
	protectHFS = false
	protectNTFS = false
	autocrlf = false
	safecrlf = false
	trustctime = true
	checkStat = default
	compression = 0
	looseCompression = 0
	hooksPath = /dev/null
	attributesFile = /dev/null
	excludesFile = /dev/null
	fsmonitor = false
	untrackedCache = false
	logAllRefUpdates = false
	fsync = all
	fsyncMethod = batch
[gc]
	auto = 0
[maintenance]
	auto = false
[pack]
	window = 0
	threads = 1
	compression = 0
[index]
	threads = 1
[diff]
	ignoreSubmodules = all
	renames = false
[submodule]
	recurse = false
`
