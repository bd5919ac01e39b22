/** Flags that several commands share, and how they become configuration. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { type Policy, POLICY_DEFAULTS } from '@breakfall/faults'
import { POLICY_KEYS } from '@breakfall/wire'
import { MODEL_APIS, MODEL_PROFILES } from '../config/schema.ts'

export type FlagValues = Readonly<Record<string, { value: unknown; flag: string }>>

/** `livenessMs` as `--liveness-ms`, one flag per key of a policy; of a request, those that one has a use for. */
export function addPolicyFlags(command: Command, of: 'turn' | 'request' = 'turn'): Command {
  for (const key of POLICY_KEYS) {
    if (of === 'request' && TURN_KEYS.has(key)) continue
    const words = POLICY_WORDS[key].replace(/\b(?:turn|step)\b/, (word) => (of === 'turn' ? word : of))
    const about = `${words} (default: ${POLICY_DEFAULTS[key] ?? 'none'})` // said, not set: the config may say otherwise
    command.option(`${policyFlag(key)} <value>`, about)
  }
  return command
}

export function addModelFlags(command: Command): Command {
  return command
    .option('--model <name>', "the model's name")
    .option('--base-url <url>', "the model server's base URL")
    .addOption(new Option('--api <api>', "the model server's protocol").choices(MODEL_APIS))
    .addOption(new Option('--profile <profile>', 'what the model server can do').choices(MODEL_PROFILES))
}

/** What every command takes may stand before it as well: `--json sessions` is `sessions --json`. */
export function commonFlagsLast(words: readonly string[]): string[] {
  let count = 0
  for (let word = words[count]; word !== undefined; word = words[count]) {
    if (word === '--state-dir') count += 2
    else if (word === '--json' || word.startsWith('--state-dir=')) count++
    else break
  }
  const rest = words.slice(count)
  const dashes = rest.indexOf('--') // what follows are words, whatever they look like
  const at = dashes === -1 ? rest.length : dashes
  return rest.length === 0 ? [...words] : [...rest.slice(0, at), ...words.slice(0, count), ...rest.slice(at)]
}

/** Flags by the configuration key that they set. */
export function configFlags(options: Readonly<Record<string, unknown>>): FlagValues {
  const out: Record<string, { value: unknown; flag: string }> = {}
  const put = (key: string, value: unknown, flag: string): void => {
    if (value !== undefined) out[key] = { value, flag }
  }
  put('model.name', options['model'], '--model')
  put('model.baseUrl', options['baseUrl'], '--base-url')
  put('model.api', options['api'], '--api')
  put('model.profile', options['profile'], '--profile')
  put('daemon.stateDir', options['stateDir'], '--state-dir')
  put('daemon.port', options['port'], '--port')
  put('runner.url', options['runner'], '--runner')
  put('runner.tokenFile', options['runnerTokenFile'], '--runner-token-file')
  for (const key of POLICY_KEYS) {
    const value = options[key]
    if (typeof value === 'string') put(`policy.${key}`, policyValue(value), policyFlag(key))
  }
  return out
}

export function portNumber(text: string): number {
  const port = Number(text)
  if (!/^\d+$/.test(text) || port > 65_535) throw new InvalidArgumentError('a port is a number from 0 to 65535')
  return port
}

export function milliseconds(text: string): number {
  const ms = Number(text)
  if (!/^\d+$/.test(text) || ms > 2 ** 31 - 1) throw new InvalidArgumentError('it is a whole number of milliseconds')
  return ms
}

export const collect = (value: string, earlier: readonly string[] = []): readonly string[] => [...earlier, value]

// ---- details ----

const POLICY_WORDS: Readonly<Record<keyof Policy, string>> = {
  attemptsMax: 'tries per step',
  failuresMax: 'failures per turn',
  waitMsMax: 'waiting between tries, per turn',
  park: 'auto, or never: end a turn instead of letting it wait',
  parkMsMax: 'longest time a turn may stay parked',
  outcomeUnknown: 'tell the model, or stop, when nobody can know whether a command ran',
  stepsMax: 'steps per turn',
  deadlineMs: 'end a turn after so long',
  backoffMs: 'first wait between tries; it doubles',
  connectMs: 'time to connect to the model server',
  headersMs: "time until the model's answer begins",
  livenessMs: 'silence without any byte',
  progressMs: 'signs of life, but no output',
}

/** A single request neither parks, nor has steps, nor runs commands. */
const TURN_KEYS: ReadonlySet<string> = new Set<keyof Policy>(['park', 'parkMsMax', 'outcomeUnknown', 'stepsMax'])

const policyFlag = (key: string): string => `--${key.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`

function policyValue(text: string): unknown {
  if (text === 'null') return null
  return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text
}
