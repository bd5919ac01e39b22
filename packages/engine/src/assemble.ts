/** Builds the parts of an engine and connects them. Nothing here starts or closes: `open-engine.ts` does. */
import { tryAnswer } from '@breakfall/model'
import { systemClock } from './clock.ts'
import { BoxReleases } from './service/box-releases.ts'
import { BoxRemovals } from './boxes/box-removals.ts'
import { Engine } from './loop/engine.ts'
import { Lifecycle } from './session/lifecycle.ts'
import { SessionLoader } from './service/loader.ts'
import { Observer } from './session/observer.ts'
import { Pacing } from './loop/pacing.ts'
import { Pruning, Retention } from './service/pruning.ts'
import { SessionProcesses } from './service/session-processes.ts'
import { sessionParts } from './session/session-parts.ts'
import { Sessions } from './service/sessions.ts'
import { toolsFor } from './tools/catalog.ts'
import { Undoing } from './service/undo.ts'
import { logEvent } from './event-log.ts'
import { Fleet } from './service/fleet.ts'
import { ConfigReader } from './live-config.ts'
import type { Log } from './log.ts'
import type { EngineLimits, EngineOptions } from './options.ts'
import { providersFor } from './providers/providers.ts'
import { runnerFleet, runnersFor } from './runner/runner-fleet.ts'
import type { Secrets } from './secrets.ts'
import type { Store } from './store/store.ts'

type Given = { readonly limits: EngineLimits; readonly secrets: Secrets; readonly log: Log; readonly store: Store }

/** The parts of an engine, connected but not started. Each is built from parts that exist: what reacts to a part listens to it. */
export function assemble(options: EngineOptions, given: Given) {
  const { limits, secrets, log, store } = given
  const { stateDir, dice, failpoint: reached } = options
  const { probeMsFirst, mcpGraceMs: graceMs, boxSweepMs: sweepMs, retentionMs: everyMs, shutdownMs } = limits
  const clock = systemClock({ now: () => store.now(), dice })
  const lifecycle = new Lifecycle()
  const observer = new Observer({ log, reached })
  const config = new ConfigReader(options, { secrets, log })
  const providers = providersFor(options, { config, secrets, probeMsFirst })
  const { runners, endpoint, joined } = runnersFor(options, { config, store, clock, limits, secrets, log })
  const { tools, mcpServers } = toolsFor(options, { config, runners, clock, secrets, log, graceMs })
  const base = sessionParts(options, { store, clock, observer, secrets, mayHaveLeft: tools.mayHaveLeft })
  const agent = () => config.last.agent ?? {}
  const models = { providers, tools, runners, agent, tryAnswer: options.tryAnswer ?? tryAnswer }
  const pacing = new Pacing({ probeMs: probeMsFirst / 2, clock, daemons: () => store.lease.fleet.live })
  const waits = { pacing, probeMsFirst, providers, runners, tools, config }
  const engine = new Engine({ models, tools, waits, folders: base.folders, lifecycle })
  const parts = { base, models, tools, waits, providers, runners, lifecycle, engine, stateDir, limits }
  const loader = new SessionLoader({ ...parts, scope: options.recover })
  const boxRemovals = new BoxRemovals({ store, runners, lifecycle, stateDir })
  const boxReleases = new BoxReleases({ ...parts, loader, boxRemovals, sweepMs })
  endpoint.found.add(({ runnerId }) => {
    void boxRemovals.sweep(runnerId)
    void boxReleases.sweep()
  })
  const pruning = new Pruning({ ...parts, loader, boxRemovals })
  const retention = new Retention({ pruning, config, clock, observer, lifecycle, everyMs })
  const sessions = new Sessions({ ...parts, loader, boxRemovals, boxReleases, pruning })
  const fleet = new Fleet({ ...parts, sessions, shutdownMs, drainMs: options.store?.drainMs ?? 0 })
  observer.event.add((event, traceparent) => {
    logEvent(log, event)
    observer.traces.event(event, traceparent)
  })
  const onWork = (): void => fleet.lookForWork()
  const registering = { store, clock, log, sweep: (id: string) => boxRemovals.sweep(id), onWork }
  const services = { sessions, boxReleases, retention, fleet }
  const shown = { config, secrets, observer, clock, feeds: base.feeds, mcpServers }
  return {
    ...parts,
    ...shown,
    ...services,
    runnerFleet: joined === undefined ? undefined : runnerFleet(options, joined, registering),
    undoing: new Undoing({ base, runners, engine, loader }),
    processes: new SessionProcesses(runners, store),
    /** Differs between daemons with different configurations. */
    configHash: () => config.fingerprint(joined?.key?.mark),
  }
}
