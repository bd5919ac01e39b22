/**
 * The doctor's checks of a model server that Breakfall starts: its program and the files of its command, and on request one start.
 *
 * I1  Nothing is left behind, whether the start works, fails or is interrupted.
 * I2  Printed lines are redacted before they are shown.
 */
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type Fault, isFault, POLICY_DEFAULTS } from '@breakfall/faults'
import { duration, errorCode } from '@breakfall/faults/internal'
import { modelCommand, type ModelServer, type ModelServerSpec, preflight, serveModel } from '@breakfall/supervisor'
import { makeRedactor } from '@breakfall/supervisor/internal'
import type { Environment } from '@breakfall/supervisor/platform'
import type { ServedModel } from '../../config/model.ts'
import { firstListedModel } from '../../model/list.ts'
import { cmd } from '../../process/command-name.ts'
import type { Finding } from './finding.ts'

/** Without starting it. `folder` is where the daemon starts, as a run in it would. */
export async function checkServedModel(
  { command, origin }: ServedModel,
  { env, folder }: { readonly env: Environment; readonly folder: string },
): Promise<readonly Finding[]> {
  const [program = ''] = command
  const files = filesNamedIn(command)
  const unstartable = await preflight({ command: program, cwd: folder, env })
  const unreadable = (await Promise.all(files.map((file) => problemWith(file, folder)))).filter(
    (problem) => problem !== undefined,
  )
  const problems = [
    ...(unstartable === undefined ? [] : [{ what: unstartable.detail, fix: 'install it, or use its full path' }]),
    ...unreadable,
  ]
  if (problems.length > 0)
    return problems.map(({ what, fix }) => ({
      check: FILES_CHECK,
      verdict: 'bad',
      found: what,
      fix: `${fix} (${origin})`,
    }))
  const exist = [program, ...files.map(({ path }) => path)].join(' and ')
  const found = `${exist} ${files.length === 0 ? 'exists' : 'exist'}, and {port} becomes a free port; to try it: ${cmd('doctor')} --start-model`
  return [{ check: FILES_CHECK, verdict: 'ok', found }]
}

export type NamedFile = {
  readonly path: string
  /** The flag that it belongs to, or undefined for a word on its own. */
  readonly flag: string | undefined
}

/** The files that a command reads, as far as its words show. Pure: looks at no disk. Values of unknown flags are left out: a log file, for example, need not exist yet. So are names of models in a registry. */
export function filesNamedIn(command: readonly string[]): readonly NamedFile[] {
  return command.slice(1).flatMap((word, index) => {
    const [, flag, value = ''] = /^(--?[\w-]+)=(.*)$/s.exec(word) ?? []
    if (flag !== undefined) return INPUT_FLAGS.has(flag) && isFile(value) ? [{ path: value, flag }] : []
    const before = command[index] ?? '' // `index` counts without the program
    const isValue = index > 0 && /^-[^=]*$/.test(before)
    if (!isFile(word) || (isValue && !INPUT_FLAGS.has(before))) return []
    return [{ path: word, flag: isValue ? before : undefined }]
  })
}

export type StartOptions = {
  readonly env: Environment
  /** The address of a running daemon, which may run the same server. */
  readonly daemon: string | undefined
  /** Stops the start. */
  readonly signal: AbortSignal
  /** Called now and then while the model loads. */
  readonly onLoading: (sentence: string) => void
}

/** Starts it once, as the daemon would: how long it loads, what it prints, whether it answers. Then it is stopped. */
export async function startModelOnce(served: ServedModel, options: StartOptions): Promise<Finding> {
  const { signal, onLoading } = options
  const said = new LastLines(makeRedactor({ inherited: options.env })) // I2
  const server = serveModel({
    ...modelCommand(served.command),
    ...settingsOf(served),
    onLine: (line, stream) => said.add(line, stream),
    mayRestart: () => false,
  })
  const startedAt = performance.now()
  const loading = setInterval(() => {
    const last = said.lines.at(-1)
    onLoading(`loading for ${duration(performance.now() - startedAt)}${last === undefined ? '' : `: ${last}`}`)
  }, LOADING_EVERY_MS)
  const stop = (): void => void server.stop()
  signal.addEventListener('abort', stop)
  try {
    signal.throwIfAborted()
    await server.start()
    const loadMs = Math.round(performance.now() - startedAt)
    clearInterval(loading)
    const lines = said.lines // before the lines of its shutdown
    return {
      check: START_CHECK,
      loadMs,
      said: lines,
      ...(await answers(server, served, `loaded in ${duration(loadMs)}`)),
    }
  } catch (error) {
    signal.throwIfAborted()
    if (!isFault(error)) throw error
    return {
      check: START_CHECK,
      verdict: 'bad',
      found: whatHappened(error),
      fix: fixFor(served, options),
      said: said.lines,
      fault: error.report,
    }
  } finally {
    clearInterval(loading)
    signal.removeEventListener('abort', stop)
    await server.stop() // I1
  }
}

// ---- details, in the order they are used above ----

const FILES_CHECK = 'model server'

async function problemWith(
  { path, flag }: NamedFile,
  folder: string,
): Promise<{ readonly what: string; readonly fix: string } | undefined> {
  try {
    await access(resolve(folder, path), constants.R_OK)
    return undefined
  } catch (error) {
    const named = `${path}${flag === undefined ? '' : ` (${flag})`}`
    if (path.startsWith('~/'))
      return { what: `${named} is no path: no shell expands the ~`, fix: 'write the full path' }
    if (errorCode(error) !== 'ENOENT')
      return { what: `${named} cannot be read (${errorCode(error)})`, fix: 'make it readable' }
    const where = path.startsWith('/') ? '' : ` in ${folder}`
    return { what: `${named} does not exist${where}`, fix: 'correct the path, or download the file' }
  }
}

/** Of llama-server, vLLM, SGLang and servers with the same flags. */
const INPUT_FLAGS: ReadonlySet<string> = new Set([
  '-m',
  '--model',
  '--model-path',
  '-mm',
  '--mmproj',
  '-md',
  '--model-draft',
  '--lora',
  '--control-vector',
  '--grammar-file',
  '--json-schema-file',
  '--chat-template',
  '--chat-template-file',
  '--tokenizer',
  '--tokenizer-path',
  '--config',
  '--api-key-file',
  '--ssl-key-file',
  '--ssl-cert-file',
  '--ssl-keyfile',
  '--ssl-certfile',
])

/** `Qwen/Qwen3-8B` is a name in a registry; `./Qwen3-8B`, `/models/qwen` and `qwen.gguf` are files. */
const isFile = (word: string): boolean =>
  !word.includes('{port}') &&
  !word.includes('\n') &&
  (/^(?:\/|\.\.?\/|~\/)/.test(word) ||
    /^[^-\s:][^:]*\.(?:gguf|ggml|bin|safetensors|jinja|gbnf|json|ya?ml|pem|key|crt|py|[cm]?[jt]s|sh)$/i.test(word))

function settingsOf({ serve = {} }: ServedModel): Pick<ModelServerSpec, 'healthPath' | 'limits' | 'env'> {
  const { healthPath, readyMs, env } = serve
  return {
    ...(healthPath === undefined ? {} : { healthPath }),
    ...(readyMs === undefined ? {} : { limits: { startMsMax: readyMs, startTotalMsMax: readyMs } }),
    ...(env === undefined ? {} : { env }),
  }
}

const START_CHECK = 'model start'
const LOADING_EVERY_MS = 5_000
const LINES_MAX = 5
const LINE_CHARS_MAX = 400

/** The last lines of stderr; of stdout if nothing else was printed. */
class LastLines {
  readonly #kept = { stderr: [] as string[], stdout: [] as string[] }
  readonly #redact: (text: string) => string

  constructor(redact: (text: string) => string) {
    this.#redact = redact
  }

  add(line: string, stream: 'stdout' | 'stderr'): void {
    if (line.trim() === '') return
    const kept = this.#kept[stream]
    kept.push(this.#redact(line).slice(0, LINE_CHARS_MAX))
    if (kept.length > LINES_MAX) kept.shift()
  }

  get lines(): readonly string[] {
    const { stderr, stdout } = this.#kept
    return [...(stderr.length > 0 ? stderr : stdout)]
  }
}

async function answers(
  server: ModelServer,
  { apiKey, origin }: ServedModel,
  loaded: string,
): Promise<Pick<Finding, 'verdict' | 'found' | 'fix' | 'fault'>> {
  using request = await server.request()
  try {
    const baseUrl = `${request.url}/v1`
    const model = await firstListedModel({ baseUrl, apiKey, apiKeyVariable: undefined }, ONE_ATTEMPT)
    const about = model === undefined ? 'it answers, but lists no models' : `it answers and lists ${model}`
    return { verdict: 'ok', found: `${loaded}; ${about}` }
  } catch (error) {
    if (!isFault(error)) throw error
    const fault = await request.judge(error)
    const fix = `it must answer GET /v1/models (${origin})`
    return { verdict: 'bad', found: `${loaded}, but: ${whatHappened(fault)}`, fix, fault: fault.report }
  }
}

const ONE_ATTEMPT = { ...POLICY_DEFAULTS, attemptsMax: 1 }

/** Without what the supervisor does next: the doctor starts the server once. */
const whatHappened = (fault: Fault): string => fault.report.message?.happened ?? fault.error

const fixFor = ({ origin }: ServedModel, { daemon }: StartOptions): string =>
  daemon === undefined
    ? `correct the command (${origin}), or what it names`
    : `correct the command (${origin}), or what it names; the daemon at ${daemon} may run this server too: stop it if both do not fit in memory`
