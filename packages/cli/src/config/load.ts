/**
 * The configuration, later wins: the user's file, the folder's file, the environment, flags. Each value keeps where it came
 * from, for `config show --origin` and for error messages that name file and line.
 *
 * I1  A folder's file comes with a clone: it cannot name a command, a URL or a key.
 * I2  A wrong key or value stops with its place; nothing is guessed or skipped.
 */
import { Fault, type FieldError, isFault } from '@breakfall/faults'
import { didYouMean, parseRequest } from '@breakfall/wire'
import { parse as parseToml, TomlError } from 'smol-toml'
import { folderConfigFile, userConfigFile } from './paths.ts'
import { lineOfKey } from './lines.ts'
import { readBounded } from './read-bounded.ts'
import { type Config, configSchema, isHarmless, keysBeside, variables } from './schema.ts'

export type Origin = string // 'flag --x', 'environment BREAKFALL_X', 'PATH:LINE'

export type LoadedConfig = {
  readonly config: Config
  /** By dotted key. */
  readonly origins: ReadonlyMap<string, Origin>
  readonly warnings: readonly string[]
  readonly files: readonly string[]
}

export type ConfigInput = {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Undefined where there is none any more. */
  readonly folder: string | undefined
  /** By dotted key, as given on the command line. */
  readonly flags?: Readonly<Record<string, { value: unknown; flag: string }>> | undefined
}

export function loadConfig(input: ConfigInput): LoadedConfig {
  const origins = new Map<string, Origin>()
  const merged: Record<string, unknown> = {}
  const files: string[] = []
  for (const [file, isFolder] of [
    [userConfigFile(input.env), false],
    [input.folder === undefined ? undefined : folderConfigFile(input.folder), true],
  ] as const) {
    const layer = file === undefined ? undefined : readLayer(file, isFolder)
    if (file === undefined || layer === undefined) continue
    files.push(file)
    for (const [path, value] of leaves(layer.values))
      put(merged, origins, path, value, `${file}:${lineOfKey(layer.text, path)}`)
  }
  const { values, warnings } = fromEnvironment(input.env)
  for (const { path, value, name } of values) put(merged, origins, path, value, `environment ${name}`)
  for (const [key, { value, flag }] of Object.entries(input.flags ?? {})) {
    if (value !== undefined) put(merged, origins, key.split('.'), value, `flag ${flag}`)
  }
  return { config: checked(merged, origins), origins, warnings, files }
}

// ---- details, in the order they are used above ----

function readLayer(file: string, isFolder: boolean): { text: string; values: Record<string, unknown> } | undefined {
  const text = readBounded(file)
  if (text === undefined) return undefined
  let values: Record<string, unknown>
  try {
    values = parseToml(text)
  } catch (cause) {
    const line = cause instanceof TomlError ? cause.line : 1
    const why =
      cause instanceof Error ? (cause.message.split('\n')[0] ?? '').replace(/^Invalid TOML document: /, '') : ''
    throw configFault(`${file}:${line}: this is not valid TOML: ${why}`, cause)
  }
  if (isFolder) refuseHarmful(file, text, values) // I1
  try {
    parseRequest(configSchema, values)
  } catch (cause) {
    if (!isFault(cause)) throw cause
    throw placed(cause, (path) => `${file}:${lineOfKey(text, path)}`) // I2
  }
  return { text, values }
}

function refuseHarmful(file: string, text: string, values: Record<string, unknown>): void {
  for (const [path] of leaves(values)) {
    if (isHarmless(path)) continue
    if (isUnknownKey(path)) continue // named as unknown by the schema, which says more
    throw configFault(
      `${file}:${lineOfKey(text, path)}: ${path.join('.')} cannot be set by a folder's file, since that comes with a clone: commands, URLs and keys belong in your own config.toml. It may set model.name, policy and limits.`,
    )
  }
}

function isUnknownKey(path: readonly string[]): boolean {
  const [section = '', key = ''] = path
  const schema = (configSchema.shape as Record<string, { unwrap(): unknown } | undefined>)[section]
  if (schema === undefined) return true
  return !Object.hasOwn((schema.unwrap() as { shape: object }).shape, key)
}

function fromEnvironment(env: ConfigInput['env']): {
  values: { path: readonly string[]; value: unknown; name: string }[]
  warnings: string[]
} {
  const known = variables()
  const values: { path: readonly string[]; value: unknown; name: string }[] = []
  const warnings: string[] = []
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith('BREAKFALL_') || value === undefined || OWN_VARIABLES.has(name)) continue
    const path = known.get(name)
    if (path === undefined)
      warnings.push(
        `the environment variable ${name} is not one that Breakfall knows${didYouMean(name, known.keys())}; it is ignored`,
      )
    else if (value !== '') values.push({ path, value: valueOf(value, path), name }) // empty is unset, as everywhere
  }
  return { values, warnings }
}

/** Variables that are read elsewhere. */
const OWN_VARIABLES = new Set([
  'BREAKFALL_TOKEN',
  'BREAKFALL_URL',
  'BREAKFALL_TEST_OUTPUT',
  'BREAKFALL_FAILPOINT',
  'BREAKFALL_LOG',
])

const LIST_KEYS = new Set(['resolveCommand', 'allowWorkspace'])

function valueOf(text: string, path: readonly string[]): unknown {
  const key = path.at(-1) ?? ''
  if (LIST_KEYS.has(key))
    return text.trimStart().startsWith('[') ? jsonOr(text) : text.split(/\s+/).filter((word) => word !== '')
  if (path[0] === 'policy' || path[0] === 'limits' || key === 'port') {
    if (text === 'null') return null
    if (/^-?\d+(?:\.\d+)?$/.test(text)) return Number(text)
  }
  return text
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text // not a list: the schema says so, with the variable's name
  }
}

function checked(values: Record<string, unknown>, origins: ReadonlyMap<string, Origin>): Config {
  try {
    return parseRequest(configSchema, values)
  } catch (cause) {
    if (!isFault(cause)) throw cause
    throw placed(cause, (path) => originOf(origins, path))
  }
}

function placed(fault: Fault, place: (path: readonly string[]) => string): Fault {
  const sentence = (error: FieldError): string => {
    const path = error.field.split('.')
    const where = place(path)
    return error.expected.startsWith('no field')
      ? `${where}: unknown key ${error.field}${didYouMean(path.at(-1) ?? '', keysBeside(path))}`
      : `${where}: ${error.field} must be ${error.expected}, got ${error.got}`
  }
  return configFault((fault.report.errors ?? []).map(sentence).join('\n'), fault, fault.report.errors)
}

function originOf(origins: ReadonlyMap<string, Origin>, path: readonly string[]): Origin {
  for (let depth = path.length; depth > 0; depth--) {
    const origin = origins.get(path.slice(0, depth).join('.'))
    if (origin !== undefined) return origin
  }
  return 'the configuration'
}

const configFault = (error: string, cause?: unknown, errors?: readonly FieldError[]): Fault =>
  new Fault('invalid_request', { error, errorRaw: error, cause, errors })

/** Every value with its path; lists of tables count as one value. */
function leaves(
  values: Record<string, unknown>,
  path: readonly string[] = [],
): (readonly [readonly string[], unknown])[] {
  return Object.entries(values).flatMap(([key, value]) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? leaves(value as Record<string, unknown>, [...path, key])
      : [[[...path, key], value] as const],
  )
}

function put(
  into: Record<string, unknown>,
  origins: Map<string, Origin>,
  path: readonly string[],
  value: unknown,
  origin: Origin,
): void {
  let table = into
  for (const key of path.slice(0, -1)) {
    const next = table[key]
    if (typeof next === 'object' && next !== null && !Array.isArray(next)) table = next as Record<string, unknown>
    else table = table[key] = {} as Record<string, unknown>
  }
  table[path.at(-1) ?? ''] = value
  origins.set(path.join('.'), origin)
}
