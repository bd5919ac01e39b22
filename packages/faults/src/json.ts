/** Values from outside the type system: parsed JSON and thrown errors. */

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The object that the text holds, or an empty one for other JSON. Throws if it is no JSON. */
export function parseObject(text: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text)
  return isObject(value) ? value : {}
}

/** The same, but never throws. */
export function objectIn(text: string): Record<string, unknown> {
  try {
    return parseObject(text)
  } catch {
    return {} // it is no JSON
  }
}

/** The system's code of an error, such as `ENOENT`. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** The same value with its keys in order, at every depth: equal values have equal texts then. */
export function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  )
}
