/** Looks a spec over before anything is started: one test per field. */
import type { FieldError } from '@breakfall/faults'
import type { SuperviseSpec } from './spec.ts'

const MS_MAX = 2 ** 31 - 1 // what a timer can hold

/** Every wrong field, all at once. */
export function specErrors(input: SuperviseSpec, limits: readonly string[]): readonly FieldError[] {
  const errors: FieldError[] = []
  const check = (field: string, holds: boolean, expected: string, value: unknown): void => {
    if (!holds) errors.push({ field, expected, got: shown(value) })
  }
  if (typeof input !== 'object' || input === null) return [{ field: 'spec', expected: 'an object', got: shown(input) }]
  const known = Object.keys(input).find((key) => !FIELDS.has(key))
  check(known ?? '', known === undefined, `one of ${[...FIELDS].join(', ')}`, known)
  check('command', isText(input.command) && input.command.trim() !== '', 'a program without NUL bytes', input.command)
  check('args', optional(input.args, isTexts), 'an array of strings without NUL bytes', input.args)
  check(
    'name',
    optional(input.name, (value) => isText(value) && value !== ''),
    'a text',
    input.name,
  )
  check(
    'cwd',
    optional(input.cwd, (value) => isText(value) && value !== ''),
    'a folder',
    input.cwd,
  )
  check('env', optional(input.env, isEnv), 'names (without "=") with texts (without NUL bytes)', input.env)
  check('stdin', oneOf(input.stdin, ['pipe', 'ignore']), '"pipe" or "ignore"', input.stdin)
  check('channel', oneOf(input.channel, ['fd3', 'ipc', 'none']), '"fd3", "ipc" or "none"', input.channel)
  check('stdoutClosed', oneOf(input.stdoutClosed, ['ignore', 'fail']), '"ignore" or "fail"', input.stdoutClosed)
  check('oneshot', optional(input.oneshot, isBoolean), 'true or false', input.oneshot)
  check('inheritEnv', optional(input.inheritEnv, isBoolean), 'true or false', input.inheritEnv)
  check(
    'stateDir',
    optional(input.stateDir, (value) => isText(value) && value !== ''),
    'a folder',
    input.stateDir,
  )
  for (const field of ['launch', 'onStdout', 'onLine', 'mayRestart'] as const) {
    check(
      field,
      optional(input[field], (value) => typeof value === 'function'),
      'a function',
      input[field],
    )
  }
  const ready = probeError(input.ready, ['spawned', 'line', 'notify', 'http', 'tcp', 'probe'])
  if (ready !== undefined) errors.push({ ...ready, field: `ready${ready.field}` })
  const alive = probeError(input.alive, ['http', 'tcp', 'probe'])
  if (alive !== undefined) errors.push({ ...alive, field: `alive${alive.field}` })
  check(
    'limits',
    optional(input.limits, (value) => typeof value === 'object' && value !== null),
    'an object',
    input.limits,
  )
  for (const [name, value] of Object.entries(input.limits ?? {})) {
    check(`limits.${name}`, limits.includes(name), `one of ${limits.join(', ')}`, name)
    const least = ZERO_ALLOWED.has(name) ? 0 : 1
    const fits = Number.isInteger(value) && Number(value) >= least && Number(value) <= MS_MAX
    check(`limits.${name}`, fits, `a whole number from ${least} to ${MS_MAX}`, value)
  }
  return errors
}

// ---- details, in the order they are used above ----

const ZERO_ALLOWED = new Set(['stdinMs', 'termMs', 'drainMs', 'fatalMs', 'backoffMs', 'stableMs'])

const FIELDS: ReadonlySet<string> = new Set<keyof SuperviseSpec>([
  ...(['command', 'args', 'name', 'cwd', 'env', 'inheritEnv', 'launch', 'ready', 'alive', 'oneshot', 'stdin'] as const),
  ...(['channel', 'onStdout', 'onLine', 'stdoutClosed', 'mayRestart', 'stateDir', 'limits', 'clock'] as const),
])

function probeError(value: unknown, kinds: readonly string[]): FieldError | undefined {
  if (value === undefined) return undefined
  if (typeof value !== 'object' || value === null) return { field: '', expected: 'an object', got: shown(value) }
  const record = value as Record<string, unknown>
  const wrong = (field: string, expected: string): FieldError => ({
    field,
    expected,
    got: shown(record[field.slice(1)]),
  })
  if (!kinds.includes(String(record['kind']))) return wrong('.kind', `one of ${kinds.join(', ')}`)
  if (record['kind'] === 'line' && !(record['pattern'] instanceof RegExp)) return wrong('.pattern', 'a RegExp')
  if (record['kind'] === 'http' && !isHttpUrl(record['url'])) return wrong('.url', 'an http:// URL')
  if (record['kind'] === 'tcp' && !isPort(record['port'])) return wrong('.port', 'a port from 1 to 65535')
  if (record['kind'] === 'probe' && typeof record['probe'] !== 'function') return wrong('.probe', 'a function')
  for (const name of ['everyMs', 'timeoutMs', 'failuresMax']) {
    const number = record[name]
    const fits = number === undefined || (Number.isInteger(number) && Number(number) >= 1 && Number(number) <= MS_MAX)
    if (!fits) return wrong(`.${name}`, `a whole number from 1 to ${MS_MAX}`)
  }
  return undefined
}

const isText = (value: unknown): value is string => typeof value === 'string' && !value.includes('\0')
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText)
const isBoolean = (value: unknown): boolean => typeof value === 'boolean'
const isEnv = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  Object.entries(value).every(([name, text]) => name !== '' && !/[=\0]/.test(name) && isText(text))
const optional = (value: unknown, test: (value: unknown) => boolean): boolean => value === undefined || test(value)
const oneOf = (value: unknown, list: readonly string[]): boolean =>
  value === undefined || list.includes(value as string)
export const isPort = (value: unknown): boolean =>
  Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 65_535

function isHttpUrl(value: unknown): boolean {
  return typeof value === 'string' && URL.canParse(value) && new URL(value).protocol === 'http:'
}

/** What came, short, and never the value of a variable: an environment may hold secrets. */
export function shown(value: unknown): string {
  if (value === undefined || value === null) return value === null ? 'null' : 'nothing'
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 80))
  if (typeof value === 'object') return Array.isArray(value) ? 'an array' : 'an object'
  return typeof value === 'number' || typeof value === 'boolean' ? `${value}` : `a ${typeof value}`
}
