/** Looks a spec over before anything is started: one test per field, and every wrong one is named. */
import type { FieldError } from '@breakfall/faults'
import type { Launch, SuperviseSpec } from './spec.ts'

const MS_MAX = 2 ** 31 - 1 // what a timer can hold

/** Every wrong field, all at once. */
export function specErrors(input: unknown, limits: readonly string[]): readonly FieldError[] {
  if (!isRecord(input)) return [wrong('spec', 'an object', input)]
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

/** The same for what the caller's `launch` hook gave. */
export function launchErrors(launched: unknown): readonly FieldError[] {
  if (launched === undefined || launched === null) return []
  if (!isRecord(launched)) return [wrong('launch()', 'an object', launched)]
  return [
    ...unknownFields('launch().', launched, LAUNCH_FIELDS),
    ...argsErrors('launch().args', launched['args']),
    ...envErrors('launch().env', launched['env']),
    ...probeErrors('launch().ready', launched['ready'], READY_KINDS),
    ...probeErrors('launch().alive', launched['alive'], ALIVE_KINDS),
  ]
}

export const isPort = (value: unknown): boolean => isWhole(value, 1, 65_535)

/** What came, short, and never the value of a variable: an environment may hold secrets. */
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

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
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
    list.includes(value as string)
const isClock = (value: unknown): boolean =>
  isRecord(value) && ['now', 'epoch', 'after', 'dice'].every((name) => isFunction(value[name]))

/** Fields that stand alone, and may be left out. */
const PLAIN_FIELDS: Readonly<Record<string, readonly [Holds, string]>> = {
  name: [isNamed, 'a text'],
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
    test(`${field}[${index}]`, value, isText, 'a text without NUL bytes'),
  ).flat()
}

function envErrors(field: string, env: unknown): readonly FieldError[] {
  if (env === undefined) return []
  if (!isRecord(env)) return [wrong(field, 'an object', env)]
  return Object.entries(env).flatMap(([name, value]) => {
    if (name === '' || /[=\0]/.test(name)) return [wrong(`${field}.${name}`, 'a name without "=" and NUL', name)]
    const got = typeof value === 'string' ? 'a text with one' : shown(value)
    return isText(value) ? [] : [{ field: `${field}.${name}`, expected: 'a text without NUL bytes', got }]
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

/** What a probe is asked with. Those without a `?` must be there. */
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
  if (!isRecord(value)) return [wrong(field, 'an object', value)]
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
  if (!isRecord(limits)) return [wrong('limits', 'an object', limits)]
  return Object.entries(limits).flatMap(([name, value]) => {
    if (!known.includes(name)) return [wrong(`limits.${name}`, `one of ${known.join(', ')}`, name)]
    const least = ZERO_ALLOWED.has(name) ? 0 : 1
    const expected = `a whole number from ${least} to ${MS_MAX}`
    return test(`limits.${name}`, value, (given) => isWhole(given, least, MS_MAX), expected)
  })
}
