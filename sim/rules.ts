/**
 * What must always hold, each a promise of the docs. Checked at the event that breaks it if possible, and otherwise at the end.
 * A rule says its excuse beside it.
 */
import { isFault } from '../packages/faults/src/index.ts'
import type { Append } from '../packages/engine/src/store/store.ts'
import type { SessionEvent, SessionEventOf } from '../packages/wire/src/index.ts'
import type { FaultKind } from './plan.ts'
import { Effects } from './rules/effects.ts'
import { BrokenRule, Facts, type Parts, type Turn } from './rules/facts.ts'
import { Files } from './rules/files.ts'
import { Load } from './rules/load.ts'
import { Requests } from './rules/requests.ts'
import { Views } from './rules/views.ts'
import { MODEL, RUNNER } from './world/weather.ts'

export type Reader = {
  readonly sessionId: string
  readonly seen: { readonly seq: number; readonly body: string }[]
  resets: number
}

export class Rules {
  readonly #parts: Parts
  readonly #facts: Facts
  readonly #effects: Effects
  readonly #files: Files
  readonly #requests: Requests
  readonly #views: Views
  readonly #load: Load
  readonly #accepted = new Map<string, { readonly sessionId: string; readonly turnId: string }>()
  readonly #refused = new Set<string>()
  readonly #cancelledAt = new Map<string, number>()
  readonly #parkedAt = new Map<string, number>()
  /** What parked each turn last. */
  readonly #parks = new Map<string, { readonly at: number; readonly boundary: string }>()
  readonly #deleting = new Set<string>()

  /** `alive`: how many daemons run, and how many readers read. */
  constructor(parts: Parts, alive: () => { readonly daemons: number; readonly readers: number }) {
    const facts = new Facts(parts)
    this.#parts = parts
    this.#facts = facts
    this.#effects = new Effects(facts)
    this.#files = new Files(facts, this.#effects)
    this.#requests = new Requests(facts)
    this.#views = new Views(facts)
    this.#load = new Load(facts, () => ({
      ...alive(),
      turns: [...facts.turns.values()].filter(({ end }) => end === null).length,
    }))
    parts.database.observers.push({
      appended: (append, by) => this.#appended(append, by),
      heard: ({ turns = [] }, by) => this.#heard(turns, by),
      deleted: (id) => facts.forget(id),
    })
  }

  get reached(): ReadonlyMap<string, number> {
    return this.#facts.reached
  }

  reach(what: string): void {
    this.#facts.reach(what)
  }

  /** A client asks a daemon for something. */
  asked(): void {
    this.#load.asked()
  }

  bug(what: string, thrown: unknown): BrokenRule {
    const text = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)
    return new BrokenRule('U21 no bug', `${what}: ${text}`, thrown)
  }

  /** A client has the receipt of its prompt. */
  accepted(key: string, sessionId: string, turnId: string): void {
    const before = this.#accepted.get(key)
    if (before !== undefined && before.turnId !== turnId)
      this.#facts.broken('U6 one key makes one turn', `${key} made ${before.turnId} and ${turnId}`)
    this.#accepted.set(key, { sessionId, turnId })
  }

  /** A client that asks only once was refused. If that is certain, its prompt never gets into the journal. */
  notAccepted(key: string, thrown: unknown): void {
    if (!isFault(thrown)) return // no answer: either may be true
    const isWithdrawn = thrown.category === 'journal_unreachable' && /did not answer in/.test(thrown.errorRaw)
    if (!isWithdrawn && !CERTAIN.has(thrown.category)) return
    this.reach(isWithdrawn ? 'a prompt is withdrawn' : `declined ${thrown.category}`)
    this.#refused.add(key)
  }

  /** A client has the receipt of its cancel. Without other daemons it is stored with its turn by then; else it may be on its way. */
  cancelled(turnId: string): void {
    const { world, plan } = this.#parts
    const { now } = world
    this.#cancelledAt.set(turnId, now)
    const turn = this.#facts.turns.get(turnId)
    if (!plan.isShared && turn?.end === null) turn.cancel ??= { at: now, by: '', heardAt: now }
  }

  approvedAnother(turnId: string): void {
    this.#broken('U6 an approval names a call that waits', turnId)
  }

  /** The daemon said that it is gone, or will be. */
  deleting(sessionId: string): void {
    this.reach('delete accepted')
    this.#deleting.add(sessionId)
  }

  /**
   * U14: a turn that a person resumes continues at once: within a second its journal grows, or its daemon asks the model or the runner.
   * Excuse: the daemon dies, freezes, or cannot reach its database or its runner.
   */
  resuming(sessionId: string, turnId: string): { answered(): void } {
    const { world } = this.#parts
    const [from, before] = [world.now, this.#eventsOf(turnId)]
    return { answered: () => this.#resumed(sessionId, turnId, { from, before }) }
  }

  #resumed(
    sessionId: string,
    turnId: string,
    { from, before }: { readonly from: number; readonly before: number },
  ): void {
    const { world, plan } = this.#parts
    const at = world.now
    const isExcused = this.#parts.faults.some(
      ({ kind, at: begins, ms }) => STANDS_STILL.has(kind) && begins < at + 2_000 && begins + ms > at - 2_000,
    )
    if (isExcused || plan.isShared) return
    world.after(1_000, world.outside, 'continues?', () => {
      const hasSent = [...this.#parts.network.lastSentAt.values()].some((sentAt) => sentAt >= from)
      if (hasSent || this.#eventsOf(turnId) > before || this.#facts.turns.get(turnId)?.end !== null) return
      this.#broken(
        'U14 a resumed turn continues',
        `${turnId} of ${sessionId} was resumed at ${at} and did nothing for a second`,
      )
    })
  }

  /** How many events a turn has, not counting that it was resumed. */
  #eventsOf(turnId: string): number {
    let count = 0
    for (const events of this.#facts.events.values())
      for (const event of events) if (event.turnId === turnId && event.type !== 'resumed') count += 1
    return count
  }

  /** A refusal that no client can expect. */
  refused(label: string, thrown: unknown): void {
    if (isFault(thrown) && EXPECTED.has(thrown.category)) return this.reach(`refused ${thrown.category}`)
    this.#parts.world.fail(this.bug(`${label} was refused`, thrown))
  }

  /** U8 */
  read(reader: Reader, seq: number, body: string): void {
    if (this.#facts.deleted.has(reader.sessionId)) return
    const next = (reader.seen.at(-1)?.seq ?? 0) + 1
    if (seq < next) return // sent again after a reconnection that overlapped; a real reader drops it by its position
    if (seq !== next) this.#broken('U8 readers without gaps', `after ${next - 1} came ${seq} of ${reader.sessionId}`)
    if (this.#facts.bodies.get(reader.sessionId)?.[seq - 1] !== body)
      this.#broken('U8 readers see what is committed', `event ${seq} of ${reader.sessionId}: ${body.slice(0, 200)}`)
    reader.seen.push({ seq, body })
  }

  /**
   * L1: a reader that stays at one daemon is never far behind. Excuse: statements get lost, or the daemon stood still or was slow
   * meanwhile.
   */
  isReading({ sessionId, seen }: Reader, since: number): void {
    const { world, plan } = this.#parts
    const from = world.now - BEHIND_MS
    const { lostStatement, lostStatementAnswer } = plan.rates
    if (since > from || lostStatement + lostStatementAnswer > 0 || this.#facts.deleted.has(sessionId)) return
    if (
      this.#parts.faults.some(({ kind, at, ms }) => HOLDS_UP.has(kind) && at < world.now && at + ms > from - BEHIND_MS)
    )
      return
    this.reach('a reader that stays')
    const due = (this.#facts.times.get(sessionId) ?? []).filter((at) => at < from).length
    if (seen.length < due)
      this.#broken('L1 a reader is never far behind', `${sessionId}: ${seen.length} of ${due} events at ${world.now}`)
  }

  busyForEver(steps: number): never {
    this.#broken('L3 a universe comes to rest', `${steps} steps`)
  }

  /** Whether everything has come to rest as it should. */
  isOver(readers: readonly Reader[]): boolean {
    for (const turn of this.#facts.turns.values()) if (turn.end === null) return false
    for (const sessionId of this.#deleting) if (!this.#isGone(sessionId)) return false
    return readers.every((reader) => this.#hasAll(reader))
  }

  atEnd(readers: readonly Reader[]): void {
    for (const turn of this.#facts.turns.values()) {
      if (turn.end === null) this.#broken('L1 everything comes to rest', this.#describe(turn))
      for (const [callId, call] of turn.calls)
        if (call.result === null) this.#broken('U7 each call has a result', `${callId} of ${turn.id}`)
    }
    for (const [key, { turnId, sessionId }] of this.#accepted)
      if (!this.#facts.turns.has(turnId) && !this.#facts.deleted.has(sessionId))
        this.#broken('U6 an accepted prompt is in the journal', key)
    for (const key of this.#refused)
      if (this.#facts.turnOfKey.has(key)) this.#broken('U6 a prompt that was declined is not in the journal', key)
    for (const sessionId of this.#deleting)
      if (!this.#isGone(sessionId)) this.#broken('U18 a deleted session goes, and its box with it', sessionId)
    for (const reader of readers)
      if (!this.#hasAll(reader))
        this.#broken('L1 every reader has everything', `${reader.sessionId}: ${reader.seen.length} events`)
    this.#effects.atEnd()
    this.#files.atEnd()
    for (const sessionId of this.#facts.events.keys()) this.#views.compare(sessionId)
  }

  // ---- details, in the order they are used above ----

  #broken(rule: string, what: string): never {
    return this.#facts.broken(rule, what)
  }

  /** A box that a late request made afterwards is not the daemon's. */
  #isGone(sessionId: string): boolean {
    const { disk, plan } = this.#parts
    const isLate =
      plan.rates.lateRequest + plan.rates.silentRequest > 0 ||
      plan.messages.some(({ fate }) => fate.lateMs !== undefined)
    const hasBox = disk.boxes.has(sessionId) && !isLate
    return this.#facts.deleted.has(sessionId) && !hasBox
  }

  #hasAll({ sessionId, seen }: Reader): boolean {
    return this.#facts.deleted.has(sessionId) || seen.length === (this.#facts.bodies.get(sessionId)?.length ?? 0)
  }

  /** U7, at each commit. */
  #appended({ sessionId, events, turns = [] }: Append, by: string): void {
    const known = this.#facts.events.get(sessionId) ?? []
    const bodies = this.#facts.bodies.get(sessionId) ?? []
    const times = this.#facts.times.get(sessionId) ?? []
    this.#facts.times.set(sessionId, times)
    this.#facts.events.set(sessionId, known)
    this.#facts.bodies.set(sessionId, bodies)
    const added = events.map(({ type }) => type)
    if (added.includes('approval-requested') && !added.includes('parked'))
      this.#broken('U7 a question and its park are one commit', `${added.join(' ')} in ${sessionId}`)
    for (const { seq, body } of events) {
      if (seq !== known.length + 1) this.#broken('U7 events are dense', `${seq} after ${known.length} in ${sessionId}`)
      const event: SessionEvent = JSON.parse(body) // of this version, so none is unknown
      known.push(event)
      bodies.push(body)
      times.push(this.#parts.world.now)
      this.#note(event, by)
      this.#load.busy()
    }
    for (const { turnId, cancel } of turns) {
      const turn = this.#facts.turns.get(turnId)
      if (cancel === null || turn === undefined || turn.cancel !== null || turn.end !== null) continue
      turn.cancel = { at: this.#parts.world.now, by, heardAt: Number.POSITIVE_INFINITY }
      this.reach('cancel accepted')
    }
    this.#views.look(sessionId)
  }

  /** U13; L1: a turn does not give up on a runner that is back. */
  #ended({ id }: Turn, event: SessionEventOf<'turn-end'> | SessionEventOf<'turn-error'>): void {
    const { world, plan } = this.#parts
    const isCancelled = event.type === 'turn-error' && event.category === 'cancelled'
    if (!isCancelled && world.now > (this.#cancelledAt.get(id) ?? Number.POSITIVE_INFINITY) + CANCEL_MS)
      this.#broken('U13 an accepted cancel ends the turn', `${id} ended with ${event.type}`)
    const isRunners = event.type === 'turn-error' && event.boundary === 'runner'
    if (isRunners && world.now > plan.calmAt + plan.absenceMs + RUNNER_MS)
      this.#broken('L1 a turn continues when its runner is back', `${id} ended with ${event.category}`)
  }

  /** A parked turn resumes once, and no later than its policy says. Excuse: no daemon lived, or its clock was wrong. */
  #waited({ id }: Turn, event: SessionEvent): void {
    const { world, plan } = this.#parts
    const parkedAt = this.#parkedAt.get(id)
    const isHandedOver = event.type === 'resumed' && event.because === 'restart' // it may still wait for a retry
    if (event.type === 'resumed' && parkedAt === undefined)
      this.#broken('U7 a turn resumes only if it waits', `${id} at ${world.now}`)
    if (event.type === 'parked' && event.fault.category !== 'approval_needed') this.#parkedAt.set(id, world.now)
    else if (event.type === 'parked' || event.type === 'retry' || isHandedOver)
      this.#parkedAt.set(id, Number.POSITIVE_INFINITY)
    else if (event.type === 'resumed' || event.type === 'text-delta') this.#parkedAt.delete(id)
    const isLate = world.now - (parkedAt ?? world.now) > plan.parkMsMax + LATE_MS
    if (isLate && plan.absenceMs === 0 && event.type === 'resumed' && event.because !== 'person')
      this.#broken('U10 a turn waits no longer than its policy says', `${id} at ${world.now}, parked at ${parkedAt}`)
  }

  /** U10: a daemon that resumes a turn unasked has found what the turn waits for. */
  #looked({ id }: Turn, event: SessionEvent, by: string): void {
    const { world, network } = this.#parts
    if (event.type === 'parked') this.#parks.set(id, { at: world.now, boundary: event.fault.boundary })
    const park = this.#parks.get(id)
    const origin = ORIGINS.get(park?.boundary ?? '')
    if (event.type !== 'resumed' || event.because !== 'signal' || park === undefined || origin === undefined) return
    const foundAt = network.lastFoundAt.get(`${by}>${origin}`) ?? Number.NEGATIVE_INFINITY
    if (foundAt < park.at - SHARED_LOOK_MS)
      this.#broken('U10 a parked turn looks before it resumes', `${id} of ${by} at ${world.now}, parked at ${park.at}`)
  }

  #heard(turns: NonNullable<Append['turns']>, by: string): void {
    for (const { turnId } of turns) {
      const cancel = this.#facts.turns.get(turnId)?.cancel
      if (cancel?.by === by) cancel.heardAt = Math.min(cancel.heardAt, this.#parts.world.now)
    }
  }

  #note(event: SessionEvent, by: string): void {
    this.reach(event.type)
    const isOpening = event.type === 'turn-queued' || event.type === 'turn-start'
    const turn = this.#facts.turns.get(event.turnId) ?? (isOpening ? this.#facts.opened(event) : undefined)
    if (turn === undefined) this.#broken('U7 a turn begins with its prompt', `${event.type} of ${event.turnId}`)
    if (turn.end !== null)
      this.#broken('U7 nothing comes after the end of a turn', `${event.type} after ${turn.end.type} in ${turn.id}`)
    this.#requests.note(turn, event)
    if (event.type === 'tool-call') {
      this.#facts.called(turn, event)
    }
    const noted = event.type === 'tool-output' ? turn.calls.get(event.callId) : undefined
    if (event.type === 'tool-output' && event.file !== undefined && noted !== undefined) noted.file = event.file
    if (event.type === 'tool-result') {
      const call = turn.calls.get(event.callId)
      if (call === undefined) this.#broken('U7 a result has a call', event.callId)
      if (call.result !== null) this.#broken('U7 each call has one result', event.callId)
      Object.assign(call, { result: event, endedAt: this.#parts.world.now })
      this.reach(`outcome ${event.outcome}`)
    }
    if (event.type === 'turn-end' || event.type === 'turn-error') {
      Object.assign(turn, { end: event, endedAt: this.#parts.world.now })
      this.#ended(turn, event)
    }
    this.#waited(turn, event)
    this.#looked(turn, event, by)
    if (event.type === 'turn-error') {
      this.reach(`ended ${event.category}`)
      if (!ENDS.has(event.category))
        this.#parts.world.fail(this.bug(`a turn ended with ${event.category}`, new Error(event.errorRaw)))
    }
    if (event.type === 'parked') {
      this.reach(`parked ${event.fault.category}`)
      this.#dueLater(turn.sessionId, turn.id)
    }
  }

  /** L1, early: a parked turn without an owner has a due wake-up, waits for something that wakes it, or for a person. */
  #dueLater(sessionId: string, turnId: string): void {
    const { world, database, plan } = this.#parts
    if (!plan.isShared) return
    world.after(20_000, world.outside, 'due?', () => {
      const head = database.dueAt(sessionId)
      const turn = this.#facts.turns.get(turnId)
      const last = this.#facts.events.get(sessionId)?.findLast((event) => event.turnId === turnId)
      if (head === undefined || turn?.end != null || last?.type !== 'parked' || head.owner !== null) return
      const isPersons = last.fault.category === 'steps_spent' // `wait` is what the daemons go by: not asked here
      if (Number.isFinite(head.wakeAt) || head.waitFor !== null || isPersons) return
      this.#broken('L1 a parked turn has a due wake-up', this.#describe(turn as Turn))
    })
  }

  #describe(turn: Turn): string {
    const head = this.#parts.database.dueAt(turn.sessionId)
    const events = (this.#facts.events.get(turn.sessionId) ?? []).filter(({ turnId }) => turnId === turn.id)
    const last = events
      .slice(-6)
      .map(({ type }) => type)
      .join(' ')
    return `${turn.id}: … ${last}; owner ${head?.owner ?? 'none'}, wakes at ${head?.wakeAt}, waits for ${head?.waitFor ?? 'nothing'}`
  }
}

// ---- details ----

/** Faults that stop a daemon or its journal, or cut it off from the runner: turns share a look-up that is under way. */
const STANDS_STILL: ReadonlySet<FaultKind> = new Set([
  'kill',
  'freeze',
  'stall',
  'partition',
  'database-down',
  'skew',
  'cut-runner',
  'runner-kill',
  'runner-machine',
])

const HOLDS_UP: ReadonlySet<FaultKind> = new Set([
  'kill',
  'freeze',
  'stall',
  'partition',
  'database-down',
  'skew',
  'slow',
])
/** A poll, and a page that is read. */
const BEHIND_MS = 10_000

/** What a turn waits for that its boundary parked. */
const ORIGINS: ReadonlyMap<string, string> = new Map([
  ['model', MODEL],
  ['runner', RUNNER],
])
/** Turns share what one of them has just found. */
const SHARED_LOOK_MS = 10_000

/** A cancel takes effect that soon, and a turn finds its runner. */
const CANCEL_MS = 60_000
const RUNNER_MS = 300_000
/** Long enough for a daemon to start again and to claim the turn. */
const LATE_MS = 300_000

/** What may end a turn of the workload. */
const ENDS: ReadonlySet<string> = new Set([
  'approval_needed',
  'cancelled',
  'crash_loop',
  'exec_outcome_unknown',
  'journal_unreachable',
  'model_overloaded',
  'model_quota_exhausted',
  'model_rate_limited',
  'model_server_error',
  'model_stream_incomplete',
  'model_timeout',
  'model_unreachable',
  'runner_unreachable',
])

/** Refusals that say that nothing was done. */
const CERTAIN: ReadonlySet<string> = new Set(['session_busy', 'not_found', 'idempotency_conflict'])

const EXPECTED: ReadonlySet<string> = new Set([
  'session_busy',
  'lease_lost',
  'shutting_down',
  'journal_unreachable',
  'turn_not_parked',
  'not_found',
])
