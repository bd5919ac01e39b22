/**
 * Opens an engine: journal first, then recovery of unfinished turns, then work. It ends in reverse order, within a deadline.
 * Whoever serves it attaches what listens between `openEngine` and `recover`, and closes its own doors between `handOver` and `close`.
 */
import { mkdirSync } from 'node:fs'
import manifest from '../package.json' with { type: 'json' }
import { assemble } from './assemble.ts'
import type { Log } from './log.ts'
import { ENGINE_LIMITS, type EngineOptions } from './options.ts'
import { takeInEarlierFolders } from './runner/earlier-folders.ts'
import type { Secrets } from './secrets.ts'
import { openStore, passwordsIn } from './store/open-store.ts'
import type { Store } from './store/store.ts'

type Given = { readonly log: Log; readonly secrets: Secrets }

export type OpenEngine = ReturnType<typeof engineOn>

export async function openEngine(options: EngineOptions, given: Given): Promise<OpenEngine> {
  const { stateDir } = options
  mkdirSync(stateDir, { recursive: true, mode: 0o700 })
  if (options.store !== undefined) given.secrets.set('store', passwordsIn([options.store.url, options.store.hintsUrl]))
  const store = await openStore(options, manifest.version)
  noteEarlierFolders(stateDir, given.log, store.now())
  try {
    return engineOn(store, options, given)
  } catch (error) {
    await store.close()
    throw error
  }
}

/** An engine on an open store, which it closes. */
export function engineOn(store: Store, options: EngineOptions, given: Given) {
  const limits = { ...ENGINE_LIMITS, ...options.limits }
  const parts = assemble(options, { ...given, limits, store })
  const { sessions, engine, boxReleases, retention, fleet, feeds, runners, clock } = parts
  return {
    ...parts,
    store,
    /** Continues unfinished turns; says how many. */
    recover: () => sessions.loader.recoverAll(options.onRecover),
    /** Takes part in the fleet, at this address, and does what is due now and then. */
    async start(url: string): Promise<void> {
      boxReleases.start()
      retention.start()
      await fleet.start(url, parts.configHash())
    },
    /** Hands over running turns and ends what readers follow. */
    async handOver({ releaseBoxes = false } = {}): Promise<void> {
      boxReleases.close()
      await fleet.handOver()
      await clock.within(engine.allSettled(), limits.shutdownMs)
      if (releaseBoxes) await clock.within(boxReleases.releaseAll(), limits.shutdownMs)
      await clock.within(retention.close(), limits.shutdownMs)
      await fleet.close()
      feeds.endAll(store.lease.isEndless ? 'shutting_down' : 'draining')
    },
    /** After `handOver`. */
    async close({ stopRunner = false } = {}): Promise<void> {
      await Promise.all([parts.providers.stop(), parts.mcpServers.stop()])
      await feeds.close()
      await parts.runnerFleet?.registration.close()
      if (stopRunner) await runners.stopLocal()
      await store.close()
      await runners.close() // last: a call that it cuts off must not reach the journal as a failure
    },
  }
}

// ---- details ----

/** Nothing depends on it but sessions of earlier versions: an engine starts without it. */
function noteEarlierFolders(stateDir: string, log: Log, now: number): void {
  try {
    const dropped = takeInEarlierFolders(stateDir, new Date(now).toISOString())
    if (dropped.length > 0)
      log.warn({ folders: dropped }, 'runs of an earlier version had opened these to every caller')
  } catch (err) {
    log.warn({ err }, 'cannot take in the folders that earlier runs had noted')
  }
}
