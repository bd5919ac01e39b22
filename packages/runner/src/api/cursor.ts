/** Where a page ended, as callers see it: a text that only we make, so that one nobody gave out is told from an empty page. */
import { invalidRequest } from '@breakfall/wire'

const MARK = 'after:'

export const cursorOf = (key: string): string => Buffer.from(MARK + key).toString('base64url')

/** Undefined where none was given. What it named may be gone by now: the page goes on behind its place. */
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
