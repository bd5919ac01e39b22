/** Page cursors: opaque and checked, so an invalid cursor is refused instead of returning an empty page. */
import { invalidRequest } from '@breakfall/wire/internal'

const MARK = 'after:'

export const cursorOf = (key: string): string => Buffer.from(MARK + key).toString('base64url')

/** Undefined if there is no cursor. The item it names may be gone: the page starts after its position. */
export function keyOfCursor(query: URLSearchParams): string | undefined {
  const cursor = query.get('cursor')
  if (cursor === null) return undefined
  const text = Buffer.from(cursor, 'base64url').toString()
  if (!text.startsWith(MARK) || cursorOf(text.slice(MARK.length)) !== cursor)
    throw invalidRequest([
      { field: 'cursor', expected: 'the "next" of an earlier page', got: JSON.stringify(cursor.slice(0, 50)) },
    ])
  return text.slice(MARK.length)
}
