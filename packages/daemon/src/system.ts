/** The system around the sessions, as one value: the daemon, its journal, its runner and its model server. Without secrets. */
import { statfs } from 'node:fs/promises'
import type { ExitReport, Supervised } from '@breakfall/supervisor'
import { headline, toDiagnostic } from '@breakfall/supervisor/internal'
import type { Child, System } from '@breakfall/wire'
import {
  type Clock,
  type ConfigReader,
  type Engine,
  type LiveConfig,
  type Providers,
  providersOf,
  type Runners,
  type Secrets,
  shownUrl,
  type Store,
} from '@breakfall/engine'

export type SystemParts = {
  readonly store: Store
  readonly engine: Pick<Engine, 'driven'>
  readonly runners: Runners
  readonly config: ConfigReader
  readonly providers: Providers
  readonly secrets: Secrets
  readonly clock: Clock
  readonly fixed: Pick<System, 'bootId' | 'version' | 'startedAt' | 'tokenFile' | 'stateDir' | 'gateway' | 'chaos'>
}

const JOURNAL_MS = 10_000 // its size is a sum over all sessions
const FREE_BYTES_MIN = 8 * 1024 * 1024 // as for parked turns that wait for disk space

export class SystemView {
  readonly #parts: SystemParts
  #journal: { readonly at: number; readonly value: Promise<System['journal']> } | undefined
  #runner: Pick<System['runner'], 'state' | 'runnerId' | 'since'> | undefined
  #isolation: { readonly runnerId: string; readonly level: string } | undefined

  constructor(parts: SystemParts) {
    this.#parts = parts
  }

  async read(): Promise<System> {
    const { fixed, engine, store, clock, secrets } = this.#parts
    const [journal, { counts }, runner, fleet] = await Promise.all([
      this.#journalNow(),
      store.listSessions({ limit: 0, withCounts: true }),
      this.#runnerNow(),
      this.#fleetNow(),
    ])
    const system: System = {
      ...fixed,
      now: iso(clock.now()),
      journal,
      turns: { driven: engine.driven, parked: counts?.parked ?? 0 },
      runner,
      model: this.#modelNow(),
      workspaces: this.#parts.config.last.runner.allowWorkspace ?? [],
      ...fleet,
    }
    return secrets.scrubValue(system, JSON.stringify(system))
  }

  // ---- details, in the order they are used above ----

  #journalNow(): Promise<System['journal']> {
    const at = this.#parts.clock.now()
    if (this.#journal === undefined || at - this.#journal.at >= JOURNAL_MS || at < this.#journal.at)
      this.#journal = { at, value: this.#measureJournal() }
    return this.#journal.value
  }

  async #measureJournal(): Promise<System['journal']> {
    const { store, fixed } = this.#parts
    const [{ bytes }, damaged, freeBytes] = await Promise.all([
      store.usage(''),
      store.listSessions({ limit: 0, category: 'journal_corrupt', withCounts: true }),
      freeBytesOf(fixed.stateDir),
    ])
    const isFull = freeBytes !== null && freeBytes < FREE_BYTES_MIN
    return { bytes, freeBytes, isFull, quarantined: damaged.counts?.needs ?? 0 }
  }

  async #runnerNow(): Promise<System['runner']> {
    const { runners, clock } = this.#parts
    const { address } = runners
    const state = stateOf(runners)
    const runnerId = address?.runnerId ?? null
    if (this.#runner?.state !== state || this.#runner.runnerId !== runnerId)
      this.#runner = { state, runnerId, since: iso(clock.now()) }
    const url = address === undefined ? null : shownUrl(address.url)
    return { ...this.#runner, url, isolation: runnerId === null ? null : await this.#isolationOf(runnerId) }
  }

  async #fleetNow(): Promise<Pick<System, 'daemons' | 'runners'>> {
    const { store } = this.#parts
    if (store.runners === undefined) return {}
    const [daemons, runners] = await Promise.all([store.daemons(), store.runners.list()])
    return { daemons: daemons.filter(({ state }) => state !== 'dead'), runners }
  }

  /** Asked once per runner. Null while it does not answer. */
  async #isolationOf(runnerId: string): Promise<string | null> {
    if (this.#isolation?.runnerId === runnerId) return this.#isolation.level
    const level = await this.#parts.runners.isolation(AbortSignal.timeout(ISOLATION_MS)).catch(() => undefined) // asked again later
    if (level !== undefined) this.#isolation = { runnerId, level }
    return level ?? null
  }

  #modelNow(): System['model'] {
    const { config, providers } = this.#parts
    const { model } = config.last
    const child = providers.childOf(null)
    return {
      name: model.name,
      baseUrl: providers.viewOf(null)?.baseUrl ?? '',
      profile: model.profile ?? null,
      fallbacks: fallbacksOf(config.last),
      serve: child === undefined ? null : childView(child),
    }
  }
}

/** A supervised process as the API shows it. */
export function childView({ state, pid, report, lastLine }: ChildFacts): Child {
  return {
    status: state.status,
    pid,
    ...('attempt' in state ? { attempt: state.attempt } : {}),
    ...(state.status === 'backoff' ? { until: state.until } : {}),
    ...(state.status === 'given_up' ? { reason: state.reason } : {}),
    line: lastLine,
    lastExit: report === null ? null : exitView(report),
  }
}

export type ChildFacts = Pick<Supervised, 'state' | 'pid' | 'report' | 'lastLine'>

// ---- details ----

const ISOLATION_MS = 2_000
const TAIL_LINES = 40

function exitView(report: ExitReport): Child['lastExit'] {
  const { kind, code, signal, phase, uptimeMs, diagnoses, stderrTail } = report
  const [first] = diagnoses
  const what = first === undefined ? `${report.name} ended: ${kind}` : headline(first.message, first.advice)
  const tail = stderrTail.slice(-TAIL_LINES)
  return { kind, code, signal, phase, uptimeMs, headline: what, diagnoses: diagnoses.map(toDiagnostic), tail }
}

function stateOf({ known, isStarting, isLooking }: Runners): System['runner']['state'] {
  if (known.length > 0) return 'connected'
  if (isStarting) return 'starting'
  return isLooking ? 'looking' : 'none'
}

const fallbacksOf = ({ model, ...live }: LiveConfig): System['model']['fallbacks'] =>
  (model.fallback ?? []).map(({ name = model.name, baseUrl }) => ({
    name,
    baseUrl: shownUrl(baseUrl ?? providersOf({ model, ...live }).get(model.provider ?? '')?.baseUrl ?? model.baseUrl),
  }))

const freeBytesOf = (folder: string): Promise<number | null> =>
  statfs(folder).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => null, // a disk that cannot even be queried
  )

const iso = (ms: number): string => new Date(ms).toISOString()
