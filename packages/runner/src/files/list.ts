/** Lists files of a workspace by glob. Folders are opened by descriptor; links are listed, never followed. */
import { lstatSync, readdirSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { errorCode } from '@breakfall/faults/internal'
import { isoTime } from '../lib/clock.ts'
import type { WorkspaceAccess } from './workspace-files.ts'
import { type Glob, parseGlob } from './glob.ts'
import { openFolder, type OpenFolder, pathFault, pathParts } from './walk.ts'

export type FileEntry = {
  readonly path: string
  readonly kind: 'file' | 'folder' | 'link' | 'other'
  readonly bytes: number
  readonly modifiedAt: string
}

const ENTRIES_PER_TURN = 200
const ENTRIES_MAX = 200_000 // per call: a larger workspace needs a narrower glob

/** Sorted by path: at most `limit` files after `cursor`. */
export async function listFiles(
  at: WorkspaceAccess,
  glob: string,
  cursor: string | undefined,
  limit: number,
): Promise<{ readonly files: readonly FileEntry[]; readonly next?: string }> {
  const pattern = glob.startsWith(`${at.boxPath}/`) ? glob.slice(at.boxPath.length + 1) : glob
  pathParts(pattern, at.boxPath) // a pattern must not lead out of the workspace either
  const parsed = parseGlob(pattern)
  const found: FileEntry[] = []
  using root = openRoot(at)
  await walk({ root, glob: parsed, found, seen: 0 }, parsed.base)
  found.sort((a, b) => (a.path < b.path ? -1 : 1))
  const from = cursor === undefined ? 0 : found.findIndex((entry) => entry.path > cursor)
  const files = from === -1 ? [] : found.slice(from, from + limit)
  const last = files.at(-1)
  return last !== undefined && from + files.length < found.length ? { files, next: last.path } : { files }
}

// ---- details ----

/** A command at level process may have removed the workspace. */
function openRoot(at: WorkspaceAccess): OpenFolder {
  try {
    return at.open()
  } catch (error) {
    throw pathFault(error, at.boxPath, 'list')
  }
}

type Walk = { readonly root: OpenFolder; readonly glob: Glob; readonly found: FileEntry[]; seen: number }

async function walk(state: Walk, parts: readonly string[]): Promise<void> {
  const deeper: (readonly string[])[] = []
  try {
    using folder = openFolder(state.root.itself, parts)
    for (const entry of readdirSync(folder.itself, { withFileTypes: true })) {
      if ((state.seen += 1) > ENTRIES_MAX) return
      if (state.seen % ENTRIES_PER_TURN === 0) await nextTurn() // lets other requests run
      const path = [...parts, entry.name].join('/')
      if (entry.isDirectory() && state.glob.mayHold(parts.length + 1)) deeper.push([...parts, entry.name])
      if (!state.glob.matches(path)) continue
      const stat = lstatSync(folder.at(entry.name), { throwIfNoEntry: false })
      if (stat !== undefined)
        state.found.push({
          path,
          kind: kindOf(entry),
          bytes: stat.isFile() ? stat.size : 0,
          modifiedAt: isoTime(stat.mtimeMs),
        })
    }
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP' || code === 'EACCES') return // removed or replaced meanwhile
    throw pathFault(error, parts.join('/'), 'list')
  }
  await nextTurn()
  for (const next of deeper) await walk(state, next)
}

function kindOf(entry: { isFile(): boolean; isDirectory(): boolean; isSymbolicLink(): boolean }): FileEntry['kind'] {
  return entry.isFile() ? 'file' : entry.isDirectory() ? 'folder' : entry.isSymbolicLink() ? 'link' : 'other'
}
