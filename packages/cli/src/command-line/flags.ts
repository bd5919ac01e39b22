/** Flags that several commands share, and the configuration keys that they set. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { type Policy, POLICY_DEFAULTS } from '@breakfall/faults'
import { API_NAMES, type ApiName, type Hold, HOLDS, PROFILE_NAMES, type ProfileName } from '@breakfall/model/names'
import { flagNameOf, readNumber, RUNNER_FLAGS, type RunnerFlag } from '@breakfall/runner/flags'
import { POLICY_KEYS } from '@breakfall/wire'

export type FlagValues = Readonly<Record<string, { value: unknown; flag: string }>>

export type ModelFlags = {
  readonly model?: string
  readonly baseUrl?: string
  readonly api?: ApiName
  readonly profile?: ProfileName
}

/** One flag per key of a policy, `livenessMs` as `--liveness-ms`. A single request uses only some of them. */
export function addPolicyFlags(command: Command, scope: 'turn' | 'request' = 'turn'): Command {
  command.optionsGroup('Limits and time limits, also [policy] in the configuration:')
  for (const key of POLICY_KEYS) {
    if (scope === 'request' && TURN_KEYS.has(key)) continue
    const about = scope === 'request' ? (REQUEST_ABOUT[key] ?? POLICY_ABOUT[key]) : POLICY_ABOUT[key]
    // The default is part of the text and not set here: the configuration may set another value.
    command.option(`${policyFlag(key)} <value>`, `${about} (default: ${POLICY_DEFAULTS[key] ?? 'none'})`)
  }
  return command
}

export function addModelFlags(command: Command): Command {
  return command
    .option('--model <name>', 'the model')
    .option('--base-url <url>', "the model server's base URL")
    .addOption(new Option('--api <api>', "the model server's protocol").choices(API_NAMES))
    .addOption(new Option('--profile <profile>', 'what the model server supports').choices(PROFILE_NAMES))
}

/** The flags that every runner has, also the program of the package `runner`. */
export function addRunnerFlags(command: Command): Command {
  const table: readonly (readonly [string, RunnerFlag])[] = Object.entries(RUNNER_FLAGS)
  for (const [name, { word, read, choices, initial, about }] of table) {
    const option = new Option(`--${flagNameOf(name)}${word === undefined ? '' : ` <${word}>`}`, about).default(initial)
    if (read === 'list') option.argParser(collect)
    else if (read !== undefined) option.argParser(READERS[read])
    if (choices !== undefined) option.choices(choices)
    command.addOption(option)
  }
  return command
}

export const isolationFlag = (about: string): Option =>
  new Option('--isolation <level>', about).choices(['bwrap', 'process'])

export const HOMES = ['real', 'private'] as const

/** Lets flags of every command stand before its name: `--json sessions` becomes `sessions --json`. */
export function commonFlagsLast(words: readonly string[]): string[] {
  let count = 0
  for (let word = words[count]; word !== undefined; word = words[count]) {
    if (word === '--state-dir') count += 2
    else if (word === '--json' || word.startsWith('--state-dir=')) count++
    else break
  }
  const rest = words.slice(count)
  const dashes = rest.indexOf('--') // what follows are arguments, even if they look like flags
  const at = dashes === -1 ? rest.length : dashes
  return rest.length === 0 ? [...words] : [...rest.slice(0, at), ...words.slice(0, count), ...rest.slice(at)]
}

/** Flag values by the configuration key that they set. */
export function configFlags(options: Readonly<Record<string, unknown>>): FlagValues {
  const out: Record<string, { value: unknown; flag: string }> = {}
  const put = (key: string, value: unknown, flag: string): void => {
    if (value !== undefined) out[key] = { value, flag }
  }
  put('model.name', options['model'], '--model')
  put('model.baseUrl', options['baseUrl'], '--base-url')
  put('model.api', options['api'], '--api')
  put('model.profile', options['profile'], '--profile')
  put('agent.systemPrompt', options['systemPrompt'], '--system-prompt')
  put('limits.memoryMb', options['memoryMb'], '--memory-mb')
  put('daemon.stateDir', options['stateDir'], '--state-dir')
  put('daemon.port', options['port'], '--port')
  put('daemon.store', options['store'], '--store')
  put('daemon.name', options['name'], '--name')
  put('daemon.leaseMs', options['leaseMs'], '--lease-ms')
  put('daemon.drainMs', options['drainMs'], '--drain-ms')
  put('daemon.hintsUrl', options['hintsUrl'], '--hints-url')
  put('fleet.keyFile', options['fleetKeyFile'], '--fleet-key-file')
  put('runner.join', options['join'], '--join')
  put('runner.advertise', options['advertise'], '--advertise')
  put('runner.advertiseCommand', options['advertiseCommand'], '--advertise-command')
  put('runner.labels', options['label'], '--label')
  put('runner.capacity', options['capacity'], '--capacity')
  put('runner.url', options['runner'], '--runner')
  put('runner.tokenFile', options['runnerTokenFile'], '--runner-token-file')
  for (const key of POLICY_KEYS) {
    const value = options[key]
    if (typeof value === 'string') put(`policy.${key}`, policyValue(value), policyFlag(key))
  }
  return out
}

/** Errors complete a sentence: `--port takes …, got x`. */
export function portNumber(text: string): number {
  const port = readNumber('port', text)
  if (port === undefined) throw new InvalidArgumentError('a port from 0 to 65535')
  return port
}

export function milliseconds(text: string): number {
  const ms = readNumber('milliseconds', text)
  if (ms === undefined) throw new InvalidArgumentError('a whole number of milliseconds')
  return ms
}

export function wholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('a whole number')
  return Number(text)
}

export function collectHold(text: string, earlier: readonly Hold[] = []): readonly Hold[] {
  const hold = HOLDS.find((one) => one === text)
  if (hold === undefined) throw new InvalidArgumentError(`one of ${HOLDS.join(', ')}`)
  return [...earlier, hold]
}

export function boxCount(text: string): number {
  const count = readNumber('count', text)
  if (count === undefined) throw new InvalidArgumentError('a number from 1 to 1000000')
  return count
}

/** `30d` in milliseconds. */
export function timeSpan(text: string): number {
  const [, count = '', unit = ''] = /^(\d{1,6})([smhdw])$/.exec(text) ?? []
  const ms = Number(count) * (UNIT_MS[unit] ?? Number.NaN)
  if (count === '' || Number.isNaN(ms) || ms > 3_650 * 86_400_000)
    throw new InvalidArgumentError('a time such as 30d, 12h or 45m, up to ten years')
  return ms
}

const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
}

export function positive(text: string): number {
  const count = Number(text)
  if (!/^\d{1,9}$/.test(text) || count === 0) throw new InvalidArgumentError('a whole number from 1')
  return count
}

export const collect = (value: string, earlier: readonly string[] = []): readonly string[] => [...earlier, value]

// ---- details ----

const POLICY_ABOUT: Readonly<Record<keyof Policy, string>> = {
  attemptsMax: 'attempts per step',
  patienceMs: 'how long to retry a model server that is away, loading or overloaded; 0 counts these as attempts',
  failuresMax: 'failures per turn',
  waitMsMax: 'total wait between attempts, per turn',
  park: 'auto, or never: fail a turn instead of parking it',
  parkMsMax: 'longest time a turn may stay parked',
  outcomeUnknown: 'tell the model, or stop, if it is unknown whether a command ran',
  stepsMax: 'steps per turn; then it parks and asks',
  repeatsMax: 'how often a turn may repeat a call with the same result; then it parks and asks',
  compactionsMax: 'how often a turn may shorten its conversation',
  deadlineMs: 'time limit of a turn',
  backoffMs: 'first wait between attempts; doubles each time',
  connectMs: 'time limit to connect to the model server',
  headersMs: "time limit until the model's answer starts",
  livenessMs: 'time limit without a single byte',
  progressMs: 'time limit with heartbeats but no output',
  boxIdleMs: 'how long an idle session keeps its box',
  approve: 'which tool calls wait for your yes: never, unsafe or always',
  approveMsMax: 'how long a call waits for its approval',
}

const REQUEST_ABOUT: Readonly<Partial<Record<keyof Policy, string>>> = {
  attemptsMax: 'attempts per request',
  failuresMax: 'failures per request',
  waitMsMax: 'total wait between attempts, per request',
  deadlineMs: 'time limit of a request',
}

/** A single request does not park, has no steps and runs no commands. */
const TURN_KEYS: ReadonlySet<string> = new Set<keyof Policy>([
  'park',
  'parkMsMax',
  'outcomeUnknown',
  'stepsMax',
  'repeatsMax',
  'compactionsMax',
  'boxIdleMs',
  'approve',
  'approveMsMax',
])

const READERS = { port: portNumber, milliseconds, count: boxCount }

const policyFlag = (key: string): string => `--${key.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`

function policyValue(text: string): unknown {
  if (text === 'null') return null
  return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text
}
