/** Building blocks of request schemas. Each describes what it expects, because a 400 quotes the description. */
import { z } from 'zod'

export function integer(min: number, max: number): z.ZodType<number> {
  const error = `an integer from ${min} to ${max}`
  return z.int({ error }).min(min, { error }).max(max, { error })
}

export function oneOf<const T extends readonly [string, ...string[]]>(values: T): z.ZodType<T[number]> {
  return z.enum(values, { error: `one of ${values.join(', ')}` }) as z.ZodType<T[number]>
}

export function flag(): z.ZodType<boolean> {
  return z.boolean({ error: 'true or false' })
}

/** Text without NUL bytes or lone surrogates, up to `charsMax` characters. */
export function text(charsMax: number, what = 'a string'): z.ZodType<string> {
  const error = `${what} of at most ${charsMax} characters without NUL bytes or half characters`
  return z
    .string({ error })
    .max(charsMax, { error })
    .refine((value) => !value.includes('\0') && value.isWellFormed(), { error }) // a lone surrogate would arrive as another character
}

/** Ids that callers choose: safe in a path, a file name and a log line. */
export const ID_PATTERN = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/

export function id(what = 'an id'): z.ZodType<string> {
  const error = `${what}: 1 to 128 letters, digits, dots, dashes or underscores, starting with a letter or digit`
  return z.string({ error }).regex(ID_PATTERN, { error })
}

export const httpUrl = z
  .string({ error: 'an http or https URL' })
  .max(4_096, { error: 'an http or https URL' })
  .refine((value) => /^https?:\/\/[^\s/]+/.test(value) && URL.canParse(value), { error: 'an http or https URL' })

/** The name of a model provider: it stands before the slash in `provider/model`, and is a key in TOML files. */
export function providerName(): z.ZodString {
  const error = 'the name of a provider: 1 to 64 letters, digits, dashes or underscores'
  return z.string({ error }).regex(/^[A-Za-z0-9_-]{1,64}$/, { error })
}

/** What runners are chosen by. */
export function label(): z.ZodString {
  const error = 'a label: 1 to 64 letters, digits, dots, dashes, underscores, colons, slashes or equals signs'
  return z.string({ error }).regex(/^[A-Za-z0-9][A-Za-z0-9._:/=-]{0,63}$/, { error })
}

/** What fits into a request body. The runner reports an argument that is too long for the kernel: 422, `argument_too_long`. */
export const ARGUMENT_CHARS_MAX = 1024 * 1024

/** Environment variables: names that programs use, some of which no shell accepts; values without NUL bytes. */
export function environment(): z.ZodType<Record<string, string>> {
  const nameError =
    'a name of letters, digits, underscores, dots and dashes that does not start with a digit, dot or dash'
  const name = z.string().regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,255}$/, { error: nameError })
  return z.record(name, text(ARGUMENT_CHARS_MAX), { error: 'an object of strings' })
}

/** A request body. An unknown field is a mistake. */
export function body<T extends z.ZodRawShape>(shape: T): z.ZodObject<T, z.core.$strict> {
  return z.strictObject(shape, { error: bodyError })
}

function bodyError(issue: { readonly code?: string | undefined }): string | undefined {
  return issue.code === 'invalid_type' ? 'a JSON object' : undefined
}

/** A time, as ISO 8601 in UTC. */
export const time = z.iso.datetime().describe('ISO 8601 in UTC')

/**
 * A record that a service returns or journals. Its type has only the declared fields; parsing keeps the others, which a newer
 * version may have added.
 */
export function record<S extends z.ZodRawShape>(shape: S): z.ZodObject<S, z.core.$strip> {
  return z.looseObject(shape)
}
