/** Takes a snapshot of the workspace into the store: what changed since the last one is hashed, the rest is known. */
import { Fault } from '@breakfall/faults'
import {
  findCommand,
  type FoundEntry,
  manifestOf,
  parseFound,
  parseRawDiff,
  shown,
  splitNul,
  type TreePath,
  withinAny,
} from './listing.ts'
import { GitError } from './git-command.ts'
import type { ShadowStore, Snapshot } from './shadow-store.ts'

export type LeftOut = { readonly path: string; readonly because: string }

export type Captured = Snapshot & {
  readonly files: number
  readonly bytes: number
  readonly left: readonly LeftOut[]
}

export type CaptureLimits = {
  readonly filesMax: number
  readonly fileBytesMax: number
  /** Of new content in one capture. */
  readonly bytesMax: number
}

export async function capture(store: ShadowStore, limits: CaptureLimits, signal: AbortSignal): Promise<Captured> {
  for (let attempt = 1; ; attempt++) {
    try {
      await store.prepare(signal)
      return await captureOnce(store, limits, signal)
    } catch (error) {
      signal.throwIfAborted()
      if (attempt === ATTEMPTS && error instanceof GitError && error.isMoving) throw busy(error)
      if (error instanceof Fault || attempt === ATTEMPTS) throw error
      // A command changed files while git read them, or the index is damaged. The last attempt trusts nothing.
      if (attempt === ATTEMPTS - 1) store.forgetIndex()
    }
  }
}

// ---- details ----

const NONE = Buffer.alloc(0)
const ATTEMPTS = 3
const LEFT_MAX = 50 // a box may have a thousand checkpoints
const PRUNED_MAX = 100

async function captureOnce(store: ShadowStore, limits: CaptureLimits, signal: AbortSignal): Promise<Captured> {
  const [ignoredBytes = NONE, untrackedBytes = NONE, dirtyBytes = NONE] = await store.gitAll(
    [
      'ls-files -z --others --exclude-standard --ignored --directory',
      'ls-files -z --others --exclude-standard',
      'diff-files --raw -z --no-renames --ignore-submodules=all',
    ],
    { signal },
  )
  const ignored = splitNul(ignoredBytes)
  const prunable = ignored.filter((path) => path.endsWith('/') && /^[\x20-\x7E]+$/.test(path)).slice(0, PRUNED_MAX)
  const find = findCommand(prunable.map((path) => path.slice(0, -1)))
  const found = parseFound(await store.run(find, { signal, accepts: 1 })) // 1: a folder that it may not enter
  const untracked = splitNul(untrackedBytes)
  const nested = untracked.filter((path) => path.endsWith('/'))
  const excluded = exclusions(found, limits)
  const dirty = parseRawDiff(dirtyBytes)
  const added = [
    ...untracked.filter((path) => !path.endsWith('/')),
    ...dirty.filter(({ to }) => to !== null).map(({ path }) => path),
  ].filter((path) => !excluded.has(path))
  const removed = [
    ...dirty.filter(({ to }) => to === null).map(({ path }) => path),
    ...dirty.filter(({ path }) => excluded.has(path)).map(({ path }) => path),
  ]
  requireBudget(found, new Set(added), limits)
  await store.update(added, removed, signal)
  const listed = splitNul(await store.git(['ls-files', '-z'], { signal }))
  const tracked = listed.filter((path) => !excluded.has(path))
  if (tracked.length < listed.length) {
    const seeded = listed.filter((path) => excluded.has(path))
    await store.update([], seeded, signal)
  }
  if (tracked.length > limits.filesMax) throw tooMuch(`at most ${limits.filesMax} files in a checkpoint`)
  const snapshot = await store.write(manifestOf(found, [...nested, ...excluded.keys(), ...ignored]), signal)
  const isTracked = new Set(tracked)
  return {
    ...snapshot,
    files: tracked.length,
    bytes: found.reduce((sum, { path, bytes }) => (isTracked.has(path) ? sum + bytes : sum), 0),
    left: leftOut(ignored, nested, excluded, isTracked),
  }
}

/** Files that no checkpoint holds, with the reason. */
function exclusions(found: readonly FoundEntry[], { fileBytesMax }: CaptureLimits): ReadonlyMap<TreePath, string> {
  const excluded = new Map<TreePath, string>()
  for (const { path, kind, bytes, isReadable } of found) {
    if (kind === 'special') excluded.set(path, 'not a regular file')
    else if (kind === 'file' && bytes > fileBytesMax) excluded.set(path, `larger than ${fileBytesMax} bytes`)
    else if (kind === 'file' && !isReadable) excluded.set(path, 'not readable')
  }
  return excluded
}

function requireBudget(found: readonly FoundEntry[], added: ReadonlySet<TreePath>, limits: CaptureLimits): void {
  if (added.size > limits.filesMax) throw tooMuch(`at most ${limits.filesMax} files in a checkpoint`)
  let bytes = 0
  for (const entry of found) if (entry.kind === 'file' && added.has(entry.path)) bytes += entry.bytes
  if (bytes > limits.bytesMax) throw tooMuch(`at most ${limits.bytesMax} bytes of checkpoints in a box`)
}

const busy = (cause: GitError): Fault =>
  new Fault('workspace_busy', {
    cause,
    facts: { detail: 'a program changes files while they are read' },
    message: { advice: 'Wait until it has ended, or end it, and try again.' },
  })

const tooMuch = (limit: string): Fault =>
  new Fault('quota_exceeded', {
    facts: { limit },
    message: { advice: 'Let .gitignore leave out folders that need no undo.' },
  })

function leftOut(
  ignored: readonly TreePath[],
  nested: readonly TreePath[],
  excluded: ReadonlyMap<TreePath, string>,
  isTracked: ReadonlySet<TreePath>,
): readonly LeftOut[] {
  const isIgnored = withinAny(ignored)
  const all: LeftOut[] = [
    ...nested.map((path) => ({ path: shown(path.slice(0, -1)), because: 'a nested repository' })),
    ...[...excluded]
      .filter(([path]) => !isTracked.has(path) && !isIgnored(path))
      .map(([path, because]) => ({ path: shown(path), because })),
    ...ignored.map((path) => ({ path: shown(path), because: 'ignored' })),
  ]
  return all.slice(0, LEFT_MAX)
}
