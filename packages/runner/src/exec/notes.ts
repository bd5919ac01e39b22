/** Diagnostics about a running exec, kept in its folder: its end reports them even if another runner writes the end. */
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Diagnostic } from '@breakfall/faults'
import { diagnosticSchema } from '@breakfall/wire'
import { EXEC_FILES } from './folder.ts'

export function keepNote(folder: string, diagnostic: Diagnostic): void {
  try {
    appendFileSync(join(folder, EXEC_FILES.notes), `${JSON.stringify(diagnostic)}\n`, { mode: 0o600 })
  } catch {
    // The disk is full: only a restart before the end of the exec would miss this.
  }
}

export function readNotes(folder: string): readonly Diagnostic[] {
  const file = join(folder, EXEC_FILES.notes)
  if (!existsSync(file)) return []
  const notes = readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line) => {
      try {
        return [diagnosticSchema.parse(JSON.parse(line))]
      } catch {
        return [] // cut off by a crash
      }
    })
  return [...new Map(notes.map((note) => [note.id, note])).values()] // a later one names more
}
