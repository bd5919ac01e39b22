/** `breakfall config show` and `config example`: what is set, where it came from, and what could be. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { Fault } from '@breakfall/faults'
import type { LoadedConfig } from '../config/load.ts'
import type { ModelChoice } from '../model/choose.ts'
import type { Output } from '../render/output.ts'

/** `choice` is the model that a run would take. */
export function showConfig(
  loaded: LoadedConfig,
  choice: ModelChoice | undefined,
  options: { origin: boolean },
  out: Output,
): void {
  const rows = [...loaded.origins]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([key, origin]) => ({ key, value: valueAt(loaded.config, key), origin }))
  if (out.json) {
    for (const row of rows) out.data(row)
    const model = choice === undefined ? null : { ...choice, apiKey: masked(choice.apiKey) }
    out.result({ config: loaded.config, files: loaded.files, warnings: loaded.warnings, model })
    return
  }
  if (rows.length === 0) out.line(`# ${nothingSet(loaded.files)}`)
  for (const { key, value, origin } of rows)
    out.line(`${key} = ${JSON.stringify(value)}${options.origin ? out.style('dim', `   # ${origin}`) : ''}`)
  for (const line of modelLines(choice)) out.line(out.style('dim', `# ${line}`))
}

/** Which model a run would take, and why. Pure. */
export function modelLines(choice: ModelChoice | undefined): readonly string[] {
  if (choice === undefined)
    return ['a run would have no model: none is set, and none answers on this machine. A prompt would be a rehearsal']
  const { name, isGuessed, baseUrl, because, apiKey, apiKeyFrom } = choice
  const key = masked(apiKey)
  return [
    `a run would use ${isGuessed ? 'the first model that is listed' : `the model ${name}`} at ${baseUrl}: ${because}`,
    key === null ? 'without a key' : `with the key from ${apiKeyFrom}: ${key}`,
  ]
}

/** Writes the example where there is no file yet. */
export function writeExample(file: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    writeFileSync(file, EXAMPLE_CONFIG, { flag: 'wx', mode: 0o600 })
  } catch (cause) {
    const why = existsSync(file) ? 'there is one already' : 'it cannot be written'
    throw new Fault('invalid_request', { error: `nothing was written to ${file}: ${why}`, cause })
  }
}

const nothingSet = (files: readonly string[]): string =>
  `nothing is set${files.length === 0 ? '' : ` in ${files.join(', ')}`}: all defaults. See: breakfall config example`

/** The end of it, so that two keys can be told apart; nothing of a short one. */
const masked = (key: string | undefined): string | null =>
  key === undefined || key === '' ? null : `…${key.length < 20 ? '' : key.slice(-4)}`

function valueAt(config: unknown, key: string): unknown {
  return key.split('.').reduce<unknown>((value, part) => (value as Record<string, unknown> | undefined)?.[part], config)
}

export const EXAMPLE_CONFIG = `# Breakfall's configuration: ~/.config/breakfall/config.toml (breakfall config example --write). Keep what you need.
# A folder's own breakfall.toml may set [model] name, [policy] and [limits] only, since it comes with a clone.
# Each key is also a variable ([model] baseUrl is BREAKFALL_MODEL_BASE_URL), and policies are flags (--liveness-ms).

[model]
# baseUrl = "http://127.0.0.1:8080/v1"     # any server that speaks OpenAI chat completions or Anthropic messages
# name = "qwen3-coder"
# api = "openai-chat"                      # or "anthropic-messages"
# apiKeyEnv = "OPENAI_API_KEY"             # the variable that holds the key; never the key itself
# profile = "llama-cpp"                    # what the server can do: openai, anthropic, vllm, sglang, llama-cpp, ollama,
#                                          # deepseek, mistral, openrouter, generic

# Tried in this order when the first model's tries are spent.
# [[model.fallback]]
# baseUrl = "https://api.openai.com/v1"
# name = "gpt-5"
# apiKeyEnv = "OPENAI_API_KEY"

# A model server that Breakfall starts, watches and restarts. {port} is a free port.
# [model.serve]
# command = ["llama-server", "-m", "model.gguf", "--port", "{port}"]

[runner]
# url = "http://127.0.0.1:41231"           # a runner elsewhere; left out, one is started on this machine
# tokenFile = "/path/to/token"
# resolveCommand = ["my-cloud", "runner-url"]   # prints the runner's URL, asked again whenever it cannot be reached
# resolveUrl = "http://127.0.0.1:9000/runner"   # or returns it
# isolation = "bwrap"                      # "process" runs commands without a sandbox, and has to be asked for
# allowWorkspace = ["/home/me/projects"]

[policy]
# attemptsMax = 6          # tries per step
# failuresMax = 60         # failures per turn
# waitMsMax = 1800000      # waiting between tries, per turn
# park = "auto"            # or "never": end the turn instead of waiting durably
# parkMsMax = 86400000
# outcomeUnknown = "tell"  # or "stop": what happens when nobody can know whether a command ran
# stepsMax = 200
# backoffMs = 500
# connectMs = 10000
# headersMs = 300000       # local servers load the model before they answer
# livenessMs = 120000      # silence without any byte
# progressMs = 600000      # signs of life, but no output

[limits]                   # of the boxes that runs create
# memoryMb = 1024
# pids = 256

[daemon]
# port = 4711
# stateDir = "/path/to/state"

[gateway]
# upstream = "http://127.0.0.1:8080/v1"
# hold = "tools"           # or "answer", "none"
`
