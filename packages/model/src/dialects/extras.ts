/**
 * What the client was told beside text and calls: annotations, ratings, fields that this file does not know. Another attempt
 * says the same things again, and other ones for the first time.
 */
import { isObject, type JsonObject } from '../lib/json.ts'

/** A server that says more than this says something new each time. */
const EXTRAS_MAX = 100

export class Extras {
  readonly #known = new Set<string>()

  has(extra: string): boolean {
    return this.#known.has(extra)
  }

  /** False if they are too many to remember. */
  add(extras: readonly string[]): boolean {
    for (const extra of extras) if (this.#known.size < EXTRAS_MAX) this.#known.add(extra)
    return extras.every((extra) => this.#known.has(extra))
  }
}

export const extraOf = (key: string, value: unknown): string => `${key} ${JSON.stringify(value)}`

/** Everything that an object says under other keys than these. */
export function extrasIn(holder: JsonObject, known: ReadonlySet<string>): readonly string[] {
  const extras: string[] = []
  for (const key in holder) if (!known.has(key) && isSaid(holder[key])) extras.push(extraOf(key, holder[key]))
  return extras
}

export const isSaid = (value: unknown): boolean =>
  value !== undefined &&
  value !== null &&
  value !== '' &&
  !(Array.isArray(value) && value.length === 0) &&
  !(isObject(value) && Object.keys(value).length === 0)
