/**
 * Assembles and starts a daemon: journal first, then recovery of unfinished turns, then the HTTP server. Shutdown runs in reverse
 * order and has a deadline.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Fault, redact } from '@breakfall/faults'
import { tryAnswer } from '@breakfall/model'
import { within } from '@breakfall/supervisor/internal'
import { DAEMON_HEADER } from '@breakfall/wire'
import { bearerToken, createService, type HttpServer, loadTokens, refuseIfReadOnly } from '@breakfall/wire/node'
import type { Logger } from 'pino'
import { chaosRoutes } from './api/chaos-routes.ts'
import { ConsoleDoor, ticketsInMemory, ticketsInStore } from './api/console-door.ts'
import { consoleRoutes } from './api/console-routes.ts'
import { createMetrics, type DaemonMetrics } from './api/metrics.ts'
import { parkedCategories } from './api/turn-metrics.ts'
import { fleetRoutes } from './api/fleet-routes.ts'
import { daemonRoutes } from './api/routes.ts'
import { runnerRoutes } from './api/runner-routes.ts'
import { seenRoutes } from './api/seen-routes.ts'
import { viewRoutes } from './api/view-routes.ts'
import { WebSocketApi } from './api/websocket.ts'
import manifest from '../package.json' with { type: 'json' }
import { TurnTraces } from './telemetry/turn-traces.ts'
import { Pacing } from './engine/pacing.ts'
import { Engine } from './engine/engine.ts'
import { Feeds } from './engine/feeds.ts'
import { Undoing } from './engine/undo.ts'
import { Gate } from './engine/ownership.ts'
import { Folders } from './engine/folders.ts'
import { BoxReleases } from './engine/box-releases.ts'
import { BoxRemovals } from './engine/box-removals.ts'
import { SessionLoader } from './engine/loader.ts'
import type { Ports } from './engine/ports.ts'
import { Pruning } from './engine/pruning.ts'
import { Retention } from './engine/retention.ts'
import { Sessions } from './engine/sessions.ts'
import { Fleet } from './fleet.ts'
import type { WatchHub } from './engine/watch-hub.ts'
import { readiness } from './readiness.ts'
import { observing } from './telemetry/observe.ts'
import { listenAsBefore, notePort } from './last-port.ts'
import { logFault, logger } from './log.ts'
import { ConfigReader } from './live-config.ts'
import { providersOf } from './providers/bind.ts'
import { keyMarker } from './providers/key-marks.ts'
import { Providers } from './providers/providers.ts'
import { ServedModels } from './providers/served-models.ts'
import { SessionKeys } from './providers/session-keys.ts'
import { DAEMON_LIMITS, type DaemonLimits, type DaemonOptions, resolvePolicy } from './options.ts'
import { OutsideTools } from './outside/outside-tools.ts'
import { isConfigured, isOnThisMachine, RunnerEndpoint } from './runner/endpoint.ts'
import { findRunner } from './runner/find-runner.ts'
import { joinedRunners, type RunnerFleet } from './runner/runner-fleet.ts'
import { Runners } from './runner/runners.ts'
import { Secrets } from './secrets.ts'
import type { SystemView } from './system.ts'
import { watching } from './watching.ts'
import { openStore, passwordsIn, sharedStore, shownName } from './store/open-store.ts'
import type { Store } from './store/store.ts'

const { version } = manifest

const ANSWER_GRACE_MS = 250 // streams were closed before; any other response takes milliseconds

export type Daemon = {
  readonly url: string
  readonly pid: number
  readonly tokenFile: string
  readonly token: string
  /** The same operations as over the API, for programs that embed the daemon. */
  readonly sessions: Sessions
  /** How many unfinished turns were recovered at the start. */
  readonly recovered: number
  /** The shared store, without its password, and who this daemon is in it. */
  readonly store: { readonly store: string; readonly bootId: string; readonly name: string } | undefined
  /** Finds, adopts or starts the runner now. Undefined if it cannot be reached yet. */
  findRunner(): Promise<{ readonly url: string; readonly runnerId: string } | undefined>
  /** Hands over running turns and closes everything. */
  close(options?: CloseOptions): Promise<void>
}

type CloseOptions = {
  /** Also ends the runner on this machine. */
  readonly stopRunner?: boolean
  /** Releases the boxes of idle sessions first. */
  readonly releaseBoxes?: boolean
}

export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const limits: DaemonLimits = { ...DAEMON_LIMITS, ...options.limits }
  const { stateDir } = options
  mkdirSync(stateDir, { recursive: true, mode: 0o700 })
  const tokenFile = options.tokenFile ?? join(stateDir, 'daemon.token')
  const grants = loadTokens(tokenFile)
  const token = (grants.find(({ isReadOnly }) => !isReadOnly) ?? grants[0])?.token ?? ''
  const hosts = (options.hosts ?? []).map((host) => host.toLowerCase().replace(/:\d+$/, ''))
  const secrets = new Secrets()
  secrets.set(grants.map((grant) => grant.token))
  const log = logger(options, secrets)
  if (options.store !== undefined) secrets.set(passwordsIn([options.store.url, options.store.hintsUrl]))
  const store = await openStore(options, version)
  const tickets = store.runners === undefined ? ticketsInMemory() : ticketsInStore(store.runners)
  const door = new ConsoleDoor(grants, options.now ?? Date.now, tickets)
  try {
    const parts = await assemble(options, { limits, secrets, log, store, tokenFile })
    const { sessions, engine, boxReleases, retention, metrics, runner, fleet } = parts
    const recovered = await sessions.loader.recoverAll(options.onRecover)
    const sockets = new WebSocketApi({
      sessions,
      hub: parts.hub,
      limits,
      hosts,
      grantOf: (given) => door.grantOf(given),
      onFault: (fault) => logFault(log, fault, {}),
    })
    parts.countSockets(() => sockets.connections)
    const service = createService({
      upgrade: (req, socket, head) => sockets.upgrade(req, socket, head),
      routes: daemonRoutes({
        sessions,
        limits,
        version,
        ready: () => readiness(store, { hasRunner: runner.known.length > 0, isClosing: parts.isClosing() }),
        model: () => parts.model(),
        metricsText: () => metrics.text(),
        more: [
          ...fleetRoutes(store),
          ...runnerRoutes(parts.runnerFleet),
          ...consoleRoutes(door, options.console ?? NO_CONSOLE),
          ...seenRoutes(store),
          ...viewRoutes({ ...parts, limits, options }),
          ...chaosRoutes(options.chaos),
        ],
        outside: parts.outside,
      }),
      boundary: 'daemon',
      hosts,
      headers: { [DAEMON_HEADER]: shownName(store) },
      authorize: (req) => {
        const grant = door.grantOf(bearerToken(req))
        if (grant === undefined) throw new Fault('unauthorized')
        refuseIfReadOnly(grant, req.method)
      },
      onAnswer: (answer) => metrics.request(answer),
      onFault: (fault, call) => logFault(log, fault, call),
    })
    const { url, port } = await listen(service, options)
    try {
      if (options.isMomentary !== true) {
        writeDaemonFile(stateDir, { url, tokenFile, ...options.fileFields })
        if (options.keepPort !== false) notePort(stateDir, port)
      }
    } catch (error) {
      await service.close({ graceMs: 0 }) // a server that no client can find would keep the process alive
      throw error
    }
    log.info({ url }, 'listening')
    boxReleases.start()
    retention.start()
    await fleet.start(options.publicUrl ?? url, parts.configHash())
    let closing: Promise<void> | undefined
    const close = async ({ stopRunner = false, releaseBoxes = false }: CloseOptions): Promise<void> => {
      boxReleases.close()
      parts.hub.close()
      await parts.handOver()
      await within(engine.allSettled(), limits.shutdownMs)
      if (releaseBoxes) await within(boxReleases.releaseAll(), limits.shutdownMs)
      await within(retention.close(), limits.shutdownMs)
      await fleet.close()
      parts.feeds.endAll(store.isShared ? 'draining' : 'shutting_down')
      sockets.close()
      await service.close({ graceMs: Math.min(ANSWER_GRACE_MS, limits.shutdownMs) })
      await Promise.all([parts.providers.stop(), parts.outside.stop()])
      await parts.feeds.close()
      await parts.runnerFleet?.registration.close()
      if (stopRunner) await runner.stopLocal()
      await store.close()
      await runner.close() // last: a call that it cuts off must not reach the journal as a failure
      rmSync(join(stateDir, 'daemon.json'), { force: true })
    }
    return {
      url,
      pid: process.pid,
      tokenFile,
      token,
      sessions,
      recovered,
      store: sharedStore(options, store),
      findRunner: () => findRunner(runner, log),
      close: (how = {}) => (closing ??= close(how)),
    }
  } catch (error) {
    await store.close()
    throw error
  }
}

// ---- details, in the order they are used above ----

type Parts = {
  readonly sessions: Sessions
  readonly engine: Engine
  readonly feeds: Feeds
  readonly boxReleases: BoxReleases
  readonly retention: Retention
  readonly metrics: DaemonMetrics
  readonly runner: Runners
  readonly runnerFleet: RunnerFleet | undefined
  readonly undoing: Undoing
  readonly outside: OutsideTools
  readonly providers: Providers
  readonly hub: WatchHub
  readonly system: SystemView
  readonly model: () => Promise<{ readonly name: string; readonly baseUrl: string }>
  readonly isClosing: () => boolean
  /** Claims nothing more, and lets every turn come to a stop. */
  readonly handOver: () => Promise<void>
  readonly fleet: Fleet
  /** Differs between daemons with different configurations. */
  readonly configHash: () => string
  readonly countSockets: (count: () => number) => void
}

async function assemble(
  options: DaemonOptions,
  given: { limits: DaemonLimits; secrets: Secrets; log: Logger; store: Store; tokenFile: string },
): Promise<Parts> {
  const { limits, secrets, log, store } = given
  const { stateDir, now = () => store.now(), dice = Math.random, failpoint = () => undefined } = options
  let isDraining = false
  let isClosing = false
  let sockets = (): number => 0
  const endpoint: RunnerEndpoint = new RunnerEndpoint({
    stateDir,
    program: options.runnerProgram,
    idleExitMs: options.runnerIdleExitMs,
    config: async () => (await config.read()).runner,
    onFound: ({ url, runnerId, token }) => {
      secrets.set([token])
      log.info({ runner: url, runnerId }, 'runner found')
      void boxRemovals.sweep(runnerId)
      void boxReleases.sweep()
    },
  })
  const config = new ConfigReader(options, { secrets, log })
  const runnerFleet = joinedRunners(options, {
    store,
    log,
    dice,
    secrets,
    sweep: (runnerId) => boxRemovals.sweep(runnerId),
    onWork: () => fleet.lookForWork(),
  })
  const runner = new Runners({
    endpoint,
    joined: runnerFleet?.joined,
    isConfigured: () => isConfigured(config.last.runner),
  })
  const served = new ServedModels({
    reread: async (provider) => providersOf(await config.read())[provider]?.serve,
    stateDir,
    probeMsFirst: limits.probeMsFirst,
    spec: options.modelServer,
  })
  const providers = new Providers({
    config,
    keys: new SessionKeys(secrets),
    served,
    markKey: keyMarker(stateDir),
    firstModel: options.firstModel,
  })
  const feeds = new Feeds(store, dice)
  const outside = new OutsideTools({ stateDir, log, now, secrets, limits: options.mcpLimits })
  config.onRead = (read) => outside.configure(read)
  outside.configure(config.last)
  const traces = new TurnTraces()
  const ports: Ports = {
    store,
    feeds,
    gate: new Gate(store.lease),
    now: store.isShared ? () => store.now() : now,
    dice,
    stateDir,
    limits,
    log,
    failpoint,
    runner,
    outside,
    reclaimBoxes: () => boxReleases.reclaim(),
    pacing: new Pacing({ probeMs: limits.probeMsFirst / 2, daemons: () => store.lease.fleet.live }),
    onUsed: (usage, cost) => metrics.used(usage, cost),
    traces,
    onEvent: observing(() => metrics, log, traces),
    onChange: (sessionId) => hub.changed(sessionId),
    policyOf: (input) => resolvePolicy(options.policy ?? {}, input),
    providers,
    folders: new Folders(),
    tryAnswer: options.tryAnswer ?? tryAnswer,
    readConfig: () => config.read(),
    runnerFingerprint: () => config.runnerFingerprint,
    secrets,
    agent: () => config.last.agent ?? {},
    isRunnerHere: () => isOnThisMachine(config.last.runner) && (!store.isShared || isConfigured(config.last.runner)),
    isDraining: () => isDraining,
    isClosing: () => isClosing,
  }
  const engine = new Engine(ports, (session) => {
    boxReleases.later(session)
    loader.rest(session).catch((err: unknown) => log.warn({ err, sessionId: session.id }, 'cannot give up a session'))
  })
  const loader = new SessionLoader(ports, engine, options.recover)
  const boxRemovals = new BoxRemovals(ports)
  const boxReleases = new BoxReleases(ports, engine, loader)
  const pruning = new Pruning({ ports, engine, loader, boxRemovals })
  const retention = new Retention(ports, pruning, async () => (await config.read()).retention)
  const sessions = new Sessions({
    ports,
    engine,
    loader,
    boxRemovals,
    boxReleases,
    pruning,
    onCreate: (id) => {
      retention.onCreate()
      hub.changed(id)
    },
  })
  const { system, hub }: ReturnType<typeof watching> = watching({
    store,
    engine,
    runner,
    config,
    providers,
    secrets,
    now,
    sessions,
    options,
    version,
    tokenFile: given.tokenFile,
    onError: (err) => log.warn({ err }, 'a watch could not be served'),
  })
  const handOver = async (): Promise<void> => {
    const drainMs = options.store?.drainMs ?? 0
    isDraining = true
    isClosing = drainMs === 0
    await fleet.drain()
    if (drainMs > 0) await within(engine.allSettled(), drainMs) // turns come to the end of their step
    isClosing = true
    for (const session of loader.all) session.interrupt(new Fault('cancelled', { facts: { name: 'shutdown' } }))
  }
  const fleet = new Fleet({ ports, engine, sessions, log, onDrain: () => void handOver() })
  const metrics = createMetrics({
    turnsDriven: () => engine.driven,
    sessionsLive: () => sessions.loader.count,
    socketsOpen: () => sockets(),
    store,
    drivenTurns: () => engine.drivenTurns(),
    parkedOn: () => parkedCategories(store),
  })
  return {
    sessions,
    engine,
    feeds,
    boxReleases,
    retention,
    metrics,
    runner,
    runnerFleet,
    outside,
    providers,
    hub,
    undoing: new Undoing({ ports, engine, loader }),
    system,
    model: async () => {
      const { name, baseUrl } = (await config.read()).model
      return { name, baseUrl: providers.viewOf(null)?.baseUrl ?? redact(baseUrl) }
    },
    isClosing: () => isDraining,
    handOver,
    fleet,
    configHash: () => config.fingerprint(runnerFleet?.key?.mark),
    countSockets: (count) => {
      sockets = count
    },
  }
}

/** Without a port, a momentary daemon leaves the last one to the next lasting daemon. */
const listen = (service: HttpServer, { port, host, stateDir, isMomentary = false }: DaemonOptions) =>
  port === undefined && !isMomentary ? listenAsBefore(service, stateDir, host) : service.listen(port ?? 0, host)

const NO_CONSOLE = { reason: 'This daemon serves no console. Start one with "breakfall up".' }

function writeDaemonFile(stateDir: string, fields: object): void {
  const content = { ...fields, pid: process.pid, version }
  writeFileSync(join(stateDir, 'daemon.json'), JSON.stringify(content), { mode: 0o600 })
}
