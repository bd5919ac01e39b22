/**
 * Starts a model server once, as the daemon would: how long it loads, what it prints, whether it answers. Then it is stopped.
 *
 * I1  Nothing is left behind, whether the start works, fails or is interrupted.
 * I2  Printed lines are redacted before they are shown.
 */
import { type Fault, isFault, POLICY_DEFAULTS } from '@breakfall/faults'
import { duration } from '@breakfall/faults/internal'
import { modelCommand, type ModelServer, type ModelServerSpec, serveModel } from '@breakfall/supervisor'
import { makeRedactor } from '@breakfall/supervisor/internal'
import type { Environment } from '@breakfall/supervisor/platform'
import type { ServedModel } from '../config/model.ts'
import { firstListedModel } from '../model/list.ts'
import type { Finding } from './finding.ts'

export type StartOptions = {
  readonly env: Environment
  /** The address of a running daemon, which may run the same server. */
  readonly daemon: string | undefined
  /** Stops the start. */
  readonly signal: AbortSignal
  /** Called now and then while the model loads. */
  readonly onLoading: (sentence: string) => void
}

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
    return { check: CHECK, loadMs, said: lines, ...(await answers(server, served, `loaded in ${duration(loadMs)}`)) }
  } catch (error) {
    signal.throwIfAborted()
    if (!isFault(error)) throw error
    return {
      check: CHECK,
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

function settingsOf({ serve = {} }: ServedModel): Pick<ModelServerSpec, 'healthPath' | 'limits' | 'env'> {
  const { healthPath, readyMs, env } = serve
  return {
    ...(healthPath === undefined ? {} : { healthPath }),
    ...(readyMs === undefined ? {} : { limits: { startMsMax: readyMs, startTotalMsMax: readyMs } }),
    ...(env === undefined ? {} : { env }),
  }
}

const CHECK = 'model start'
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
