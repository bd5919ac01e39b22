/** Builds the parts of an engine and connects them. Nothing here starts or closes: `open-engine.ts` does. */
import { EarlierFolders } from './runner/earlier-folders.ts'
import { tryAnswer } from '@breakfall/model'
import type { Log } from './log.ts'
import { TurnTraces } from './telemetry/turn-traces.ts'
import { Pacing } from './engine/pacing.ts'
import { BoxRoom } from './engine/box-room.ts'
import { Engine } from './engine/engine.ts'
import { Feeds } from './engine/feeds.ts'
import { SessionProcesses } from './engine/session-processes.ts'
import { Undoing } from './engine/undo.ts'
import { Lifecycle } from './engine/lifecycle.ts'
import { Observer } from './engine/observer.ts'
import { Gate } from './engine/ownership.ts'
import { Folders } from './engine/folders.ts'
import { BoxReleases } from './engine/box-releases.ts'
import { BoxRemovals } from './engine/box-removals.ts'
import { SessionLoader } from './engine/loader.ts'
import type { Ports } from './engine/ports.ts'
import { Pruning } from './engine/pruning.ts'
import { Retention } from './engine/retention.ts'
import { Sessions } from './engine/sessions.ts'
import { logEvent } from './event-log.ts'
import { Fleet } from './fleet.ts'
import { ConfigReader } from './live-config.ts'
import { providersOf } from './providers/bind.ts'
import { keyMarker } from './providers/key-marks.ts'
import { Providers } from './providers/providers.ts'
import { ServedModels } from './providers/served-models.ts'
import { SessionKeys } from './providers/session-keys.ts'
import { type EngineLimits, type EngineOptions, resolvePolicy } from './options.ts'
import { OutsideTools } from './outside/outside-tools.ts'
import { isConfigured, isOnThisMachine, RunnerEndpoint } from './runner/endpoint.ts'
import { joinedRunners, runnerFleet } from './runner/runner-fleet.ts'
import { Runners } from './runner/runners.ts'
import type { Secrets } from './secrets.ts'
import type { Store } from './store/store.ts'

type Given = {
  readonly limits: EngineLimits
  readonly secrets: Secrets
  readonly log: Log
  readonly store: Store
}

/** The parts of an engine, connected but not started. Each is built from parts that exist: what reacts to a part listens to it. */
export function assemble(options: EngineOptions, given: Given) {
  const { limits, secrets, log, store } = given
  const { stateDir, now = () => store.now(), dice = Math.random, failpoint = () => undefined } = options
  const [observer, lifecycle, room, traces] = [new Observer(), new Lifecycle(), new BoxRoom(), new TurnTraces()]
  const config = new ConfigReader(options, { secrets, log })
  const feeds = new Feeds(store, dice)
  const outside = new OutsideTools({ stateDir, log, now, secrets, limits: options.mcpLimits })
  config.onRead = (read) => outside.configure(read)
  outside.configure(config.last)
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
  const endpoint = new RunnerEndpoint({
    stateDir,
    program: options.runnerProgram,
    idleExitMs: options.runnerIdleExitMs,
    config: async () => (await config.read()).runner,
  })
  endpoint.found.add(({ url, runnerId, token }) => {
    secrets.set('runner', [token])
    log.info({ runner: url, runnerId }, 'runner found')
  })
  const joined = joinedRunners(options, { store, dice, secrets })
  const runner = new Runners({ endpoint, joined: joined?.joined, isConfigured: () => isConfigured(config.last.runner) })
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
    room,
    pacing: new Pacing({ probeMs: limits.probeMsFirst / 2, daemons: () => store.lease.fleet.live }),
    observer,
    traces,
    policyOf: (input) => resolvePolicy(options.policy ?? {}, input),
    providers,
    folders: new Folders(),
    tryAnswer: options.tryAnswer ?? tryAnswer,
    readConfig: () => config.read(),
    runnerFingerprint: () => config.runnerFingerprint,
    secrets,
    agent: () => config.last.agent ?? {},
    isRunnerHere: () => isOnThisMachine(config.last.runner) && (!store.isShared || isConfigured(config.last.runner)),
    lifecycle,
  }
  const engine = new Engine(ports)
  const boxRemovals = new BoxRemovals(ports)
  const loader = new SessionLoader(ports, engine, options.recover)
  const boxReleases = new BoxReleases(ports, engine, loader, boxRemovals)
  endpoint.found.add(({ runnerId }) => {
    void boxRemovals.sweep(runnerId)
    void boxReleases.sweep()
  })
  const pruning = new Pruning({ ports, engine, loader, boxRemovals })
  const retention = new Retention(ports, pruning, async () => (await config.read()).retention)
  const sessions = new Sessions({ ports, engine, loader, boxRemovals, boxReleases, pruning })
  const fleet = new Fleet({ ports, engine, sessions, log, drainMs: options.store?.drainMs ?? 0 })
  observer.event.add((event, traceparent) => {
    logEvent(log, event)
    traces.event(event, traceparent)
  })
  const registering = { store, log, sweep: (id: string) => boxRemovals.sweep(id), onWork: () => fleet.lookForWork() }
  return {
    sessions,
    engine,
    config,
    secrets,
    observer,
    now,
    feeds,
    boxReleases,
    retention,
    runner,
    runnerFleet: joined === undefined ? undefined : runnerFleet(options, joined, registering),
    outside,
    providers,
    undoing: new Undoing({ ports, engine, loader }),
    processes: new SessionProcesses(ports),
    lifecycle,
    fleet,
    /** Differs between daemons with different configurations. */
    configHash: () => config.fingerprint(joined?.key?.mark),
  }
}
