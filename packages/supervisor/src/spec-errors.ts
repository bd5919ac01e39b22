/** Checks a spec before anything starts. Reports every wrong field at once. */
import type { FieldError } from '@breakfall/faults'
import { isObject } from '@breakfall/faults/internal'
import type { Launch, SuperviseSpec } from './spec.ts'

const MS_MAX = 2 ** 31 - 1 // what a timer can hold

export function specErrors(input: unknown, limits: readonly string[]): readonly FieldError[] {
  if (!isObject(input)) return [wrong('spec', 'an object', input)]
  return [
    ...unknownFields('', input, SPEC_FIELDS),
    ...test('command', input['command'], isProgram, 'a program without NUL bytes'),
    ...argsErrors('args', input['args']),
    ...envErrors('env', input['env']),
    ...Object.entries(PLAIN_FIELDS).flatMap(([field, [holds, expected]]) =>
      input[field] === undefined ? [] : test(field, input[field], holds, expected),
    ),
    ...probeErrors('ready', input['ready'], READY_KINDS),
    ...probeErrors('alive', input['alive'], ALIVE_KINDS),
    ...limitErrors(input['limits'], limits),
  ]
}

/** The same for the result of the `launch` hook. */
export function launchErrors(launched: unknown): readonly FieldError[] {
  if (launched === undefined || launched === null) return []
  if (!isObject(launched)) return [wrong('launch()', 'an object', launched)]
  return [
    ...unknownFields('launch().', launched, LAUNCH_FIELDS),
    ...argsErrors('launch().args', launched['args']),
    ...envErrors('launch().env', launched['env']),
    ...probeErrors('launch().ready', launched['ready'], READY_KINDS),
    ...probeErrors('launch().alive', launched['alive'], ALIVE_KINDS),
  ]
}

const isPort = (value: unknown): boolean => isWhole(value, 1, 65_535)

/** The given value, shortened. Never the value of an environment variable: it may be a secret. */
export function shown(value: unknown): string {
  if (value === undefined || value === null) return value === null ? 'null' : 'nothing'
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 80))
  if (typeof value === 'object') return Array.isArray(value) ? 'an array' : 'an object'
  return typeof value === 'number' || typeof value === 'boolean' ? `${value}` : `a ${typeof value}`
}

// ---- details, in the order they are used above ----

type Holds = (value: unknown) => boolean

const wrong = (field: string, expected: string, value: unknown): FieldError => ({ field, expected, got: shown(value) })

const test = (field: string, value: unknown, holds: Holds, expected: string): readonly FieldError[] =>
  holds(value) ? [] : [wrong(field, expected, value)]

const isText = (value: unknown): value is string => typeof value === 'string' && !value.includes('\0')
const isProgram = (value: unknown): boolean => isText(value) && value.trim() !== ''
const isNamed = (value: unknown): boolean => isText(value) && value !== ''
const isBoolean = (value: unknown): boolean => typeof value === 'boolean'
const isFunction = (value: unknown): boolean => typeof value === 'function'
const isWhole = (value: unknown, least: number, most: number): boolean =>
  Number.isInteger(value) && Number(value) >= least && Number(value) <= most
const isOneOf =
  (...list: readonly string[]): Holds =>
  (value) =>
    typeof value === 'string' && list.includes(value)
const isClock = (value: unknown): boolean =>
  isObject(value) && ['now', 'epoch', 'after', 'dice'].every((name) => isFunction(value[name]))

/** Optional fields that are checked on their own. */
const PLAIN_FIELDS: Readonly<Record<string, readonly [Holds, string]>> = {
  name: [isNamed, 'a non-empty string'],
  cwd: [isNamed, 'a folder'],
  stdin: [isOneOf('pipe', 'ignore'), '"pipe" or "ignore"'],
  channel: [isOneOf('fd3', 'ipc', 'none'), '"fd3", "ipc" or "none"'],
  stdoutClosed: [isOneOf('ignore', 'fail'), '"ignore" or "fail"'],
  oneshot: [isBoolean, 'true or false'],
  inheritEnv: [isBoolean, 'true or false'],
  stateDir: [isNamed, 'a folder'],
  launch: [isFunction, 'a function'],
  onStdout: [isFunction, 'a function'],
  onLine: [isFunction, 'a function'],
  mayRestart: [isFunction, 'a function'],
  clock: [isClock, 'an object with now, epoch, after and dice'],
} satisfies Partial<Record<keyof SuperviseSpec, readonly [Holds, string]>>

const SPEC_FIELDS: readonly string[] = [
  ...(['command', 'args', 'env', 'ready', 'alive', 'limits'] satisfies (keyof SuperviseSpec)[]),
  ...Object.keys(PLAIN_FIELDS),
]
const LAUNCH_FIELDS: readonly string[] = ['args', 'env', 'ready', 'alive'] satisfies (keyof Launch)[]

function unknownFields(
  prefix: string,
  input: Readonly<Record<string, unknown>>,
  known: readonly string[],
): readonly FieldError[] {
  return Object.keys(input)
    .filter((field) => !known.includes(field))
    .map((field) => wrong(`${prefix}${field}`, `one of ${known.join(', ')}`, field))
}

function argsErrors(field: string, args: unknown): readonly FieldError[] {
  if (args === undefined) return []
  if (!Array.isArray(args)) return [wrong(field, 'an array of strings', args)]
  return Array.from(args, (value, index) =>
    test(`${field}[${index}]`, value, isText, 'a string without NUL bytes'),
  ).flat()
}

function envErrors(field: string, env: unknown): readonly FieldError[] {
  if (env === undefined) return []
  if (!isObject(env)) return [wrong(field, 'an object', env)]
  return Object.entries(env).flatMap(([name, value]) => {
    if (name === '' || /[=\0]/.test(name)) return [wrong(`${field}.${name}`, 'a name without "=" or NUL', name)]
    const got = typeof value === 'string' ? 'a string with one' : shown(value)
    return isText(value) ? [] : [{ field: `${field}.${name}`, expected: 'a string without NUL bytes', got }]
  })
}

const TIMING = ['everyMs', 'timeoutMs'] as const
const READY_KINDS: Readonly<Record<string, readonly string[]>> = {
  spawned: [],
  line: ['pattern', 'stream'],
  notify: [],
  http: ['url', 'prove', ...TIMING],
  tcp: ['host', 'port', 'prove', ...TIMING],
  probe: ['probe', ...TIMING],
}
const ALIVE_KINDS: Readonly<Record<string, readonly string[]>> = {
  http: ['url', 'failuresMax', ...TIMING],
  tcp: ['host', 'port', 'failuresMax', ...TIMING],
  probe: ['probe', 'failuresMax', ...TIMING],
}

const isCount: Holds = (value) => isWhole(value, 1, MS_MAX)
const COUNT = `a whole number from 1 to ${MS_MAX}`

/** The fields of probes. Those without a `?` are required. */
const PROBE_FIELDS: Readonly<Record<string, readonly [Holds, string, '?'?]>> = {
  pattern: [(value) => value instanceof RegExp, 'a RegExp'],
  stream: [isOneOf('stdout', 'stderr'), '"stdout" or "stderr"', '?'],
  url: [isHttpUrl, 'an http:// URL'],
  host: [isNamed, 'a host', '?'],
  port: [isPort, 'a port from 1 to 65535'],
  prove: [isBoolean, 'true or false', '?'],
  probe: [isFunction, 'a function'],
  everyMs: [isCount, COUNT, '?'],
  timeoutMs: [isCount, COUNT, '?'],
  failuresMax: [isCount, COUNT, '?'],
}

function probeErrors(
  field: string,
  value: unknown,
  kinds: Readonly<Record<string, readonly string[]>>,
): readonly FieldError[] {
  if (value === undefined) return []
  if (!isObject(value)) return [wrong(field, 'an object', value)]
  const fields = Object.hasOwn(kinds, String(value['kind'])) ? kinds[String(value['kind'])] : undefined
  if (fields === undefined) return [wrong(`${field}.kind`, `one of ${Object.keys(kinds).join(', ')}`, value['kind'])]
  const found = fields.flatMap((name) => {
    const [holds, expected, optional] = PROBE_FIELDS[name] ?? [() => true, '']
    const isLeftOut = optional === '?' && value[name] === undefined
    return isLeftOut ? [] : test(`${field}.${name}`, value[name], holds, expected)
  })
  return [...unknownFields(`${field}.`, value, ['kind', ...fields]), ...found]
}

function isHttpUrl(value: unknown): boolean {
  if (typeof value !== 'string' || !URL.canParse(value)) return false
  const { protocol, port } = new URL(value)
  return protocol === 'http:' && port !== '0'
}

const ZERO_ALLOWED = new Set(['stdinMs', 'termMs', 'drainMs', 'fatalMs', 'backoffMs', 'stableMs'])

function limitErrors(limits: unknown, known: readonly string[]): readonly FieldError[] {
  if (limits === undefined) return []
  if (!isObject(limits)) return [wrong('limits', 'an object', limits)]
  return Object.entries(limits).flatMap(([name, value]) => {
    if (!known.includes(name)) return [wrong(`limits.${name}`, `one of ${known.join(', ')}`, name)]
    const least = ZERO_ALLOWED.has(name) ? 0 : 1
    const expected = `a whole number from ${least} to ${MS_MAX}`
    return test(`limits.${name}`, value, (given) => isWhole(given, least, MS_MAX), expected)
  })
}
