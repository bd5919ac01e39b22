/** Files of a workspace by glob, walked by descriptor; links are listed, never followed. */
import { lstatSync, readdirSync } from 'node:fs'
import { matchesGlob } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isoTime } from '../clock.ts'
import type { WorkspaceAt } from './workspace-files.ts'
import { openFolder, pathFault, pathParts } from './walk.ts'

export type FileEntry = {
  readonly path: string
  readonly kind: 'file' | 'folder' | 'link' | 'other'
  readonly bytes: number
  readonly modifiedAt: string
}

const ENTRIES_MAX = 200_000 // looked at in one call: a workspace with more needs a narrower glob

/** Sorted by path; those after `cursor`, at most `limit`. */
export async function listFiles(
  at: WorkspaceAt,
  glob: string,
  cursor: string | undefined,
  limit: number,
): Promise<{ readonly files: readonly FileEntry[]; readonly next?: string }> {
  const pattern = glob.startsWith(`${at.shown}/`) ? glob.slice(at.shown.length + 1) : glob
  const base = fixedParts(pathParts(pattern, at.shown))
  const found: FileEntry[] = []
  await walk({ at, pattern, found, seen: 0 }, base)
  found.sort((a, b) => (a.path < b.path ? -1 : 1))
  const from = cursor === undefined ? 0 : found.findIndex((entry) => entry.path > cursor)
  const files = from === -1 ? [] : found.slice(from, from + limit)
  const last = files.at(-1)
  return last !== undefined && from + files.length < found.length ? { files, next: last.path } : { files }
}

// ---- details ----

type Walk = { readonly at: WorkspaceAt; readonly pattern: string; readonly found: FileEntry[]; seen: number }

/** The part before the first wildcard need not be searched. */
function fixedParts(parts: readonly string[]): readonly string[] {
  const wild = parts.findIndex((part) => /[*?[{!(]/.test(part))
  return wild === -1 ? parts.slice(0, -1) : parts.slice(0, wild)
}

async function walk(state: Walk, parts: readonly string[]): Promise<void> {
  const deeper: (readonly string[])[] = []
  try {
    using folder = openFolder(state.at.root, parts)
    for (const entry of readdirSync(folder.itself, { withFileTypes: true })) {
      if ((state.seen += 1) > ENTRIES_MAX) return
      const path = [...parts, entry.name].join('/')
      if (entry.isDirectory() && mayHold(state.pattern, parts.length + 1)) deeper.push([...parts, entry.name])
      if (!matchesGlob(path, state.pattern)) continue
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
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP' || code === 'EACCES') return // gone, or turned into something else, while we walked
    throw pathFault(error, parts.join('/'))
  }
  await nextTurn()
  for (const next of deeper) await walk(state, next)
}

/** Whether something that deep can match: without `**` a pattern is as deep as it has parts. */
const mayHold = (pattern: string, depth: number): boolean =>
  pattern.includes('**') || pattern.includes('{') || pattern.split('/').length > depth

function kindOf(entry: { isFile(): boolean; isDirectory(): boolean; isSymbolicLink(): boolean }): FileEntry['kind'] {
  return entry.isFile() ? 'file' : entry.isDirectory() ? 'folder' : entry.isSymbolicLink() ? 'link' : 'other'
}
