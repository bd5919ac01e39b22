/** Numbers and pages in a query. Page cursors are opaque and checked, so an invalid cursor is refused instead of returning an empty page. */
import { invalidRequest } from '@breakfall/wire/internal'

/** A number in the query, or its default. */
export function queryNumber(
  query: URLSearchParams,
  name: string,
  range: { readonly min: number; readonly max: number; readonly byDefault: number },
): number {
  const text = query.get(name)
  if (text === null) return range.byDefault
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (!(value >= range.min && value <= range.max))
    throw invalidRequest([
      { field: name, expected: `an integer from ${range.min} to ${range.max}`, got: JSON.stringify(text.slice(0, 50)) },
    ])
  return value
}

/** One page of a sorted list, and the cursor of the next. */
export function page<T>(
  items: readonly T[],
  keyOf: (item: T) => string,
  query: URLSearchParams,
  max: number,
): { readonly items: readonly T[]; readonly next?: string } {
  const limit = queryNumber(query, 'limit', { min: 1, max, byDefault: max })
  const after = keyOfCursor(query)
  const from = after === undefined ? 0 : items.findIndex((item) => keyOf(item) > after)
  const rest = from === -1 ? [] : items.slice(from, from + limit)
  const last = rest.at(-1)
  return last !== undefined && from + rest.length < items.length
    ? { items: rest, next: cursorOf(keyOf(last)) }
    : { items: rest }
}

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
