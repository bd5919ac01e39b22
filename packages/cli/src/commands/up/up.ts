/** `breakfall up`: the daemon, with a runner on this machine or the configured one. */
import { once } from 'node:events'
import { DaemonClient } from '@breakfall/client'
import { type Daemon, startDaemon } from '@breakfall/daemon'
import type { UnfinishedTurn } from '@breakfall/engine'
import { EXIT_CODES, Fault, type FaultReport, isFault, sleep } from '@breakfall/faults'
import type { Gateway } from '@breakfall/gateway'
import type { Session } from '@breakfall/wire'
import { parkIn, questionOf } from '@breakfall/wire/turn'
import { type AnswerRequest, tryAnswer, type TryEvent, type TryOptions } from '@breakfall/model'
import type { Context } from '../../command-line/context.ts'
import { refuseUnusable } from '../../config/providers.ts'
import type { ResolvedConfig } from '../../config/resolve.ts'
import { runnerWarnings } from '../../config/runner.ts'
import { builtConsole } from '../../console/build.ts'
import { openConsole } from '../../console/open.ts'
import { RUN_IS_OVER } from '../../daemon/child.ts'
import { findDaemon } from '../../daemon/find.ts'
import { daemonSettings, NO_MODEL, type RunnerFlags } from '../../daemon/options.ts'
import { chooseModel, describeModel, isReachable, type ModelChoice } from '../../model/choose.ts'
import { listModels, NAMED_MS } from '../../model/list.ts'
import { cmd } from '../../process/command-name.ts'
import { prepareStateDir, stateFileFault } from '../../process/state-folder.ts'
import { listenFault } from '../../process/system-errors.ts'
import { faultPage } from '../../render/fault-help.ts'
import { logLine, warningLine } from '../../render/log-lines.ts'
import { howItContinues } from '../../render/parked.ts'
import { startTelemetry } from '../../telemetry/otlp.ts'
import { untilSignal } from '../../terminal/interrupt.ts'

export type UpOptions = RunnerFlags & {
  readonly host: string
  readonly allowHost?: readonly string[]
  readonly quiet?: boolean
  /** Opens the console in a browser. */
  readonly open?: boolean
  readonly resume: keyof typeof SCOPES
  /** Runs a gateway beside the daemon. */
  readonly gateway?: boolean
  /** It belongs to a demo. */
  readonly demo?: boolean
  /** It belongs to a local fleet. */
  readonly untilInputEnds?: boolean
  /** It belongs to a run. */
  readonly untilIdle?: boolean
}

export async function up({ out, config, reload }: Context, options: UpOptions): Promise<number> {
  out.surviveClosedStdout()
  const stopped = untilSignal()
  const isOwned = options.untilIdle === true
  const choose = modelChooser(isOwned)
  const choice = await choose(config)
  if (!isOwned) [...config.providers, ...(isReachable(choice) ? [choice] : [])].forEach(refuseUnusable)
  const { host } = options
  const { port } = config
  const stateDir = prepareStateDir(config.stateDir)
  for (const warning of runnerWarnings(config.runner)) out.say(out.styleErr('yellow', `warning: ${warning}`))
  const telemetry = await startTelemetry(config.otlpEndpoint, (sentence) => {
    const line = warningLine(sentence, Date.now())
    out.say(out.json ? line : logLine(line))
  })
  const unfinished: UnfinishedTurn[] = []
  const gateway = options.gateway === true ? await startGatewayBeside(config) : undefined
  const demo =
    options.demo === true
      ? (await import('../../demo-setup/chaos-link.ts')).chaosLink((value) => out.data(value))
      : undefined
  const daemon = await startDaemon({
    stateDir,
    store: config.store,
    fleet: { keyFile: config.fleet.keyFile, replaceAfterMs: config.fleet.replaceAfterMs },
    ...daemonSettings(config, choice, options),
    reload: async () => {
      const latest = reload()
      return daemonSettings(latest, await choose(latest), options)
    },
    port,
    host,
    console: isOwned ? undefined : await builtConsole(),
    keepPort: !isOwned,
    chaos: demo?.port,
    faultPage,
    gateway: gateway === undefined ? undefined : () => gateway.stats(),
    hosts: options.allowHost,
    policy: config.policy,
    tryAnswer: reportingMissingModel,
    firstModel: async ({ baseUrl, apiKey }) => (await listModels(baseUrl, { apiKey, timeoutMs: NAMED_MS }))?.[0],
    onRecover: (turns) => {
      unfinished.push(...turns)
      if (!out.json) for (const turn of turns) out.say(unfinishedLine(turn))
    },
    logLevel: config.logLevel ?? (isOwned || options.quiet === true ? 'warn' : 'info'),
    ...(out.json ? {} : { logTo: { write: (line: string) => out.say(logLine(line)) } }), // JSON for programs, text for people
    ...(isOwned
      ? { runnerIdleExitMs: OWNED_RUNNER_IDLE_MS, fileFields: { untilIdle: true }, recover: 'requested' as const }
      : { recover: SCOPES[options.resume], ...(demo === undefined ? {} : { fileFields: { demo: true } }) }),
  }).catch(async (error: unknown) => {
    throw isOwned && isTaken(error)
      ? error // the run that started this one uses the other daemon
      : await startFault(error, config, stateFileFault(listenFault(error, host, port ?? 0)))
  })
  const finding = daemon.findRunner()
  const runner = await soon(finding, stopped)
  const { url, tokenFile } = daemon
  const page = isOwned ? null : `${url}/`
  const { store } = daemon
  if (out.json)
    out.data({
      event: 'listening',
      url,
      pid: process.pid,
      runner,
      tokenFile,
      unfinished,
      console: page,
      gateway: gateway?.url,
      ...store,
    })
  else {
    out.line(`daemon  ${daemon.url}`)
    out.line(
      `runner  ${runner === null ? 'not reachable yet; Breakfall looks for it again when a tool needs it' : runner.url}`,
    )
    out.line(
      `model   ${choice.kind === 'none' ? `none configured; see "${cmd('config example')}"` : describeModel(choice)}`,
    )
    if (store !== undefined) out.line(`store   ${store.store} as ${store.name}`)
    out.line(`token   ${daemon.tokenFile}`)
    if (gateway !== undefined) out.line(`gateway ${gateway.url}`)
    if (page !== null && options.open !== true) out.line(`console ${page}  sign in with: ${cmd('open')}`)
    out.line(out.style('dim', 'stop with Ctrl-C; unfinished turns continue at the next start'))
  }
  if (options.open === true)
    await openConsole(new DaemonClient({ url, token: daemon.token }), { out, browse: config.childEnv })
  try {
    if (isOwned) await Promise.race([stopped, untilRested(daemon, () => out.data({ event: 'staying' }))])
    else await Promise.race([stopped, demo?.ended ?? stopped, options.untilInputEnds === true ? inputEnds() : stopped])
  } finally {
    if (isOwned) await finding // a runner that is still starting has to be stopped, too
    await gateway?.close()
    await daemon.close({ stopRunner: isOwned, releaseBoxes: isOwned || demo !== undefined })
    await telemetry.stop()
  }
  if (!out.json) out.say(stoppedMessage(runner !== null && config.runner.kind === 'local'))
  return EXIT_CODES.finished
}

/** What an `up --resume` recovers at its start. */
export const SCOPES = { interrupted: 'interrupted', all: 'all', none: 'requested' } as const

/** What happens to a turn that an earlier daemon left: which one, where, and at which server. Pure. */
export function unfinishedLine({ sessionId, workspace, provider, model, state, category }: UnfinishedTurn): string {
  const where = `session ${sessionId}${workspace === null ? '' : ` in ${workspace}`}, model ${model}`
  const what = `${where}${provider === null || provider.baseUrl === '' ? '' : ` at ${provider.baseUrl}`}`
  if (state === 'cut-off') return `resuming ${what}`
  if (state === 'asking' && category !== null)
    return `waiting  ${what}: parked (${category}); ${howItContinues(sessionId, true, category)}`
  if (state === 'waiting') return `waiting  ${what}: parked (${category}), and resumes on its own`
  return `parked   ${what}: ${category}. Fix that, then: ${cmd('resume')} ${sessionId}`
}

// ---- details, in the order they are used above ----

/** A gateway in the daemon's process: the console shows its streams. Loaded only on request. */
async function startGatewayBeside({ gateway, policy }: ResolvedConfig): Promise<Gateway> {
  if (gateway.upstream === undefined)
    throw new Fault('invalid_request', {
      error: 'The gateway needs a model server; set [gateway] upstream or [model] baseUrl in your config.toml',
    })
  const { startGateway } = await import('@breakfall/gateway')
  return startGateway({ upstream: [gateway.upstream], hold: gateway.hold, policy, logger: false })
}

/**
 * Until standard input is closed and every turn rests: then a run's daemon is no longer needed. A parked turn is on disk and rests,
 * unless someone follows it, or its run was lost or has left it, and it does not wait without an end. Calls `onStay` once if there is
 * still work.
 */
async function untilRested({ sessions }: Daemon, onStay: () => void): Promise<void> {
  const saidLast = await inputRead()
  const isNeeded = (isReadHere: boolean, turn: Session['turn']): boolean => {
    const park = parkIn(turn)
    return park !== null && (isReadHere || (saidLast !== RUN_IS_OVER && questionOf(park) !== 'steps'))
  }
  // Only turns that this daemon works on count, not those of another one.
  const holds = (): boolean =>
    [...sessions.loader.all].some((session) => {
      if (!sessions.loader.owns(session.id)) return false
      const { state, turn } = session.shownRow
      return state === 'busy' || isNeeded(session.feed.readers > 0, turn)
    })
  if (holds()) await sleep(CHECK_MS) // the run's own stream may be closing
  if (holds()) onStay()
  do {
    while (holds()) await sleep(CHECK_MS)
    if (saidLast !== RUN_IS_OVER) await sleep(LAST_CALLS_MS)
  } while (holds())
}

/** Resolves when the process that started this daemon has exited. */
const inputEnds = (): Promise<unknown> => once(process.stdin.resume(), 'close')

/**
 * Chooses again only if the model's settings have changed, because the daemon asks before every answer. A run's daemon inherits
 * the run's environment, but its sessions bring their own models: only a file sets a default for it.
 */
function modelChooser(isOwned: boolean): (config: ResolvedConfig) => Promise<ModelChoice> {
  let settings: string | undefined
  let choice: ModelChoice | undefined
  return async ({ model }) => {
    if (isOwned && (model.kind === 'unset' || (model.kind === 'remote' && !model.isFromFile))) return { kind: 'none' }
    const latest = JSON.stringify(model)
    if (choice === undefined || isOpen(choice) || latest !== settings) choice = await chooseModel(model, listModels)
    settings = latest
    return choice
  }
}

/** Another look may find more: a server that is up by now, or its list of models. */
const isOpen = (choice: ModelChoice): boolean =>
  choice.kind === 'none' || (choice.kind === 'remote' && choice.name === undefined)

const stoppedMessage = (leavesRunner: boolean): string =>
  leavesRunner
    ? 'stopped; the runner stays for ten minutes in case the daemon starts again'
    : 'stopped; unfinished turns continue at the next start'

const isTaken = (error: unknown): boolean => isFault(error) && error.category === 'lease_lost'

/** A second daemon is a usage error, like a port in use: says where the first one is. */
async function startFault(error: unknown, config: ResolvedConfig, otherwise: unknown): Promise<unknown> {
  if (!isTaken(error)) return otherwise
  const other = await findDaemon(config).catch(() => undefined) // what is wrong with it does not matter here
  const where = other === undefined ? 'but does not answer yet' : `at ${other.address.url}`
  const sentence = `A daemon is already running for the state folder ${config.stateDir}, ${where}; use it, stop it, or choose another --state-dir`
  return new Fault('invalid_request', { error: sentence, errorRaw: sentence })
}

const RUNNER_MS_MAX = 8_000

/** The runner, if it is found soon. The daemon serves without one, and looks for it when a tool needs it. */
async function soon<T>(finding: Promise<T | undefined>, stopped: Promise<unknown>): Promise<T | null> {
  const waiting = new AbortController()
  const tooLong = sleep(RUNNER_MS_MAX, waiting.signal).then(() => undefined)
  const found = await Promise.race([finding, tooLong, stopped.then(() => undefined)])
  waiting.abort()
  return found ?? null
}

/** A run stops its runner when it ends. If the run is killed, the runner exits after this time. */
const OWNED_RUNNER_IDLE_MS = 5 * 60_000

/** Without a model a turn fails at once and says so. The next prompt uses what is configured by then. */
async function* reportingMissingModel(request: AnswerRequest, options: TryOptions): AsyncGenerator<TryEvent> {
  for await (const event of tryAnswer(request, options))
    yield event.type === 'failed' && request.baseUrl === NO_MODEL ? { ...event, fault: noModel() } : event
}

const noModel = (): FaultReport =>
  new Fault('model_endpoint_invalid', {
    error:
      'No model is configured for this daemon; set [model] baseUrl in your config.toml, or start the daemon with OPENAI_BASE_URL, OPENAI_API_KEY or ANTHROPIC_API_KEY, then send the prompt again',
    errorRaw: 'no model is configured',
  }).report

const CHECK_MS = 200
const LAST_CALLS_MS = 2_000 // a command that has just resumed or answered the turn asks how that went

/** What standard input said before it was closed. */
async function inputRead(): Promise<string> {
  let text = ''
  try {
    for await (const chunk of process.stdin) text = (text + String(chunk)).slice(-RUN_IS_OVER.length)
  } catch {
    // Whatever broke it: there will be no more.
  }
  return text
}
