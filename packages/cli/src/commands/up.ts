/** `breakfall up`: the daemon, with a runner on this machine or the one that the configuration names. */
import { setTimeout as sleep } from 'node:timers/promises'
import { EXIT_CODES, Fault, type FaultReport, isFault } from '@breakfall/faults'
import { startDaemon } from '@breakfall/daemon'
import { type AnswerRequest, tryAnswer, type TryEvent, type TryOptions } from '@breakfall/model'
import { loadConfig, type LoadedConfig } from '../config/load.ts'
import { configFlags } from '../command-line/flags.ts'
import { liveConfig, NO_MODEL } from '../daemon/options.ts'
import { findDaemon } from '../daemon/find.ts'
import { chooseModel, listModels, type ModelChoice } from '../model/choose.ts'
import type { Context } from '../program.ts'
import { logLine } from '../render/log-lines.ts'
import { listenFault, prepareStateDir, stateFileFault, tokenWarnings } from '../process/start-errors.ts'
import { untilAsked } from '../process/until-signal.ts'
import { untilIdle } from '../daemon/until-idle.ts'
import { currentFolder } from '../workspace/work-folder.ts'

export async function up(context: Context): Promise<number> {
  const { out, options, loaded, env } = context
  out.outlivesItsReader()
  const folder = currentFolder()
  const asked = untilAsked()
  const choose = chooser(env)
  const choice = await choose(loaded)
  const isOwned = options['untilIdle'] === true
  const host = options['host'] as string
  const port = loaded.config.daemon?.port ?? 0
  const stateDir = prepareStateDir(context.stateDir)
  if (isOwned && choice === undefined && loaded.config.model?.serve === undefined)
    throw new Fault('invalid_request', { error: 'no model is configured; see "breakfall config example"' })
  for (const warning of tokenWarnings(loaded.config)) out.say(out.styleErr('yellow', `warning: ${warning}`))
  const daemon = await startDaemon({
    stateDir,
    ...liveConfig(loaded.config, choice, context),
    reload: async () => {
      const again = loadConfig({ env, folder, flags: configFlags(options) })
      return liveConfig(again.config, await choose(again), context)
    },
    port,
    host,
    policy: loaded.config.policy,
    tryAnswer: sayingWhereNoModelIs,
    logLevel: env['BREAKFALL_LOG'] ?? (isOwned || options['quiet'] === true ? 'warn' : 'info'),
    ...(out.isTalkTerminal && !out.json ? { logTo: { write: (line: string) => out.say(logLine(line)) } } : {}),
    ...(isOwned
      ? { runnerIdleExitMs: OWNED_RUNNER_IDLE_MS, fileFields: { untilIdle: true }, recover: 'requested' as const }
      : {}),
  }).catch(async (error: unknown) => {
    throw isOwned && isTaken(error)
      ? error
      : await startFault(error, context, stateFileFault(listenFault(error, host, port)))
  })
  const finding = daemon.findRunner()
  const runner = await soon(finding, asked)
  if (out.json)
    out.data({
      event: 'listening',
      url: daemon.url,
      pid: process.pid,
      runner,
      tokenFile: daemon.tokenFile,
    })
  else {
    out.line(`daemon  ${daemon.url}`)
    out.line(`runner  ${runner === null ? 'not reachable yet; it is looked for when a tool needs it' : runner.url}`)
    out.line(
      `model   ${choice === undefined ? 'none configured: see "breakfall config example"' : `${choice.name} at ${choice.baseUrl} (${choice.because})`}`,
    )
    out.line(`token   ${daemon.tokenFile}`)
    out.line(out.style('dim', 'stop with Ctrl-C; turns go on at the next start'))
  }
  try {
    if (isOwned) await Promise.race([asked, untilIdle(daemon, () => out.data({ event: 'staying' }))])
    else await asked
  } finally {
    if (isOwned) await finding // one that is just being started has to be stopped, too
    await daemon.close({ stopRunner: isOwned })
  }
  if (!out.json) out.say(lastWords(runner !== null && isLocal(loaded.config.runner)))
  return EXIT_CODES.finished
}

// ---- details ----

const isLocal = (runner: LoadedConfig['config']['runner']): boolean =>
  (runner?.url ?? runner?.resolveUrl ?? runner?.resolveCommand) === undefined

const lastWords = (leavesRunner: boolean): string =>
  leavesRunner
    ? 'stopped; the runner waits ten minutes for the next start, then ends by itself'
    : 'stopped; turns go on at the next start'

/** A run that started this one uses the other then. */
const isTaken = (error: unknown): boolean => isFault(error) && error.category === 'lease_lost'

/** Of a second daemon it is said where the first one is: a mistake, like a port that is taken. */
async function startFault(error: unknown, { stateDir, env }: Context, otherwise: unknown): Promise<unknown> {
  if (!isTaken(error)) return otherwise
  const other = await findDaemon(stateDir, env).catch(() => undefined) // what is wrong with it is not the question here
  const where = other === undefined ? 'and does not answer yet' : `at ${other.url}`
  const sentence = `a daemon runs for the state folder ${stateDir} already, ${where}; use that one, stop it, or choose another --state-dir`
  return new Fault('invalid_request', { error: sentence, errorRaw: sentence }) // that its lock is taken says nothing more
}

/** Chooses anew only where the model's settings have changed: this is asked before every answer. */
function chooser(env: Context['env']): (loaded: LoadedConfig) => Promise<ModelChoice | undefined> {
  let settings: string | undefined
  let choice: ModelChoice | undefined
  return async (loaded) => {
    const now = JSON.stringify(loaded.config.model ?? null)
    if (choice === undefined || choice.isGuessed || now !== settings)
      choice = await chooseModel(loaded, env, listModels)
    settings = now
    return choice
  }
}

const RUNNER_MS_MAX = 8_000

/** The runner where it is found in time. A daemon without one serves all the same: it is looked for when a tool needs it. */
async function soon<T>(found: Promise<T | undefined>, asked: Promise<unknown>): Promise<T | null> {
  const waiting = new AbortController()
  const tooLong = sleep(RUNNER_MS_MAX, undefined, { signal: waiting.signal }).catch(() => undefined) // found first
  const result = await Promise.race([found, tooLong, asked.then(() => undefined)])
  waiting.abort()
  return result ?? null
}

/** The runner of a run is ended with it. Should nobody be left to do that, it ends by itself some minutes later. */
const OWNED_RUNNER_IDLE_MS = 5 * 60_000

/** Where nothing is configured a turn ends at once and says so; the next prompt finds what was set meanwhile. */
async function* sayingWhereNoModelIs(request: AnswerRequest, options: TryOptions): AsyncGenerator<TryEvent> {
  for await (const event of tryAnswer(request, options))
    yield event.type === 'failed' && request.baseUrl === NO_MODEL ? { ...event, fault: noModel() } : event
}

const noModel = (): FaultReport =>
  new Fault('model_endpoint_invalid', {
    error:
      'no model is configured for this daemon; set [model] baseUrl in your config.toml, or start the daemon with OPENAI_BASE_URL, OPENAI_API_KEY or ANTHROPIC_API_KEY, then ask again',
    errorRaw: 'no model is configured',
  }).report
