/**
 * Checks before anything starts whether a command can run: its folder, its program, its interpreter, its length, all as
 * the box will see them. What changes between this check and the start is detected by the start itself.
 */
import { closeSync, constants, openSync, readlinkSync, readSync, realpathSync, type Stats, statSync } from 'node:fs'
import { posix } from 'node:path'
import { Fault, isFault } from '@breakfall/faults'
import { SPAWN_FAILURES, type SpawnFailure } from '@breakfall/wire'
import { type BoxView, hostPathOf, isDevice, isOwnFolder } from './mount-layout.ts'
import { statOf } from '../lib/paths.ts'

export type Lookup = {
  readonly command: readonly string[]
  /** Absolute, as the box sees it. */
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
}

/** Throws `spawn_failed` (422) with its reason. */
export function checkRunnable(view: BoxView, lookup: Lookup): void {
  checkFolder(view, lookup)
  checkProgram(view, lookup)
  checkLength(view, lookup)
}

/** The same as a value; undefined if nothing is wrong. */
export function whyNotRunnable(view: BoxView, lookup: Lookup): SpawnFailure | undefined {
  try {
    checkRunnable(view, lookup)
    return undefined
  } catch (error) {
    if (isFault(error)) return SPAWN_FAILURES.find((reason) => reason === error.report.reason)
    throw error
  }
}

export type Found =
  | { readonly kind: 'found'; readonly path: string; readonly host: string; readonly stat: Stats }
  | { readonly kind: 'folder'; readonly path: string }
  | { readonly kind: 'device'; readonly path: string }
  | { readonly kind: 'missing' }

/** Follows links as the box would. Bounded, like the kernel's lookup. */
export function lookUp(view: BoxView, path: string): Found {
  if (view.isHost) return onHost(path)
  let rest = path.split('/').filter((part) => part !== '')
  let at = '/'
  for (let steps = 0; steps < STEPS_MAX; steps += 1) {
    const [part, ...after] = rest
    if (part === undefined) return end(view, at)
    rest = after
    if (part === '.') continue
    if (part === '..') {
      at = posix.dirname(at)
      continue
    }
    const next = posix.join(at, part)
    const target = view.links.get(next) ?? linkTarget(view, next)
    if (target === undefined) {
      at = next
      continue
    }
    if (target.startsWith('/')) at = '/'
    rest = [...target.split('/').filter((name) => name !== ''), ...rest]
  }
  return { kind: 'missing' } // a loop of links
}

// ---- details, in the order they are used above ----

const STEPS_MAX = 512
const ARGUMENT_BYTES_MAX = 128 * 1024 // MAX_ARG_STRLEN of Linux, with its NUL
const SANDBOX_ARGUMENTS_MAX = 8_000 // bubblewrap accepts 9,000, counting options and values; our own options take a few hundred
const ALL_BYTES_MAX = 1536 * 1024 // below the kernel's limit, a quarter of an 8 MiB stack, with room for our own

/** Without a sandbox the kernel resolves the path. */
function onHost(path: string): Found {
  try {
    const stat = statSync(path, { throwIfNoEntry: false })
    return stat === undefined ? { kind: 'missing' } : { kind: 'found', path, host: realpathSync.native(path), stat }
  } catch {
    return { kind: 'missing' } // something on the way is not a folder or not accessible, or there is a loop of links
  }
}

function checkFolder(view: BoxView, { cwd, command }: Lookup): void {
  const found = lookUp(view, cwd)
  const name = command[0] ?? ''
  if (found.kind === 'missing') throw failure('cwd_missing', name, `the box has no folder ${cwd}`)
  if (found.kind === 'device' || (found.kind === 'found' && !found.stat.isDirectory()))
    throw failure('cwd_not_directory', name, `${cwd} is not a folder`)
}

function checkProgram(view: BoxView, lookup: Lookup): void {
  const name = lookup.command[0] ?? ''
  const candidates = name.includes('/')
    ? [posix.resolve(lookup.cwd, name)]
    : (lookup.environment['PATH'] ?? '').split(':').map((folder) => posix.join(posix.resolve(lookup.cwd, folder), name))
  let refused: string | undefined
  for (const path of candidates) {
    const found = lookUp(view, path)
    if (found.kind === 'missing') continue
    if (found.kind !== 'found' || !found.stat.isFile() || (found.stat.mode & 0o111) === 0) {
      refused ??= path
      continue
    }
    checkInterpreter(view, name, found.host, lookup.cwd)
    return
  }
  if (refused !== undefined) throw failure('not_executable', name, `${refused} is not an executable file`)
  throw failure('not_found', name, `the box has no program ${name.slice(0, 200)}`)
}

function checkInterpreter(view: BoxView, name: string, host: string, cwd: string): void {
  const first = firstBytes(host)
  if (first === undefined || !first.startsWith('#!')) return
  const interpreter = /^#![ \t]*([^ \t\n]+)/.exec(first)?.[1]
  if (interpreter === undefined)
    throw failure('bad_interpreter', name, `${name} starts with #! but names no interpreter`)
  const found = lookUp(view, posix.resolve(cwd, interpreter))
  if (found.kind !== 'found' || !found.stat.isFile() || (found.stat.mode & 0o111) === 0)
    throw failure(
      'bad_interpreter',
      name,
      `${name} needs the interpreter ${interpreter}, which is not a program in the box`,
    )
}

function checkLength(view: BoxView, lookup: Lookup): void {
  const sizes = [
    ...lookup.command.map((argument) => Buffer.byteLength(argument) + 1),
    ...Object.entries(lookup.environment).map(([key, value]) => Buffer.byteLength(key) + Buffer.byteLength(value) + 2),
  ]
  const total = sizes.reduce((sum, size) => sum + size + 8, 0)
  const name = lookup.command[0] ?? ''
  if (sizes.some((size) => size > ARGUMENT_BYTES_MAX) || total > ALL_BYTES_MAX)
    throw failure(
      'argument_too_long',
      name,
      `one argument may have at most ${ARGUMENT_BYTES_MAX} bytes, all of them together ${ALL_BYTES_MAX}; put the text into a file or send it as input`,
    )
  const argumentCount = lookup.command.length + 3 * Object.keys(lookup.environment).length
  if (!view.isHost && argumentCount > SANDBOX_ARGUMENTS_MAX)
    throw failure(
      'argument_too_long',
      name,
      `in a sandbox a command may have at most ${SANDBOX_ARGUMENTS_MAX} arguments, and each environment variable counts as three; put them into a file or send them as input`,
    )
}

function failure(reason: SpawnFailure, name: string, detail: string): Fault {
  return new Fault('spawn_failed', { facts: { name: name.slice(0, 200), detail }, errorRaw: detail, reason })
}

function end(view: BoxView, path: string): Found {
  const host = hostPathOf(view, path)
  const stat = host === undefined ? undefined : statOf(host)
  if (host !== undefined && stat !== undefined) return { kind: 'found', path, host, stat }
  if (isOwnFolder(view, path)) return { kind: 'folder', path }
  return isDevice(view, path) ? { kind: 'device', path } : { kind: 'missing' }
}

function linkTarget(view: BoxView, path: string): string | undefined {
  const host = hostPathOf(view, path)
  if (host === undefined || statOf(host)?.isSymbolicLink() !== true) return undefined
  try {
    return readlinkSync(host)
  } catch {
    return undefined // it was replaced between the two checks
  }
}

function firstBytes(host: string): string | undefined {
  let fd: number
  try {
    // The box may replace the file by a FIFO meanwhile: opening it must never block.
    fd = openSync(host, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  } catch {
    return undefined // a program may be executable but not readable
  }
  try {
    const bytes = Buffer.alloc(256)
    return bytes.toString('latin1', 0, readSync(fd, bytes, 0, bytes.length, 0))
  } finally {
    closeSync(fd)
  }
}
