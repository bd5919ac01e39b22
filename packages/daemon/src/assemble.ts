/** Builds the parts of a daemon and connects them. Nothing here starts, listens or closes: `daemon.ts` does. */
import { EarlierFolders } from './runner/earlier-folders.ts'
import { Fault, redact } from '@breakfall/faults'
import { tryAnswer } from '@breakfall/model'
import { within } from '@breakfall/faults/internal'
import type { Logger } from 'pino'
import { createMetrics, type DaemonMetrics } from './api/metrics.ts'
import { parkedCategories } from './api/turn-metrics.ts'
import manifest from '../package.json' with { type: 'json' }
import { TurnTraces } from './telemetry/turn-traces.ts'
import { Pacing } from './engine/pacing.ts'
import { Engine } from './engine/engine.ts'
import { Feeds } from './engine/feeds.ts'
import { SessionProcesses } from './engine/session-processes.ts'
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
import { observing } from './telemetry/observe.ts'
import { ConfigReader } from './live-config.ts'
import { providersOf } from './providers/bind.ts'
import { keyMarker } from './providers/key-marks.ts'
import { Providers } from './providers/providers.ts'
import { ServedModels } from './providers/served-models.ts'
import { SessionKeys } from './providers/session-keys.ts'
import { type DaemonLimits, type DaemonOptions, resolvePolicy } from './options.ts'
import { OutsideTools } from './outside/outside-tools.ts'
import { isConfigured, isOnThisMachine, RunnerEndpoint } from './runner/endpoint.ts'
import { joinedRunners, type RunnerFleet } from './runner/runner-fleet.ts'
import { Runners } from './runner/runners.ts'
import type { Secrets } from './secrets.ts'
import type { SystemView } from './system.ts'
import { watching } from './watching.ts'
import type { Store } from './store/store.ts'

const { version } = manifest

/** The parts of a daemon, connected but not started. */
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
  readonly processes: SessionProcesses
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

export async function assemble(
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
      secrets.set('runner', [token])
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
    reread: async (provider) => providersOf(await config.read()).get(provider)?.serve,
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
    earlierFolders: new EarlierFolders(stateDir),
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
  const boxReleases = new BoxReleases(ports, engine, loader, boxRemovals)
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
  /** The process keeps running. Readers move to another daemon; a reader that comes back is served. */
  const drain = async (): Promise<void> => {
    await handOver()
    await within(engine.allSettled(), limits.shutdownMs)
    feeds.endAll('draining')
  }
  const fleet = new Fleet({ ports, engine, sessions, log, onDrain: () => void drain() })
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
    processes: new SessionProcesses(ports),
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
