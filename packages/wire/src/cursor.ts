/** A reader's position in a session's events: `JOURNAL-SEQ`, or a bare seq if the reader does not know the journal. */

export type Cursor = { readonly journal: string | null; readonly seq: number }

export function formatCursor(journal: string, seq: number): string {
  return `${journal}-${seq}`
}

/** Undefined if the text is not a cursor. */
export function parseCursor(value: string | number | undefined | null): Cursor | undefined {
  if (value === undefined || value === null || value === '') return { journal: null, seq: 0 }
  const match = /^(?:([A-Za-z0-9][A-Za-z0-9_-]*)-)?(\d{1,15})$/.exec(String(value).trim())
  if (match === null) return undefined
  return { journal: match[1] ?? null, seq: Number(match[2]) }
}

export type CursorVerdict = { readonly after: number; readonly reset: string | null }

/** Where the replay starts, and why it starts over if the cursor does not fit this journal. */
export function resumeFrom(cursor: Cursor, journal: string, lastSeq: number): CursorVerdict {
  if (cursor.journal !== null && cursor.journal !== journal) return { after: 0, reset: 'another_journal' }
  if (cursor.seq > lastSeq) return { after: 0, reset: 'beyond_the_head' }
  return { after: cursor.seq, reset: null }
}
