/**
 * One universe: the daemons of a plan, which are the real ones, in a simulated world; first the plan's faults, then calm, in which
 * everything must come to rest.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { engineOn } from '../packages/engine/src/open-engine.ts'
import { Secrets } from '../packages/engine/src/secrets.ts'
import type { Store } from '../packages/engine/src/store/store.ts'
import { isFault } from '../packages/faults/src/index.ts'
import { Random } from './host/random.ts'
import { type Process, setWorld, START, type Step, World } from './host/time.ts'
import { type Parts, People } from './people.ts'
import { type Plan, type PlannedFault, POLICY } from './plan.ts'
import { Rules } from './rules.ts'
import { BrokenRule } from './rules/facts.ts'
import { Database } from './world/database.ts'
import { Model } from './world/model.ts'
import { Network, setNetwork } from './world/network.ts'
import { Runner, RunnerDisk, type Quirk } from './world/runner.ts'
import { embeddedStore, Sharing, sharedStore } from './world/store.ts'
import { MODEL, RUNNER, Skies } from './world/weather.ts'

export type UniverseOptions = {
  readonly onStep?: ((step: Step) => void) | undefined
  /** A runner that is broken in this way. */
  readonly quirk?: Quirk | undefined
  /** Hears each event when it is committed. */
  readonly onEvent?: ((line: string) => void) | undefined
  readonly onLog?: ((line: string) => void) | undefined
}

export type Outcome = {
  readonly seed: string
  readonly hash: string
  readonly steps: number
  readonly faults: number
  /** Messages that were lost, late or cut, and requests that the model failed. */
  readonly messages: number
  /** What became of the requests to the runner that broke. */
  readonly fates: Plan['messages']
  readonly turns: number
  readonly virtualMs: number
  readonly reached: ReadonlyMap<string, number>
  /** Undefined: every rule held. */
  readonly broken: BrokenRule | undefined
}

export async function runUniverse(plan: Plan, options: UniverseOptions = {}): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-sim-'))
  const before = resources()
  let universe: Universe | undefined
  let outcome: Outcome
  try {
    universe = new Universe(plan, folder, options)
    outcome = await universe.live()
  } finally {
    universe?.end()
    rmSync(folder, { recursive: true, force: true })
  }
  const left = resources().filter((name) => !before.includes(name))
  if (left.length === 0 || outcome.broken !== undefined) return outcome
  return { ...outcome, broken: new BrokenRule('U22 a universe leaves nothing behind', left.join(', ')) }
}

// ---- details ----

type Daemon = {
  readonly nr: number
  readonly process: Process
  readonly store: Store
  /** Undefined while it starts or stops. */
  parts: Parts | undefined
  isStopping: boolean
}

/** What Node waits for; immediates are the loop's own. */
const resources = (): readonly string[] => process.getActiveResourcesInfo().filter((name) => name !== 'Immediate')

/** Longer than any park, approval or backoff of a plan. */
const REST_MS = 4 * 3_600_000

class Universe {
  readonly #plan: Plan
  readonly #folder: string
  readonly #options: UniverseOptions
  readonly #world: World
  readonly #skies: Skies
  readonly #network: Network
  readonly #database: Database
  readonly #sharing: Sharing
  readonly #disk = new RunnerDisk('runner-1')
  readonly #model: Model
  readonly #rules: Rules
  readonly #daemons: (Daemon | undefined)[]
  /** Processes that are about to be daemons. */
  readonly #booting: (Process | undefined)[] = []
  readonly #bootIds: (string | undefined)[]
  readonly #people: People
  #boots = 0
  #runnerBoots = 0
  #commits = 0
  /** Those of the plan, and those at commits. */
  readonly #struck: PlannedFault[]
  #faults = 0
  readonly #onRejection = (thrown: unknown): void => this.#world.fail(this.#rules.bug('unhandled rejection', thrown))

  constructor(plan: Plan, folder: string, options: UniverseOptions) {
    this.#plan = plan
    this.#struck = [...plan.faults]
    this.#folder = folder
    this.#options = options
    this.#world = new World(plan.seed, folder)
    this.#world.onStep = options.onStep
    this.#world.isEven = plan.isEven
    setWorld(this.#world)
    this.#skies = new Skies(this.#world, plan)
    this.#network = new Network(this.#world, this.#skies)
    setNetwork(this.#network)
    this.#database = new Database(join(folder, 'journal.db'), () => START + this.#world.now)
    this.#sharing = new Sharing(this.#world, this.#database, this.#skies)
    const turns = new Map(plan.sessions.flatMap((session) => session.turns.map((turn) => [turn.key, turn])))
    this.#model = new Model(this.#world, turns, plan.rates.modelFault, plan.calmAt)
    this.#rules = new Rules(
      {
        plan,
        faults: this.#struck,
        world: this.#world,
        database: this.#database,
        sharing: this.#sharing,
        disk: this.#disk,
        model: this.#model,
        network: this.#network,
      },
      () => ({
        daemons: this.#daemons.filter((daemon) => daemon !== undefined).length,
        readers: this.#people.readers.length,
      }),
    )
    this.#people = new People(plan, this.#world, this.#rules, {
      daemons: () => this.#daemons.filter((daemon) => daemon?.parts !== undefined),
      isAway: () => this.#isAway,
    })
    this.#database.observers.push({ appended: (_append, by) => this.#mayStrike(by) })
    if (options.onEvent !== undefined)
      this.#database.observers.push({
        appended: ({ events, epoch }) =>
          events.forEach(({ body }) => options.onEvent?.(`${this.#world.now} e${epoch} ${body}`)),
      })
    this.#daemons = Array.from({ length: plan.daemons }, () => undefined)
    this.#bootIds = Array.from({ length: plan.daemons }, () => undefined)
    process.on('unhandledRejection', this.#onRejection)
  }

  async live(): Promise<Outcome> {
    const { calmAt, absenceMs } = this.#plan
    this.#network.listen(MODEL, this.#model)
    this.#startRunner()
    for (const nr of this.#daemons.keys()) this.#start(nr)
    for (const fault of this.#plan.faults) this.#at(fault.at, `fault ${fault.kind}`, () => this.#strike(fault))
    this.#people.begin()
    if (absenceMs > 0) this.#at(calmAt, 'no daemon lives', () => this.#leave())
    this.#at(calmAt + absenceMs, 'calm', () => this.#heal())
    let broken: BrokenRule | undefined
    try {
      await this.#world.run(() => this.#isAtRest(), calmAt + absenceMs + REST_MS)
      this.#rules.atEnd(this.#people.readers)
    } catch (thrown) {
      broken = thrown instanceof BrokenRule ? thrown : this.#rules.bug('thrown', thrown)
    }
    return {
      seed: this.#plan.seed,
      hash: this.#world.hash,
      steps: this.#world.steps,
      faults: this.#faults,
      messages: this.#skies.broken + this.#model.failed,
      fates: this.#skies.fates,
      turns: this.#plan.sessions.reduce((sum, { turns }) => sum + turns.length, 0),
      virtualMs: this.#world.now,
      reached: this.#rules.reached,
      broken,
    }
  }

  /** Nothing of this universe lives on: its processes are dead, so whatever they still wait for never comes. */
  end(): void {
    for (const nr of this.#daemons.keys()) this.#kill(nr)
    process.off('unhandledRejection', this.#onRejection)
    this.#database.close()
    setNetwork(undefined)
    setWorld(undefined)
  }

  // ---- daemons ----

  #start(nr: number): void {
    if (this.#isAway || this.#daemons[nr] !== undefined || this.#booting[nr] !== undefined) return
    this.#boots += 1
    const process = this.#world.process(`d${nr + 1}.${this.#boots}`)
    this.#booting[nr] = process
    this.#world.after(0, process, 'start', () => {
      this.#boot(nr, process).catch((thrown: unknown) => {
        if (process.isDead) return
        if (!isFault(thrown) || thrown.class === 'internal')
          return this.#world.fail(this.#rules.bug('a daemon did not start', thrown))
        this.#kill(nr) // its service manager starts it again
        this.#at(this.#world.now + 1_000, 'start again', () => this.#start(nr))
      })
    })
  }

  async #boot(nr: number, process: Process): Promise<void> {
    const stateDir = join(this.#folder, `d${nr + 1}`)
    mkdirSync(stateDir, { recursive: true })
    const previous = this.#bootIds[nr]
    if (this.#plan.isShared && previous !== undefined) {
      // Whoever holds the folder's lock knows that its last daemon is dead.
      await this.#sharing.ask(process, 'end', () => this.#database.end(previous)).catch(() => undefined)
    }
    const store = this.#plan.isShared
      ? sharedStore(this.#sharing, process, `d${nr + 1}`)
      : embeddedStore(this.#sharing, process)
    const daemon: Daemon = { nr, process, store, parts: undefined, isStopping: false }
    this.#booting[nr] = undefined
    this.#daemons[nr] = daemon
    while (!store.lease.isHeld()) await new Promise((resolve) => setTimeout(resolve, 100))
    this.#bootIds[nr] = store.lease.bootId
    const parts = engineOn(
      store,
      {
        stateDir,
        model: { baseUrl: `${MODEL}/v1`, name: 'simulated' },
        runner: { url: RUNNER },
        policy: {
          ...POLICY,
          parkMsMax: this.#plan.parkMsMax,
          approveMsMax: this.#plan.approveMsMax,
          boxIdleMs: this.#plan.boxIdleMs,
        },
        limits: { sessionsIdleMax: this.#plan.sessionsIdleMax },
      },
      { secrets: new Secrets(), log: this.#logger(process) },
    )
    await parts.recover()
    await parts.start(`http://d${nr + 1}`)
    daemon.parts = parts
  }

  /** As `breakfall stop` does: turns are handed over, and everything is closed in the daemon's order. */
  #stop(nr: number, restartMs: number): void {
    const daemon = this.#daemons[nr]
    if (daemon === undefined) return
    const { process, parts } = daemon
    if (parts === undefined) {
      if (daemon.isStopping) return
      this.#kill(nr) // it has not started yet
      return this.#at(this.#world.now + restartMs, 'restart', () => this.#start(nr))
    }
    const isStill = (): boolean => this.#daemons[nr] === daemon
    const gone = (): void => {
      if (!isStill()) return
      this.#kill(nr)
      this.#at(this.#world.now + restartMs, 'restart', () => this.#start(nr))
    }
    this.#at(this.#world.now + STOP_MS_MAX, 'its service manager kills it', gone)
    Object.assign(daemon, { parts: undefined, isStopping: true }) // its port is closed
    this.#world.as(process, () => {
      void (async () => {
        await parts.handOver()
        await parts.close()
        this.#rules.reach('stopped in order')
        gone()
      })()
    })
  }

  #kill(nr: number): void {
    const [daemon, booting] = [this.#daemons[nr], this.#booting[nr]]
    this.#booting[nr] = undefined
    if (booting !== undefined) booting.isDead = true
    if (daemon === undefined) return
    daemon.process.isDead = true
    for (const member of this.#sharing.members)
      if (member.process === daemon.process) this.#sharing.members.delete(member)
    this.#bootIds[nr] = daemon.store.lease.bootId
    this.#daemons[nr] = undefined
  }

  /** A daemon dies, or its event loop stalls, between a commit and the moment when it hears of it. */
  #mayStrike(by: string): void {
    this.#commits += 1
    const { rates, calmAt, seed } = this.#plan
    if (this.#world.now >= calmAt || rates.killAtCommit + rates.stallAtCommit === 0) return
    const roll = new Random(seed, 'commit', this.#commits).next()
    const isKill = roll < rates.killAtCommit
    if (!isKill && roll >= rates.killAtCommit + rates.stallAtCommit) return
    const nr = this.#daemons.findIndex((daemon) => daemon?.process.name === by)
    this.#at(this.#world.now, 'fault at a commit', () => {
      if (this.#daemons[nr]?.process.name !== by) return
      const at = { at: this.#world.now, victim: nr }
      const fault: PlannedFault = isKill ? { ...at, kind: 'kill', ms: 50 } : { ...at, kind: 'stall', ms: STALL_MS }
      this.#struck.push(fault)
      this.#strike(fault)
    })
  }

  /** U21: a line of level error without a fault is a bug. */
  #logger(process: Process): Logger {
    const write =
      (level: string) =>
      (first: unknown, text?: string): void => {
        const { err }: { err?: unknown } = typeof first === 'object' && first !== null ? first : {}
        this.#options.onLog?.(
          `${this.#world.now} ${process.name} ${level} ${text ?? String(first)} ${err instanceof Error ? err.message : ''}`,
        )
        const isFine =
          err === undefined
            ? level !== 'error' || LOGGED.has(text ?? String(first))
            : isFault(err) && err.class !== 'internal'
        if (level === 'error' && !isFine && !process.isDead)
          this.#world.fail(this.#rules.bug(`log: ${text ?? String(first)}`, err))
      }
    const log = {
      level: 'info',
      trace: () => {},
      debug: write('debug'),
      info: write('info'),
      warn: write('warn'),
      error: write('error'),
      fatal: write('error'),
      silent: () => {},
    }
    const all: unknown = { ...log, child: () => log } // the members of a logger that a daemon uses
    return all as Logger
  }

  // ---- faults ----

  #strike({ kind, victim, ms }: PlannedFault): void {
    this.#faults += 1
    const { now } = this.#world
    const daemon = this.#daemons[victim]
    const name = `d${victim + 1}`
    switch (kind) {
      case 'kill':
        if (daemon === undefined) return
        this.#kill(victim)
        return this.#at(now + ms, 'restart', () => this.#start(victim))
      case 'stop':
        return this.#stop(victim, ms)
      case 'drain':
        if (daemon === undefined) return
        this.#database.drain(daemon.store.lease.bootId)
        return this.#at(now + ms, 'stop', () => this.#stop(victim, 50))
      case 'slow':
        if (daemon === undefined) return
        daemon.process.slowMs = SLOW_MS
        return this.#at(now + ms, 'fast', () => {
          daemon.process.slowMs = 0
        })
      case 'stall':
        if (daemon !== undefined) daemon.process.stalledUntil = Math.max(daemon.process.stalledUntil, now + ms)
        return
      case 'freeze':
        if (daemon !== undefined) daemon.process.frozenUntil = Math.max(daemon.process.frozenUntil, now + ms)
        return
      case 'partition':
        return void this.#skies.partitioned.set(name, now + ms)
      case 'cut-runner':
        return void this.#skies.cutFromRunner.set(name, now + ms)
      case 'skew':
        if (daemon !== undefined) daemon.process.skewMs = daemon.process.skewMs === 0 ? ms : 0
        return
      case 'database-down':
        this.#skies.databaseDownUntil = now + ms
        return
      case 'runner-kill':
      case 'runner-machine':
        this.#network.close(RUNNER)
        if (kind === 'runner-machine') Runner.machineRestarted(this.#world, this.#disk)
        if (this.#runner !== undefined) this.#runner.process.isDead = true
        this.#runner = undefined
        return this.#at(now + ms, 'runner restarts', () => this.#startRunner())
      case 'model-down':
        this.#skies.modelDownUntil = now + ms
        return
      case 'model-hole':
        this.#skies.modelHoleUntil = now + ms
    }
  }

  #runner: Runner | undefined

  #isAway = false

  #startRunner(): void {
    if (this.#runner !== undefined) return
    this.#runnerBoots += 1
    this.#runner = new Runner(
      this.#world,
      this.#disk,
      this.#world.process(`runner.${this.#runnerBoots}`),
      this.#options.quirk,
    )
    this.#runner.listen(this.#network, RUNNER)
  }

  /** All daemons die, and none is started before the calm. */
  #leave(): void {
    this.#isAway = true
    for (const nr of this.#daemons.keys()) this.#kill(nr)
  }

  #heal(): void {
    this.#isAway = false
    Object.assign(this.#skies, { databaseDownUntil: 0, modelDownUntil: 0, modelHoleUntil: 0 })
    this.#skies.partitioned.clear()
    this.#skies.cutFromRunner.clear()
    this.#startRunner()
    for (const [nr, daemon] of this.#daemons.entries()) {
      if (daemon === undefined) this.#start(nr)
      else Object.assign(daemon.process, { skewMs: 0, slowMs: 0 })
    }
  }

  // ---- the end ----

  /** Every prompt was accepted, every turn has ended, and every reader has everything; or a turn rests with a due wake-up. */
  #isAtRest(): boolean {
    const { calmAt, absenceMs } = this.#plan
    if (this.#world.steps % 64 !== 0) return false
    if (this.#world.steps > STEPS_MAX) this.#rules.busyForEver(this.#world.steps)
    if (this.#world.now < calmAt + absenceMs || this.#people.promptsOpen > 0) return false
    return this.#rules.isOver(this.#people.readers)
  }

  #at(at: number, label: string, run: () => void): void {
    this.#world.after(at - this.#world.now, this.#world.outside, label, run)
  }
}

/** A service manager waits no longer. */
const STOP_MS_MAX = 30_000
const SLOW_MS = 50
/** Longer than a lease. */
const STALL_MS = 25_000
/** Four hours without rest are a fifth of this. */
const STEPS_MAX = 1_000_000

/** Lines of level error that say what a fault did, without one. */
const LOGGED: ReadonlySet<string> = new Set(['the lease ran out: other daemons continue the turns of this one'])
