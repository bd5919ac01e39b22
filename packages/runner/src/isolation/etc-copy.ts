/**
 * A copy of what boxes see of /etc: one mount instead of two dozen, and bubblewrap makes each mount more slowly than the one
 * before. Files that change while the machine runs (`resolv.conf`, `hosts`) are mounted themselves.
 *
 * I1  A copy is never changed, because sandboxes have it mounted. A change of /etc makes another one.
 * I2  Without a copy (a full disk, a huge /etc) the files themselves are mounted, one by one.
 */
import { createHash } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { errorCode } from '@breakfall/faults/internal'

const BYTES_MAX = 32 * 1024 * 1024
const COPIES_MAX = 16
const LOOK_MS = 1_000 // two dozen files are looked at once a second at most

/** Mounted over the copy: each box's own file, or the machine's current one. */
const PLACES = ['passwd', 'group', 'resolv.conf', 'hosts']
const VOLATILE: ReadonlySet<string> = new Set(['/etc/resolv.conf', '/etc/hosts'])

export type BoxEtc = {
  /** The copy; undefined: `files` are mounted themselves. */
  readonly folder: string | undefined
  readonly files: readonly string[]
}

export type EtcPlan = {
  readonly stateDir: string
  /** Paths of /etc that boxes may see. */
  readonly files: readonly string[]
  /** How long to wait after the start: a short-lived runner needs no copy. */
  readonly afterMs: number
  readonly nowMs: () => number
}

export class EtcCopy {
  readonly #plan: EtcPlan
  readonly #root: string
  readonly #each: BoxEtc
  #known: { readonly stamp: string; etc: BoxEtc } | undefined
  #lookedAtMs = Number.NEGATIVE_INFINITY
  /** Resolves when no copy is being made. */
  copied: Promise<void> = Promise.resolve()
  #isCopying = false
  #isClosed = false

  constructor(plan: EtcPlan) {
    this.#plan = plan
    this.#root = join(plan.stateDir, 'etc')
    this.#each = { folder: undefined, files: plan.files }
  }

  get current(): BoxEtc {
    const { files, nowMs } = this.#plan
    if (this.#known !== undefined && nowMs() - this.#lookedAtMs < LOOK_MS) return this.#known.etc
    this.#lookedAtMs = nowMs()
    const lasting = files.filter((path) => !VOLATILE.has(path))
    const stamp = lasting.map(stampOf).join('\n')
    if (this.#known?.stamp === stamp) return this.#known.etc
    const folder = join(this.#root, createHash('sha256').update(stamp).digest('hex').slice(0, 16))
    const copy = { folder, files: files.filter((path) => VOLATILE.has(path)) }
    const known = { stamp, etc: existsSync(folder) ? copy : this.#each }
    this.#known = known
    if (known.etc === this.#each)
      this.copied = this.#copy(folder, lasting).then((isMade) => {
        if (isMade) known.etc = copy
      })
    return known.etc
  }

  /** Resolves when nothing is written any more: the state folder belongs to the next runner, or is about to be removed. */
  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#isCopying) await this.copied
  }

  /** I2 */
  async #copy(folder: string, files: readonly string[]): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<void>()
    setTimeout(resolve, this.#plan.afterMs).unref()
    await promise
    if (this.#isClosed) return false
    this.#isCopying = true
    try {
      await copyAll(this.#root, folder, files)
      await removeOldest(this.#root, folder)
      return true
    } catch {
      return false // the disk is full, /etc is huge, or the state folder is gone
    } finally {
      this.#isCopying = false
    }
  }
}

// ---- details, in the order they are used above ----

function stampOf(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false })
  return found === undefined ? `${path} -` : `${path} ${found.dev}:${found.ino} ${found.size} ${found.mtimeMs}`
}

async function copyAll(root: string, folder: string, files: readonly string[]): Promise<void> {
  await mkdir(root, { recursive: true, mode: 0o700 })
  const making = await mkdtemp(join(root, 'new-'))
  try {
    await chmod(making, 0o755)
    const budget = { bytes: BYTES_MAX }
    for (const path of files) {
      const to = join(making, path.slice('/etc/'.length))
      await makeFolders(making, dirname(to))
      await copy(path, to, budget)
    }
    for (const name of PLACES)
      if (!existsSync(join(making, name))) await writeFile(join(making, name), '', { mode: 0o644 })
    await rename(making, folder) // I1: a copy never changes
  } catch (error) {
    await rm(making, { recursive: true, force: true })
    throw error
  }
}

async function makeFolders(root: string, folder: string): Promise<void> {
  if (folder === root || existsSync(folder)) return
  await makeFolders(root, dirname(folder))
  await mkdir(folder)
  await chmod(folder, 0o755)
}

/** The path itself may be a link, and is followed; links below it stay links. */
async function copy(from: string, to: string, budget: { bytes: number }): Promise<void> {
  const found = statSync(from, { throwIfNoEntry: false })
  if (found?.isFile() === true) {
    budget.bytes -= found.size
    if (budget.bytes < 0) throw new Error('/etc is too large to copy')
    try {
      await copyFile(from, to)
      await chmod(to, found.mode & 0o755)
    } catch (error) {
      if (errorCode(error) !== 'EACCES') throw error
      // Not readable for this user, and so neither for its boxes.
    }
  }
  if (found?.isDirectory() !== true) return
  await mkdir(to)
  await chmod(to, 0o755)
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isSymbolicLink()) await symlink(await readlink(source), target)
    else await copy(source, target, budget)
  }
}

/** Only a sandbox that has been running for that many changes of /etc notices. */
async function removeOldest(root: string, newest: string): Promise<void> {
  const paths = (await readdir(root)).map((name) => join(root, name)).filter((path) => path !== newest)
  const aged = await Promise.all(paths.map(async (path) => ({ path, ms: (await stat(path)).mtimeMs })))
  for (const { path } of aged.toSorted((a, b) => b.ms - a.ms).slice(COPIES_MAX - 1))
    await rm(path, { recursive: true, force: true })
}
