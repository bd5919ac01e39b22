/** Parsed JSON and errors, whose types are unknown. */

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
