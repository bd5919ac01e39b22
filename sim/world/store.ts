/**
 * A daemon's way to the database: statements and answers travel, and either may be lost.
 *
 * I1  An append is asked again until it is answered, as the PostgreSQL adapter does; any other statement fails after five seconds
 *     without an answer, although it may have taken effect.
 * I2  The embedded store has no way that could break: each statement is answered after a moment.
 * I3  The lease is renewed beside the daemon: a frozen machine stops both, a blocked event loop does not.
 */
import { Fault, isFault } from '../../packages/faults/src/index.ts'
import type { DaemonFacts, Hint, Hints, Lease, LeaseChange } from '../../packages/engine/src/store/sharing.ts'
import { singleDaemonCoordination } from '../../packages/engine/src/store/single-daemon.ts'
import type { Append, Store } from '../../packages/engine/src/store/store.ts'
import { newId } from '../../packages/wire/src/node/new-id.ts'
import { type Process, START, type World } from '../host/time.ts'
import type { Database } from './database.ts'

/** What happens to one statement. */
export type StatementFate = { readonly loses?: 'request' | 'answer' | undefined; readonly delayMs: number }

export type StoreWeather = {
  statement(process: Process, nr: number): StatementFate
  /** Undefined: the hint is lost. Otherwise when it arrives, perhaps more than once. */
  hint(from: Process, to: Process, nr: number): readonly number[]
}

/** Everything the daemons of a universe share. */
export class Sharing {
  readonly world: World
  readonly database: Database
  readonly weather: StoreWeather
  readonly members = new Set<SharedHints>()
  /** Which process is behind which boot. */
  readonly boots = new Map<string, string>()
  /** How many were asked. */
  statements = 0
  #hints = 0

  constructor(world: World, database: Database, weather: StoreWeather) {
    this.world = world
    this.database = database
    this.weather = weather
  }

  /** Every statement passes here. */
  ask<T>(process: Process, label: string, work: () => T, isAppend = false): Promise<T> {
    const first = this.#once(process, label, work)
    if (!isAppend) return limited(first)
    const insist = async (answer: Promise<T>): Promise<T> => {
      try {
        return await limited(answer)
      } catch (error) {
        if (!isFault(error) || error.errorRaw !== NO_ANSWER) throw error
        return insist(this.#once(process, label, work))
      }
    }
    return insist(first)
  }

  broadcast(from: SharedHints, hint: Hint): void {
    for (const member of this.members) {
      if (member === from) continue
      for (const ms of this.weather.hint(from.process, member.process, ++this.#hints))
        this.world.after(ms, member.process, `hint ${hint.kind}`, () => member.hear(hint))
    }
  }

  #once<T>(process: Process, label: string, work: () => T): Promise<T> {
    const { loses, delayMs } = this.weather.statement(process, ++this.statements)
    return new Promise<T>((resolve, reject) => {
      if (loses === 'request') return
      this.world.after(delayMs / 2, this.world.outside, `db ${label}`, () => {
        let settle: () => void
        try {
          const value = work()
          settle = () => resolve(value)
        } catch (error) {
          settle = () => reject(error)
        }
        if (loses === 'answer') return
        this.world.after(delayMs / 2, process, `db ${label} done`, settle)
      })
    })
  }
}

/** The store of a daemon in a fleet. */
export function sharedStore(sharing: Sharing, process: Process, name: string, leaseMs = LEASE_MS): Store {
  const hints = new SharedHints(sharing, process)
  const lease = new SharedLease(sharing, process, name, leaseMs, () => hints.send({ kind: 'work' }))
  const store = statements(sharing, process, () => lease.bootId)
  return {
    ...store,
    lease,
    hints,
    runners: undefined,
    append: async (append) => {
      await store.append(append)
      sharing.broadcast(hints, { kind: 'events', sessionIds: [append.sessionId] })
    },
    close: async () => {
      sharing.members.delete(hints)
      lease.close()
      await sharing.ask(process, 'end', () => sharing.database.end(lease.bootId)).catch(() => undefined)
    },
  }
}

/** The store of a daemon that has its own: a file on its machine. */
export function embeddedStore(sharing: Sharing, process: Process): Store {
  const one = singleDaemonCoordination()
  const { bootId } = one.lease
  const { database } = sharing
  sharing.boots.set(bootId, process.name)
  database.register(bootId, process.name, {}, YEARS_MS)
  for (const { bootId: earlier, state } of database.daemons())
    if (earlier !== bootId && state !== 'dead') database.end(earlier) // its file is free
  const all = statements(sharing, process, () => bootId)
  return { ...all, ...one, now: () => START + sharing.world.now + process.skewMs }
}

// ---- details ----

const LEASE_MS = 15_000
const YEARS_MS = 1e12
const ANSWER_MS = 5_000
const NO_ANSWER = 'the database did not answer'

function limited<T>(answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Fault('journal_unreachable', { boundary: 'journal', errorRaw: NO_ANSWER })),
      ANSWER_MS,
    )
    answer.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/** The statements that both kinds of store share. */
function statements(sharing: Sharing, process: Process, bootId: () => string): Store {
  const { database: db } = sharing
  const { journal } = db
  const ask = <T>(label: string, work: () => T): Promise<T> => sharing.ask(process, label, work)
  const mine = bootId
  const single = singleDaemonCoordination()
  return {
    createSession: (session, key) => ask('create', () => db.createSession(session, key)),
    getSession: (id) => ask('get', () => db.getSession(id)),
    listSessions: (selection) => ask('list', () => db.decorated(journal.listSessions(selection))),
    sessionsOfBox: (boxId) => ask('of box', () => db.decorated({ rows: journal.sessionsOfBox(boxId) }).rows),
    endedSessions: (query) => ask('ended', () => journal.endedSessions(query)),
    usage: (unusedBefore) => ask('usage', () => journal.usage(unusedBefore)),
    deleteSession: (id, { ifIdle = false } = {}) => ask('delete', () => db.deleteSession(id, ifIdle)),
    claim: (id) => ask('claim', () => db.claim(id, mine())),
    claimWork: (query) => ask('claim work', () => db.claimWork(query, mine())),
    raiseEpoch: ({ id, epoch }, above) => ask('raise', () => db.raiseEpoch(id, epoch, above, mine())),
    append: async (append: Append) => {
      const label = `append ${append.events[0]?.type ?? ''}`
      await sharing.ask(process, label, () => db.append(append, process.name), true)
      for (const { heard } of db.observers) heard?.(append, process.name)
    },
    waits: () => ask('waits', () => db.waits()),
    wake: (waitFor, limit) => ask('wake', () => db.wake(waitFor, limit)),
    read: (id, after, limit, charsMax) => ask('read', () => db.read(id, after, limit, charsMax)),
    getTurn: (turnId) => ask('turn', () => journal.getTurn(turnId)),
    listTurns: (id, page) => ask('turns', () => journal.listTurns(id, page)),
    getKey: (scope, key) => ask('key', () => journal.getKey(scope, key)),
    heads: (ids) => ask('heads', () => db.heads(ids)),
    faultGroups: (selection) => ask('faults', () => journal.faultGroups(selection)),
    faultOccurrences: (selection) => ask('fault', () => journal.faultOccurrences(selection)),
    quarantine: (id, report) => ask('quarantine', () => db.quarantine(id, report)),
    problems: [],
    connections: () => ({ size: 0, free: 0, waiting: 0 }),
    lease: single.lease,
    hints: single.hints,
    runners: undefined,
    now: () => db.now(),
    submit: (command) => ask('submit', () => db.submit(command)),
    withdraw: (id) => ask('withdraw', () => db.withdraw(id)),
    getCommand: (id) => ask('command', () => db.getCommand(id)),
    openCommands: (ids) => ask('inbox', () => db.openCommands(ids ?? { bootId: mine() })),
    heldSessions: () => ask('held', () => db.held(mine())),
    daemons: () => ask('daemons', () => db.daemons()),
    drainDaemon: (id) => ask('drain', () => db.drain(id)),
    close: async () => undefined,
  }
}

export class SharedHints implements Hints {
  readonly process: Process
  readonly isUp = true
  readonly #sharing: Sharing
  readonly #listeners = new Set<(hint: Hint) => void>()

  constructor(sharing: Sharing, process: Process) {
    this.#sharing = sharing
    this.process = process
    sharing.members.add(this)
  }

  send(hint: Hint): void {
    this.#sharing.broadcast(this, hint)
  }

  on(listener: (hint: Hint) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  watch(): () => void {
    return () => undefined
  }

  hear(hint: Hint): void {
    for (const listener of this.#listeners) listener(hint)
  }
}

/**
 * The lease as the daemon sees it, after `postgres/lease.ts`, and the thread that renews it, after its worker: the thread runs on while the
 * event loop of its daemon is blocked, and stops renewing when that takes too long.
 */
class SharedLease implements Lease {
  readonly isEndless = false
  readonly name: string
  fleet = { live: 1, held: 0 }
  bootId = newId()
  readonly #sharing: Sharing
  readonly #process: Process
  readonly #thread: Process
  readonly #leaseMs: number
  readonly #onFreed: () => void
  readonly #listeners = new Set<(change: LeaseChange) => void>()
  readonly #timers: readonly NodeJS.Timeout[]
  #facts: DaemonFacts = {}
  /** By the clock that says more: a correction moves the wall clock, a sleep stops the other. */
  #renewed: Times
  /** When the event loop was last seen to run. */
  #tickedAt: number
  #onTimeSince: number
  /** What the thread renews. None before it is registered. */
  #registered: string | undefined
  #isRenewing = false
  #isSuspended = false
  #isDraining = false
  #isDead = true
  #isRegistering = false
  #isClosed = false

  constructor(sharing: Sharing, process: Process, name: string, leaseMs: number, onFreed: () => void) {
    this.#sharing = sharing
    this.#process = process
    this.#thread = sharing.world.thread('lease', process)
    this.#leaseMs = leaseMs
    this.#onFreed = onFreed
    this.name = name
    this.#renewed = this.#times()
    this.#tickedAt = this.#renewed.monotonic
    this.#onTimeSince = this.#renewed.monotonic
    this.#timers = [
      setInterval(() => this.#tick(), leaseMs / 15),
      sharing.world.as(this.#thread, () => setInterval(() => void this.#renew(), leaseMs / 3)),
    ]
    void this.#register()
  }

  isHeld(): boolean {
    return !this.#isDead && !this.#isClosed && this.remainingMs() > this.#leaseMs * 0.2
  }

  remainingMs(): number {
    const { monotonic, wall } = this.#times()
    return Math.max(this.#leaseMs - Math.max(monotonic - this.#renewed.monotonic, wall - this.#renewed.wall), 0)
  }

  on(listener: (change: LeaseChange) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async announce(facts: DaemonFacts): Promise<void> {
    this.#facts = { ...this.#facts, ...facts }
    await this.#ask('announce', () => this.#sharing.database.announce(this.bootId, facts))
  }

  async drain(): Promise<void> {
    this.#isDraining = true
    await this.#ask('drain', () => this.#sharing.database.drain(this.bootId))
  }

  close(): void {
    this.#isClosed = true
    for (const timer of this.#timers) clearInterval(timer)
  }

  #ask<T>(label: string, work: () => T, from = this.#process): Promise<T> {
    return this.#sharing.ask(from, label, work)
  }

  async #register(): Promise<void> {
    if (this.#isRegistering || this.#isClosed) return
    this.#isRegistering = true
    const sent = this.#times()
    const { bootId } = this
    this.#sharing.boots.set(bootId, this.#process.name)
    try {
      await this.#ask('register', () => this.#sharing.database.register(bootId, this.name, this.#facts, this.#leaseMs))
      if (this.#isDraining) await this.#ask('drain', () => this.#sharing.database.drain(bootId))
      this.#renewed = sent
      this.#registered = bootId
      this.#isDead = false
      this.#isSuspended = true // until the next tick
    } catch {
      // Away: the next tick tries again.
    } finally {
      this.#isRegistering = false
    }
  }

  /** In the thread. A main thread that has stopped running gets no renewal: another daemon continues its work. */
  async #renew(): Promise<void> {
    const bootId = this.#registered
    const sent = this.#times()
    const isLate = sent.monotonic - this.#tickedAt > (this.#leaseMs * 2) / 3
    if (this.#isRenewing || bootId === undefined || isLate) return
    this.#isRenewing = true
    try {
      const row = await this.#ask('renew', () => this.#sharing.database.renew(bootId, this.#leaseMs), this.#thread)
      if (bootId !== this.#registered || this.#isClosed) return
      if (row === undefined) return this.#tell('dead', () => this.#startAgain(bootId))
      const { monotonic } = this.#times()
      if (monotonic - this.#renewed.monotonic > (this.#leaseMs * 2) / 3) this.#onTimeSince = monotonic
      this.#renewed = sent
      this.#tell('renewed', () => this.#hear(row))
      if (monotonic - this.#onTimeSince < this.#leaseMs) return // only a punctual daemon declares others dead
      const freed = await this.#ask('reap', () => this.#sharing.database.reap(), this.#thread)
      if (freed > 0) this.#tell('freed', this.#onFreed)
    } catch {
      // A renewal that is missing: the tick notices by the time.
    } finally {
      this.#isRenewing = false
    }
  }

  /** A message from the thread. */
  #tell(label: string, heard: () => void): void {
    this.#sharing.world.after(0, this.#process, `lease ${label}`, () => {
      if (!this.#isClosed) heard()
    })
  }

  #hear({ live, held, state }: Renewed): void {
    this.fleet = { live: Math.max(live, 1), held }
    if (state === 'draining' && !this.#isDraining) {
      this.#isDraining = true
      this.#emit('drain')
    }
    this.#tick()
  }

  #tick(): void {
    this.#tickedAt = this.#times().monotonic
    if (this.#isClosed) return
    if (this.#isDead) return void this.#register()
    if (this.#isSuspended !== this.isHeld()) return
    this.#isSuspended = !this.#isSuspended
    this.#emit(this.#isSuspended ? 'suspend' : 'resume')
  }

  #startAgain(bootId: string): void {
    if (this.#isDead || bootId !== this.bootId) return
    this.#isDead = true
    this.#registered = undefined
    this.#emit('lost')
    this.bootId = newId()
    void this.#register()
  }

  #emit(change: LeaseChange): void {
    for (const listener of this.#listeners) listener(change)
  }

  #times(): Times {
    return { monotonic: this.#sharing.world.now, wall: Date.now() }
  }
}

type Times = { readonly monotonic: number; readonly wall: number }
type Renewed = NonNullable<ReturnType<Database['renew']>>
