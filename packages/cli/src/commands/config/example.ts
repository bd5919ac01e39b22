/** `breakfall config example`: a commented config file to start from. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { Fault } from '@breakfall/faults'
import { PROFILE_NAMES } from '@breakfall/model/names'
import { userConfigFile } from '../../config/paths.ts'

/** The example, or with `write` the file that it was written into. */
export function exampleText({ write = false }: { readonly write?: boolean }): string {
  if (!write) return EXAMPLE_CONFIG
  const file = userConfigFile(process.env)
  writeExample(file)
  return `${file}\n`
}

/** Never overwrites a file. */
export function writeExample(file: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    writeFileSync(file, EXAMPLE_CONFIG, { flag: 'wx', mode: 0o600 })
  } catch (cause) {
    const why = existsSync(file) ? 'the file exists' : 'permission denied, or not a folder'
    throw new Fault('invalid_request', { error: `Cannot write ${file}: ${why}; nothing was changed`, cause })
  }
}

const PROFILES = [...PROFILE_NAMES.filter((name) => name !== 'generic'), 'generic']

export const EXAMPLE_CONFIG = `# Breakfall's configuration: ~/.config/breakfall/config.toml (breakfall config example --write). Keep what you need.
# A folder's own breakfall.toml may only set the model's name, [policy], [limits] and [box] env, because it comes with a clone.
# Each key is also an environment variable ([model] baseUrl is BREAKFALL_MODEL_BASE_URL), each policy also a flag (--liveness-ms).

# [model]
# baseUrl = "http://127.0.0.1:8080/v1"     # any server that speaks OpenAI chat completions or Responses, or Anthropic messages
# name = "qwen3-coder"
# api = "openai-chat"                      # or "openai-responses", "anthropic-messages"
# apiKeyEnv = "OPENAI_API_KEY"             # the variable that holds the key; never the key itself
# profile = "llama-cpp"                    # what the server supports: ${PROFILES.slice(0, 6).join(', ')},
#                                          # ${PROFILES.slice(6).join(', ')}
# contextTokens = 131072                   # the context window, if you know it
# outputTokensMax = 32000                  # the most that one answer may have; default: the server's, and for Claude the model's own limit
# priceIn = 1.25                           # for a million tokens; runs then show what they cost
# priceOut = 10
# priceCacheRead = 0.125                   # input that the provider's cache had; for Claude a tenth of priceIn
# priceCacheWrite = 1.25                   # input that it put there; for Claude 1.25 times priceIn
# background = true                        # api "openai-responses": read on after a break; the provider stores the answers

# Several providers at once: model = "cloud/gpt-5" above every [table] and without [model], or [model] name = "cloud/gpt-5", or --model cloud/gpt-5.
# [providers.cloud]
# baseUrl = "https://api.openai.com/v1"
# apiKeyEnv = "WORK_OPENAI_KEY"            # or store the key: breakfall login cloud
# [providers.local.serve]                  # its server starts when a session first uses local/NAME
# command = ["llama-server", "-m", "model.gguf", "--port", "{port}"]
# healthPath = "/health"
# readyMs = 600000                         # how long it may take to load
# env = { CUDA_VISIBLE_DEVICES = "0" }

# Used in this order when the attempts with the first model are used up.
# [[model.fallback]]
# baseUrl = "https://api.openai.com/v1"
# name = "gpt-5"
# apiKeyEnv = "OPENAI_API_KEY"

# A model server that Breakfall starts, monitors and restarts. {port} becomes a free port.
# [model.serve]
# command = ["llama-server", "-m", "model.gguf", "--port", "{port}"]

[runner]
# url = "http://127.0.0.1:41231"           # a runner elsewhere; by default one is started on this machine
# tokenFile = "/path/to/token"
# resolveCommand = ["my-cloud", "runner-url"]   # prints the runner's URL; runs again when the runner is unreachable
# resolveUrl = "http://127.0.0.1:9000/runner"   # or responds with it
# isolation = "bwrap"                      # "process" runs commands without a sandbox
# allowWorkspace = ["/home/me/projects"]
# boxesMax = 1000                          # boxes that may run at once
# join = ["http://daemons:7400"]           # "breakfall runner" registers there: docs/how-to/fleet.md
# advertise = "http://10.0.0.7:7411"       # the URL at which daemons reach it; by default the address it listens on
# advertiseCommand = ["my-cloud", "my-url"]     # or a command that prints it
# labels = ["gpu"]                         # what sessions can ask for
# capacity = 100                           # boxes that may run there at once

[run]
# sameFolder = "wait"             # if another session works in the folder: wait, share or refuse

[policy]
# attemptsMax = 6          # attempts per step
# patienceMs = 120000      # how long to retry a model server that is away, loading or overloaded
# failuresMax = 60         # failures per turn
# waitMsMax = 1800000      # total wait between attempts, per turn
# park = "auto"            # or "never": fail the turn instead of parking it
# parkMsMax = 86400000
# outcomeUnknown = "tell"  # or "stop": what to do if it is unknown whether a command ran
# stepsMax = 200
# compactionsMax = 50
# backoffMs = 500
# connectMs = 10000
# headersMs = 300000       # local servers load the model before they answer
# livenessMs = 120000      # time limit without a single byte
# progressMs = 600000      # time limit with heartbeats but no output
# boxIdleMs = 600000       # how long an idle session keeps its box
# approve = "unsafe"       # which tool calls wait for your yes: never, unsafe, always
# approveMsMax = 86400000  # how long a call waits for it

[limits]                   # of the boxes that runs create
# memoryMb = 1024
# pids = 256

[box]                      # what the boxes of runs get besides their folder and your toolchains
# env = { CI = "1" }
# passEnv = ["NPM_TOKEN"]  # variables of yours that go in; none do by default
# mounts = ["~/data", "/srv/cache:rw"]     # read-only unless :rw
# network = "none"         # or ["npm", "packages.example.org"]: only these; or "host": everything this machine can reach
# home = "real"            # "private" hides your toolchains

[agent]
# systemPrompt = "You are terse."   # replaces Breakfall's own words; your box and the project's AGENTS.md are still described
# append = "Answer in German."      # added at the end

[daemon]
# port = 4711
# stateDir = "/path/to/state"
# store = "postgres://breakfall@db/breakfall"   # share sessions with other daemons; without it, a journal in the state folder
# name = "daemon-1"        # in the fleet; the host's name by default
# leaseMs = 15000          # how long other daemons wait for this one before they take over
# drainMs = 0              # when it stops or drains: how long turns may take to finish their step
# hintsUrl = "postgres://breakfall@db:5432/breakfall"  # a direct connection, if store is a pooler such as PgBouncer

[fleet]
# keyFile = "/etc/breakfall/fleet.key"   # the same on every daemon
# keepDays = 30            # delete sessions that were not used for this long
# replaceAfterMs = 600000  # declare a runner lost after this long; by default only a person does

# Tools from outside: docs/how-to/mcp.md
# [mcp.files]
# command = "npx"
# args = ["-y", "@modelcontextprotocol/server-filesystem", "/path/to/folder"]
# trust = ["read_text_file"]   # believe what these tools say about themselves
# [tools.ticket]
# command = ["./scripts/ticket.sh"]   # runs in the box; gets JSON on standard input
# effect = "pure"

# Ended sessions are deleted when one of these limits is passed, the longest unused first. By default nothing is deleted.
[retention]
# sessionDays = 30
# sessionsMax = 1000
# bytesMax = 1073741824    # of all sessions in the journal

# Spans and metrics of turns and of the gateway, without prompts, keys or outputs.
[telemetry]
# otlpEndpoint = "http://127.0.0.1:4318"

[gateway]
# upstream = "http://127.0.0.1:8080/v1"
# hold = "auto"            # or "tools", "answer", "none"
`
