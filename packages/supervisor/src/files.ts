/** Files that are replaced all at once: a reader finds the old content or the new, never half of it. */
import { randomUUID } from 'node:crypto'
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

export type Replacing = {
  /** It survives a power cut: the file is synced before it takes its place, and its folder afterwards. */
  readonly isDurable?: boolean
  /** Several processes may replace it at once; the last one wins. */
  readonly isShared?: boolean
}

/** Only its owner can read the file. Throws if it cannot be written; the old content is there then, and nothing beside it. */
export function replaceFile(
  file: string,
  content: string | Uint8Array,
  { isDurable = false, isShared = false }: Replacing = {},
): void {
  const beside = isShared ? `${file}.${randomUUID()}` : `${file}.new`
  if (!isShared) rmSync(beside, { force: true }) // of a killed process, or a link that would lead the write elsewhere
  const fd = openSync(beside, 'wx', 0o600)
  try {
    try {
      writeFileSync(fd, content)
      if (isDurable) fsyncSync(fd)
    } finally {
      closeSync(fd)
    }
    renameSync(beside, file)
  } catch (error) {
    rmSync(beside, { force: true })
    throw error
  }
  if (isDurable) syncFolder(dirname(file))
}

function syncFolder(path: string): void {
  const fd = openSync(path, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
