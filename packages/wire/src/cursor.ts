/** Where a reader of a session's events is: `JOURNAL-SEQ`, or a bare seq from somebody who knows no journal. */

export type Cursor = { readonly journal: string | null; readonly seq: number }

export function formatCursor(journal: string, seq: number): string {
  return `${journal}-${seq}`
}

/** undefined where the text is no cursor at all. */
export function parseCursor(value: string | number | undefined | null): Cursor | undefined {
  if (value === undefined || value === null || value === '') return { journal: null, seq: 0 }
  const match = /^(?:([A-Za-z0-9][A-Za-z0-9_-]*)-)?(\d{1,15})$/.exec(String(value).trim())
  if (match === null) return undefined
  return { journal: match[1] ?? null, seq: Number(match[2]) }
}

export type CursorVerdict = { readonly after: number; readonly reset: string | null }

/** From where to replay, and why from the start where the cursor does not fit this journal. */
export function resumeFrom(cursor: Cursor, journal: string, lastSeq: number): CursorVerdict {
  if (cursor.journal !== null && cursor.journal !== journal) return { after: 0, reset: 'another_journal' }
  if (cursor.seq > lastSeq) return { after: 0, reset: 'beyond_the_head' }
  return { after: cursor.seq, reset: null }
}
