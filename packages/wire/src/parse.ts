/** Parses unknown input: a typed value, or a fault that names each wrong field, what was expected and what came. */
import { Fault, type FieldError, redactBounded } from '@breakfall/faults'
import type { z } from 'zod'

export function parseRequest<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const errors = result.error.issues.flatMap((issue) => fieldErrors(issue, value))
  // A value can break several rules of one field (not an integer, and out of range); one message about it is enough.
  throw invalidRequest([...new Map(errors.map((error) => [`${error.field}\0${error.expected}`, error])).values()])
}

export function invalidRequest(errors: readonly FieldError[]): Fault {
  const shown = errors.slice(0, ERRORS_MAX)
  const words = shown.slice(0, 3).map(inWords)
  const more = errors.length > 3 ? ` (and ${errors.length - 3} more)` : ''
  const sentence = `The request is invalid: ${words.join('; ')}${more}`
  return new Fault('invalid_request', { error: sentence, errorRaw: sentence, errors: shown })
}

/** What is expected of an unknown name: nothing. */
export const UNKNOWN = { field: 'no field of that name', query: 'no query parameter of that name' } as const

// ---- details ----

function inWords({ field, expected, got }: FieldError): string {
  if (expected === UNKNOWN.field) return `there is no field ${field}`
  if (expected === UNKNOWN.query) return `there is no query parameter ${field}`
  return `${field === '' ? 'the body' : field} must be ${expected}, got ${got}`
}

const ERRORS_MAX = 20
const GOT_CHARS_MAX = 100

function fieldErrors(issue: z.core.$ZodIssue, root: unknown): readonly FieldError[] {
  const field = issue.path.map(String).join('.')
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key, index) => {
      const path = [...issue.path, key]
      // A body may have tens of thousands of them, and to redact each value would take a second.
      const got = index < ERRORS_MAX ? shown(at(root, path)) : ''
      return { field: path.map(String).join('.'), expected: UNKNOWN.field, got }
    })
  }
  if (issue.code === 'invalid_key') {
    const expected = issue.issues[0]?.message ?? 'another name'
    return [{ field, expected, got: shown(issue.path.at(-1)) }]
  }
  const value = at(root, issue.path)
  return [
    {
      field,
      expected: value === undefined && issue.path.length > 0 ? `given: ${issue.message}` : issue.message,
      got: issue.path.some(isSecretName) ? 'a value that is not shown' : shown(value),
    },
  ]
}

const isSecretName = (key: PropertyKey): boolean => key === 'apiKey'

function at(root: unknown, path: readonly PropertyKey[]): unknown {
  let value: unknown = root
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Record<PropertyKey, unknown>)[key]
  }
  return value
}

function shown(value: unknown): string {
  if (value === undefined) return 'nothing'
  return redactBounded(JSON.stringify(value, withoutSecrets) ?? typeof value, GOT_CHARS_MAX)
}

function withoutSecrets(key: string, value: unknown): unknown {
  return isSecretName(key) ? '…' : value
}
