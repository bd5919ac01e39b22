/** JSON from outside, read without trusting its shape. */

import { isObject } from '@breakfall/faults/internal'

export type JsonObject = Readonly<Record<string, unknown>>

export { isObject }

/** The objects in a list. Anything else a server put there is left out; no list is an empty one. */
export function objectsIn(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

export const objectOr = (value: unknown): JsonObject => (isObject(value) ? value : {})
export const stringOr = (value: unknown): string => (typeof value === 'string' ? value : '')
export const numberOr = (value: unknown): number => (typeof value === 'number' ? value : 0)

/** The value, or the text itself if it is not JSON. */
export function parsedOr(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text // a proxy's HTML page, for example
  }
}
