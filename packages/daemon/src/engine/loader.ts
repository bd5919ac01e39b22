/**
 * Brings sessions into memory and lets go of them again; takes up what an earlier process left unfinished.
 *
 * I1  A session is loaded once, however many ask for it at the same time.
 * I2  A journal that cannot be read is set aside with the evidence; nothing else stops for it.
 * I3  Whatever is in memory with an unfinished turn is worked on: what a bug or a lost journal made us let go of is taken up
 *     again by whoever asks for it next, and counts as a takeover.
 * I4  A loader that takes up what is `asked` works on nothing else: what an earlier process left is only read until then.
 * I5  At a start, whatever was taken over before and got no further since goes last: if it is what ends the daemon each time,
 *     the others have gone on by then.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { classify, Fault, faultFrom, isFault } from '@breakfall/faults'
import { parseEvent } from '@breakfall/wire'
import type { SessionRow, Store } from '../store/store.ts'
import { reduce } from '../turn/reduce.ts'
import { EMPTY_FOLD, type SessionFold } from '../turn/state.ts'
import type { TakeUp } from '../options.ts'
import type { Engine } from './engine.ts'
import { LiveSession } from './live-session.ts'
import { Mutex } from './mutex.ts'
import type { Ports } from './ports.ts'
import { takeUpTurn } from './take-up.ts'

const PAGE_EVENTS = 2_000
const PAGE_CHARS_MAX = 4 * 1024 * 1024
const LOADS_AT_ONCE = 32
const JUST_OPENED = 64 // sessions opened last stay: dropped between being opened and used, they would be taken over from ourselves

export class SessionLoader {
  readonly #ports: Ports
  readonly #store: Store
  readonly #engine: Engine
  readonly #live = new Map<string, LiveSession>()
  readonly #loading = new Map<string, Promise<LiveSession | undefined>>()
  readonly #takeUp: TakeUp
  readonly #asked = new Set<string>()
  readonly #taking = new Mutex()

  constructor(ports: Ports, engine: Engine, takeUp: TakeUp = 'all') {
    this.#takeUp = takeUp
    this.#ports = ports
    this.#store = ports.store
    this.#engine = engine
  }

  get all(): Iterable<LiveSession> {
    return [...this.#live.values()]
  }

  get count(): number {
    return this.#live.size
  }

  peek(id: string): LiveSession | undefined {
    const session = this.#live.get(id)
    if (session === undefined || session.isBroken) return undefined
    this.#live.delete(id) // to the end of the line: what is used is dropped last
    this.#live.set(id, session)
    return session
  }

  async open(id: string): Promise<LiveSession | undefined> {
    const live = this.peek(id)
    if (live !== undefined) return live
    const loading = this.#loading.get(id) ?? this.#load(id).finally(() => this.#loading.delete(id)) // I1
    this.#loading.set(id, loading)
    return loading
  }

  /** Somebody wants the session to go on: it is worked on from now on, by us. */
  async takeUp(id: string): Promise<LiveSession | undefined> {
    this.own(id)
    const session = await this.open(id)
    if (session !== undefined) await this.#goOnOnce(session)
    return session
  }

  /** Ours to work on: nobody has left it to us, or somebody has asked for it. */
  own(id: string): void {
    if (this.#takeUp === 'asked') this.#asked.add(id)
  }

  owns(id: string): boolean {
    return this.#takeUp === 'all' || this.#asked.has(id)
  }

  forget(id: string, reason: string): void {
    this.#asked.delete(id)
    this.#live.get(id)?.feed.end(reason)
    this.#live.delete(id)
  }

  /** Takes over every unfinished turn, unless only what is asked for is taken up; they go on in turn. Returns how many. */
  async recover(): Promise<number> {
    await this.#setAsideDamaged()
    if (this.#takeUp === 'asked') return 0 // I4
    const rows = await this.#store.claimUnfinished()
    const left = rows[Symbol.iterator]() // one for all workers: each takes the next row
    const worker = async (): Promise<void> => {
      for (const row of left) await this.#takeOver(row)
    }
    await Promise.all(Array.from({ length: LOADS_AT_ONCE }, worker))
    for (const session of [...this.#live.values()].toSorted(byTakeovers)) this.#engine.driveInPlace(session) // I5
    return rows.length
  }

  // ---- details, in the order they are used above ----

  async #load(id: string): Promise<LiveSession | undefined> {
    const found = await this.#store.getSession(id)
    if (found === undefined) return undefined
    if (found.quarantined !== null) throw faultFrom(found.quarantined)
    const row = await this.#store.claim(id)
    if (row === undefined) return undefined
    const session = await this.#folded(row)
    this.#live.set(id, session)
    this.#makeRoom()
    if (this.owns(id)) await this.#goOnOnce(session) // I3, I4
    return session
  }

  async #folded(row: SessionRow): Promise<LiveSession> {
    try {
      const { fold, chars } = await this.#foldOf(row)
      const session = new LiveSession(this.#ports, row, fold, chars)
      for (const turnId of [fold.turn?.id, ...fold.queue.map((queued) => queued.id)]) {
        const cancel = turnId === undefined ? undefined : (await this.#store.getTurn(turnId))?.cancel
        if (turnId !== undefined && cancel != null) session.recallCancel(turnId, cancel)
      }
      return session
    } catch (thrown) {
      const fault = isFault(thrown) ? thrown : classify(thrown, { boundary: 'journal' })
      // An event that cannot be parsed or folded is damage too, whatever its hash says.
      const damage = isFault(thrown) && thrown.category !== 'journal_corrupt' ? undefined : asDamage(fault, row.id)
      if (damage === undefined) throw thrown
      await this.#setAside(row.id, damage)
      throw damage
    }
  }

  async #foldOf(row: SessionRow): Promise<{ fold: SessionFold; chars: number }> {
    let fold: SessionFold = EMPTY_FOLD
    let chars = 0
    for (let after = 0; after < row.lastSeq;) {
      const events = await this.#store.read(row.id, after, PAGE_EVENTS, PAGE_CHARS_MAX)
      for (const { body } of events) {
        fold = reduce(fold, parseEvent(JSON.parse(body)))
        chars += body.length
      }
      after = events.at(-1)?.seq ?? row.lastSeq
    }
    return { fold, chars }
  }

  async #takeOver(row: SessionRow): Promise<void> {
    try {
      this.#live.set(row.id, await this.#folded(row))
    } catch (thrown) {
      this.#ports.log.error({ err: thrown, sessionId: row.id }, 'an unfinished turn could not be taken over') // I2
    }
  }

  /** However many ask for it at the same time. */
  #goOnOnce(session: LiveSession): Promise<void> {
    return this.#taking.run(async () => {
      if (!this.#engine.isDriving(session)) await this.#goOn(session)
    })
  }

  /** Takes up what an earlier owner left unfinished, if anything. */
  async #goOn(session: LiveSession): Promise<void> {
    const { turn, queue } = session.fold
    if (turn === null && queue.length === 0) return
    await takeUpTurn(session, turn)
    this.#engine.drive(session)
  }

  /** What the store found when it was opened: sessions whose journal is shorter than it once was. */
  async #setAsideDamaged(): Promise<void> {
    for (const { sessionId, what } of this.#store.problems) {
      this.#ports.log.error({ sessionId, what }, 'the journal has lost data')
      if (sessionId === null) continue
      const fault = new Fault('journal_corrupt', {
        facts: { name: `session ${sessionId}`, detail: what },
        errorRaw: what,
      })
      await this.#setAside(sessionId, fault)
    }
  }

  async #setAside(sessionId: string, fault: Fault): Promise<void> {
    this.#ports.log.error({ err: fault, sessionId }, 'a session is set aside: its journal is damaged')
    await this.#store.quarantine(sessionId, fault.report)
    const folder = join(this.#ports.stateDir, 'quarantine')
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeFileSync(join(folder, `${sessionId}.json`), JSON.stringify(fault.report, null, 2), { mode: 0o600 })
  }

  /** Sessions that nobody works on or reads are dropped from memory, oldest first. Who has just been opened is about to be used. */
  #makeRoom(): void {
    if (this.#live.size <= JUST_OPENED) return
    const { sessionsIdleMax, idleCharsMax } = this.#ports.limits
    const idle = [...this.#live].slice(0, -JUST_OPENED).filter(([, session]) => !this.#isUsed(session))
    let chars = idle.reduce((sum, [, { journalChars }]) => sum + journalChars, 0)
    for (const [id, { journalChars }] of idle) {
      if (this.#live.size <= sessionsIdleMax && chars <= idleCharsMax) return
      this.#live.delete(id)
      chars -= journalChars
    }
  }

  #isUsed(session: LiveSession): boolean {
    return session.fold.turn !== null || session.feed.readers > 0 || this.#engine.isDriving(session)
  }
}

const byTakeovers = (a: LiveSession, b: LiveSession): number => takeovers(a) - takeovers(b)
const takeovers = ({ fold }: LiveSession): number => fold.turn?.takeovers ?? 0

function asDamage(fault: Fault, sessionId: string): Fault {
  if (fault.category === 'journal_corrupt') return fault
  return new Fault('journal_corrupt', {
    facts: { name: `session ${sessionId}`, detail: 'an event cannot be read' },
    cause: fault,
  })
}
