/**
 * Reads the configuration. Later wins: the user's file, the folder's file, the environment, flags. Each value keeps its origin,
 * for `config show --origin` and for errors that name file and line.
 *
 * I1  A folder's file comes with a clone: it cannot set a command, a URL or a key.
 * I2  A wrong key or value is an error with its location; nothing is guessed or skipped.
 */
import { Fault, type FieldError, isFault } from '@breakfall/faults'
import { didYouMean, parseRequest } from '@breakfall/wire/internal'
import { parse as parseToml, TomlError } from 'smol-toml'
import { lineOfKey } from './lines.ts'
import { folderConfigFile, userConfigFile } from './paths.ts'
import { readBounded } from './read-bounded.ts'
import { type Config, configSchema, isKnownKey, isSafeForFolder, siblingKeys, variables } from './schema.ts'
import { cmd } from '../process/command-name.ts'

/** `flag --x`, `environment BREAKFALL_X`, or `PATH:LINE`. */
export type Origin = string

export type LoadedConfig = {
  readonly config: Config
  /** By dotted key. */
  readonly origins: ReadonlyMap<string, Origin>
  readonly warnings: readonly string[]
  readonly files: readonly string[]
}

export type ConfigInput = {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Undefined if the current folder was removed. */
  readonly folder: string | undefined
  /** As if there were no config files. */
  readonly withoutFiles?: boolean | undefined
  /** By dotted key, as given on the command line. */
  readonly flags?: Readonly<Record<string, { value: unknown; flag: string }>> | undefined
}

type Table = Record<string, unknown>

export function loadConfig(input: ConfigInput): LoadedConfig {
  const origins = new Map<string, Origin>()
  const merged: Table = {}
  const files: string[] = []
  for (const [file, isFolderFile] of [
    [userConfigFile(input.env), false],
    [input.folder === undefined ? undefined : folderConfigFile(input.folder), true],
  ] as const) {
    if (file === undefined || input.withoutFiles === true) continue
    const layer = readLayer(file, isFolderFile)
    if (layer === undefined) continue
    files.push(file)
    for (const [path, value] of leaves(layer.values))
      put(merged, origins, path, value, `${file}:${lineOfKey(layer.text, path)}`)
  }
  const { values, warnings } = fromEnvironment(input.env)
  for (const { path, value, name } of values) put(merged, origins, path, value, `environment ${name}`)
  for (const [key, { value, flag }] of Object.entries(input.flags ?? {})) {
    if (value !== undefined) put(merged, origins, key.split('.'), value, `flag ${flag}`)
  }
  return { config: parsed(merged, origins), origins, warnings, files }
}

// ---- details, in the order they are used above ----

function readLayer(file: string, isFolderFile: boolean): { text: string; values: Table } | undefined {
  const text = readBounded(file)
  if (text === undefined) return undefined
  let values: Table
  try {
    values = withModelTable(parseToml(text))
  } catch (cause) {
    const line = cause instanceof TomlError ? cause.line : 1
    if (isModelTwice(cause, text.split('\n')[line - 1] ?? ''))
      throw configFault(`${file}:${line}: ${MODEL_TWICE}`, cause)
    const why =
      cause instanceof Error ? (cause.message.split('\n')[0] ?? '').replace(/^Invalid TOML document: /, '') : ''
    throw configFault(`${file}:${line}: not valid TOML: ${why}`, cause)
  }
  if (isFolderFile) refuseUnsafe(file, text, values) // I1
  try {
    parseRequest(configSchema, values)
  } catch (cause) {
    if (!isFault(cause)) throw cause
    throw located(cause, (path) => `${file}:${lineOfKey(text, path)}`) // I2
  }
  return { text, values }
}

const MODEL_TWICE =
  'model is set twice, as `model = …` and as `[model]`. Keep one of them: `[model] name = …` means the same as `model = …`'

const isModelTwice = (cause: unknown, line: string): boolean =>
  cause instanceof TomlError && /redefine/.test(cause.message) && /^\s*\[{0,2}\s*model\b/.test(line)

/** `model = "provider/name"` is short for `[model] name = …`. */
const withModelTable = (values: Table): Table =>
  typeof values['model'] === 'string' ? { ...values, model: { name: values['model'] } } : values

function refuseUnsafe(file: string, text: string, values: Table): void {
  for (const [path] of leaves(values)) {
    if (isSafeForFolder(path) || !isKnownKey(path)) continue // the schema reports an unknown key, with a suggestion
    throw configFault(
      `${file}:${lineOfKey(text, path)}: ${path.join('.')} cannot be set by a folder's file, because that file comes with a clone. Commands, URLs and keys belong in your own config.toml; a folder's file may set model.name, policy, limits and box.env.`,
    )
  }
}

type FromEnvironment = { readonly path: readonly string[]; readonly value: unknown; readonly name: string }

function fromEnvironment(env: ConfigInput['env']): { values: FromEnvironment[]; warnings: string[] } {
  const known = variables()
  const values: FromEnvironment[] = []
  const warnings: string[] = []
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith('BREAKFALL_') || value === undefined || OTHER_VARIABLES.has(name)) continue
    const path = known.get(name)
    if (path === undefined)
      warnings.push(`ignoring the unknown environment variable ${name}${didYouMean(name, known.keys())}`)
    else if (value !== '') values.push({ path, value: valueOf(value, path), name }) // empty counts as unset
  }
  return { values, warnings }
}

/** Variables that do not set a key. */
const OTHER_VARIABLES = new Set([
  'BREAKFALL_TOKEN',
  'BREAKFALL_URL',
  'BREAKFALL_TEST_OUTPUT',
  'BREAKFALL_FAILPOINT',
  'BREAKFALL_LOG',
])

const LIST_KEYS = new Set([
  'resolveCommand',
  'allowWorkspace',
  'passEnv',
  'mounts',
  'join',
  'advertiseCommand',
  'labels',
])
const BOOLEAN_KEYS = new Set(['background'])
const NUMBER_KEYS = new Set([
  'port',
  'boxesMax',
  'contextTokens',
  'outputTokensMax',
  'priceIn',
  'priceOut',
  'priceCacheRead',
  'priceCacheWrite',
  'leaseMs',
  'drainMs',
  'keepDays',
  'replaceAfterMs',
  'capacity',
])

function valueOf(text: string, path: readonly string[]): unknown {
  const key = path.at(-1) ?? ''
  if (LIST_KEYS.has(key))
    return text.trimStart().startsWith('[') ? jsonOr(text) : text.split(/\s+/).filter((word) => word !== '')
  if (BOOLEAN_KEYS.has(key) && (text === 'true' || text === 'false')) return text === 'true'
  if (path[0] === 'policy' || path[0] === 'limits' || path[0] === 'retention' || NUMBER_KEYS.has(key)) {
    if (text === 'null') return null
    if (/^-?\d+(?:\.\d+)?$/.test(text)) return Number(text)
  }
  return text
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text // not a list: the schema reports it, with the variable's name
  }
}

function parsed(values: Table, origins: ReadonlyMap<string, Origin>): Config {
  try {
    return parseRequest(configSchema, values)
  } catch (cause) {
    if (!isFault(cause)) throw cause
    throw located(cause, (path) => originOf(origins, path))
  }
}

function located(fault: Fault, locate: (path: readonly string[]) => string): Fault {
  const sentence = (error: FieldError): string => {
    const path = error.field.split('.')
    const where = locate(path)
    return error.expected.startsWith('no field')
      ? `${where}: unknown key ${error.field}${didYouMean(path.at(-1) ?? '', siblingKeys(path))}`
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

function configFault(what: string, cause?: unknown, errors?: readonly FieldError[]): Fault {
  const error = `${what.replace(/\.$/, '')}. Nothing started. Correct it there; "${cmd('config example')}" shows every key.`
  return new Fault('invalid_request', { error, errorRaw: error, cause, errors })
}

const isTable = (value: unknown): value is Table => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Every value with its path. A list of tables counts as one value. */
function leaves(values: Table, path: readonly string[] = []): (readonly [readonly string[], unknown])[] {
  return Object.entries(values).flatMap(([key, value]) =>
    isTable(value) ? leaves(value, [...path, key]) : [[[...path, key], value] as const],
  )
}

function put(into: Table, origins: Map<string, Origin>, path: readonly string[], value: unknown, origin: Origin): void {
  let table = into
  for (const key of path.slice(0, -1)) {
    const next = table[key]
    const inner: Table = isTable(next) ? next : {}
    table = table[key] = inner
  }
  table[path.at(-1) ?? ''] = value
  origins.set(path.join('.'), origin)
}
