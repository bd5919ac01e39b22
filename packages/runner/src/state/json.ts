/** Values that came from outside the type system: parsed JSON and thrown errors. */

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The object that the text holds, or an empty one for other JSON. Throws if it is no JSON. */
export function parseObject(text: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text)
  return isObject(value) ? value : {}
}

/** The system's code of an error, such as ENOENT. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
