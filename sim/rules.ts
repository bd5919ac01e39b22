/**
 * What must always hold, each a promise of the docs. Checked at the event that breaks it if possible, and otherwise at the end.
 * A rule says its excuse beside it.
 */
import { isFault } from '../packages/faults/src/index.ts'
import type { Append } from '../packages/daemon/src/store/store.ts'
import { type SessionEvent, isTerminal } from '../packages/wire/src/index.ts'
import type { World } from './host/time.ts'
import type { FaultKind, Plan } from './plan.ts'
import type { Database } from './world/database.ts'
import type { Model } from './world/model.ts'
import type { Network } from './world/network.ts'
import { type RunnerDisk, workIn } from './world/runner.ts'

export class BrokenRule extends Error {
  readonly rule: string

  constructor(rule: string, what: string, cause?: unknown) {
    super(`${rule}: ${what}`, { cause })
    this.rule = rule
  }
}

export type Reader = {
  readonly sessionId: string
  readonly seen: { readonly seq: number; readonly body: string }[]
  resets: number
}

type Parts = {
  readonly plan: Plan
  readonly world: World
  readonly database: Database
  readonly disk: RunnerDisk
  readonly model: Model
  readonly network: Network
}

type Turn = {
  readonly id: string
  readonly sessionId: string
  end: string | null
  readonly calls: Map<
    string,
    { readonly command: string; readonly execId: string; outcome: string | null; text: string }
  >
}

export class Rules {
  readonly #parts: Parts
  readonly #events = new Map<string, SessionEvent[]>()
  readonly #bodies = new Map<string, string[]>()
  readonly #turns = new Map<string, Turn>()
  readonly #accepted = new Map<string, { readonly sessionId: string; readonly turnId: string }>()
  readonly #ran = new Map<string, string>()
  readonly reached = new Map<string, number>()

  constructor(parts: Parts) {
    this.#parts = parts
    parts.database.observers.push({ appended: (append) => this.#appended(append) })
  }

  /** Says that a universe got here: a world that never does proves nothing. */
  reach(what: string): void {
    this.reached.set(what, (this.reached.get(what) ?? 0) + 1)
  }

  bug(what: string, thrown: unknown): BrokenRule {
    const text = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)
    return new BrokenRule('U21 no bug', `${what}: ${text}`, thrown)
  }

  /** A client has the receipt of its prompt. */
  accepted(key: string, sessionId: string, turnId: string): void {
    const before = this.#accepted.get(key)
    if (before !== undefined && before.turnId !== turnId)
      this.#broken('U6 one key makes one turn', `${key} made ${before.turnId} and ${turnId}`)
    this.#accepted.set(key, { sessionId, turnId })
  }

  cancelled(_turnId: string): void {
    this.reach('cancel accepted')
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
    const isExcused = plan.faults.some(
      ({ kind, at: begins, ms }) => STANDS_STILL.has(kind) && begins < at + 2_000 && begins + ms > at - 2_000,
    )
    if (isExcused || plan.isShared) return
    world.after(1_000, world.outside, 'continues?', () => {
      const hasSent = [...this.#parts.network.lastSentAt.values()].some((sentAt) => sentAt >= from)
      if (hasSent || this.#eventsOf(turnId) > before || this.#turns.get(turnId)?.end !== null) return
      this.#broken(
        'U14 a resumed turn continues',
        `${turnId} of ${sessionId} was resumed at ${at} and did nothing for a second`,
      )
    })
  }

  /** How many events a turn has, not counting that it was resumed. */
  #eventsOf(turnId: string): number {
    let count = 0
    for (const events of this.#events.values())
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
    const next = (reader.seen.at(-1)?.seq ?? 0) + 1
    if (seq < next) return // sent again after a reconnection that overlapped; a real reader drops it by its position
    if (seq !== next) this.#broken('U8 readers without gaps', `after ${next - 1} came ${seq} of ${reader.sessionId}`)
    if (this.#bodies.get(reader.sessionId)?.[seq - 1] !== body)
      this.#broken('U8 readers see what is committed', `event ${seq} of ${reader.sessionId}: ${body.slice(0, 200)}`)
    reader.seen.push({ seq, body })
  }

  /** Whether everything has come to rest as it should. */
  isOver(readers: readonly Reader[]): boolean {
    for (const turn of this.#turns.values()) if (turn.end === null) return false
    return readers.every(({ sessionId, seen }) => seen.length === (this.#bodies.get(sessionId)?.length ?? 0))
  }

  atEnd(readers: readonly Reader[]): void {
    for (const turn of this.#turns.values()) {
      if (turn.end === null) this.#broken('L1 everything comes to rest', this.#describe(turn))
      for (const [callId, call] of turn.calls)
        if (call.outcome === null) this.#broken('U7 each call has a result', `${callId} of ${turn.id}`)
    }
    for (const [key, { turnId }] of this.#accepted)
      if (!this.#turns.has(turnId)) this.#broken('U6 an accepted prompt is in the journal', key)
    for (const { sessionId, seen } of readers)
      if (seen.length !== (this.#bodies.get(sessionId)?.length ?? 0))
        this.#broken(
          'L1 every reader has everything',
          `${sessionId}: ${seen.length} of ${this.#bodies.get(sessionId)?.length}`,
        )
    this.#effects()
    this.#outcomes()
    this.#asked()
  }

  // ---- details, in the order they are used above ----

  #broken(rule: string, what: string): never {
    const failure = new BrokenRule(rule, what)
    this.#parts.world.fail(failure)
    throw failure
  }

  /** U7, at each commit. */
  #appended({ sessionId, events }: Append): void {
    const known = this.#events.get(sessionId) ?? []
    const bodies = this.#bodies.get(sessionId) ?? []
    this.#events.set(sessionId, known)
    this.#bodies.set(sessionId, bodies)
    for (const { seq, body } of events) {
      if (seq !== known.length + 1) this.#broken('U7 events are dense', `${seq} after ${known.length} in ${sessionId}`)
      const event: SessionEvent = JSON.parse(body) // of this version, so none is unknown
      known.push(event)
      bodies.push(body)
      this.#note(event)
    }
    this.#effects()
  }

  #note(event: SessionEvent): void {
    this.reach(event.type)
    const turn = this.#turns.get(event.turnId)
    if (turn?.end != null)
      this.#broken('U7 nothing comes after the end of a turn', `${event.type} after ${turn.end} in ${turn.id}`)
    if (turn === undefined) {
      const { turnId: id, sessionId } = event
      this.#turns.set(id, { id, sessionId, end: isTerminal(event) ? event.type : null, calls: new Map() })
      return
    }
    if (event.type === 'tool-call') {
      const { command = '' }: { command?: string } = Object(event.arguments)
      turn.calls.set(event.callId, { command, execId: event.execId ?? '', outcome: null, text: '' })
    }
    if (event.type === 'tool-result') {
      const call = turn.calls.get(event.callId)
      if (call === undefined) this.#broken('U7 a result has a call', event.callId)
      if (call.outcome !== null) this.#broken('U7 each call has one result', event.callId)
      call.outcome = event.outcome
      call.text = event.text
      this.reach(`outcome ${event.outcome}`)
    }
    if (isTerminal(event)) turn.end = event.type
    if (event.type === 'turn-error') {
      this.reach(`ended ${event.category}`)
      if (event.category === 'other') this.#parts.world.fail(this.bug('a turn failed', new Error(event.errorRaw)))
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
      const turn = this.#turns.get(turnId)
      const last = this.#events.get(sessionId)?.findLast((event) => event.turnId === turnId)
      if (head === undefined || turn?.end != null || last?.type !== 'parked' || head.owner !== null) return
      const isPersons = last.because === 'steps_spent'
      if (Number.isFinite(head.wakeAt) || head.waitFor !== null || isPersons) return
      this.#broken('L1 a parked turn has a due wake-up', this.#describe(turn as Turn))
    })
  }

  /** U1, U2 */
  #effects(): void {
    const { effects } = this.#parts.disk
    for (let at = this.#ran.size; at < effects.length; at += 1) {
      const effect = effects[at]
      if (effect === undefined) return
      const { name } = workIn(effect.command)
      if (this.#ran.has(name))
        this.#broken(
          'U1 a command starts at most once',
          `${effect.command} (${effect.execId}), before as ${this.#ran.get(name)}`,
        )
      this.#ran.set(name, effect.execId)
      if (effect.epoch !== undefined && effect.epoch < effect.epochSeen)
        this.#broken(
          'U2 no effect of a fenced owner',
          `${effect.command}: epoch ${effect.epoch} after ${effect.epochSeen}`,
        )
    }
  }

  /** U3, U4 */
  #outcomes(): void {
    for (const { calls, id } of this.#turns.values()) {
      for (const { command, outcome, text } of calls.values()) {
        if (command === '') continue
        const { name, lines } = workIn(command)
        const hasRun = this.#ran.has(name)
        if (hasRun && NEVER_RAN.test(text))
          this.#broken('U3 what was said not to have run has not run', `${command} of ${id}: ${text}`)
        if (!hasRun && (outcome === 'ok' || outcome === 'failed') && !NEVER_RAN.test(text) && !REFUSED.test(text))
          this.#broken('U4 what is said to have run has run', `${command} of ${id}: ${text}`)
        if (outcome !== 'ok') continue
        const printed = text.split('\n').filter((line) => line.startsWith(`${name} line `))
        if (printed.length !== lines || new Set(printed).size !== lines)
          this.#broken('U4 output is there once and whole', `${command} of ${id}: ${text}`)
      }
    }
  }

  /** U9: the model reads one result for each call. */
  #asked(): void {
    for (const { messages, turn } of this.#parts.model.asked) {
      const results = messages.flatMap(({ role, tool_call_id: id }) => (role === 'tool' ? [id] : []))
      const calls = messages.flatMap(({ tool_calls: made = [] }) => made.map(({ id }) => id))
      if (new Set(results).size !== results.length || calls.length !== results.length)
        this.#broken(
          'U9 the model reads one result for each call',
          `${turn}: calls ${calls.join(' ')}, results ${results.join(' ')}`,
        )
    }
  }

  #describe(turn: Turn): string {
    const head = this.#parts.database.dueAt(turn.sessionId)
    const events = (this.#events.get(turn.sessionId) ?? []).filter(({ turnId }) => turnId === turn.id)
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
  'partition',
  'database-down',
  'skew',
  'cut-runner',
  'runner-kill',
  'runner-machine',
])

const EXPECTED: ReadonlySet<string> = new Set([
  'session_busy',
  'lease_lost',
  'shutting_down',
  'journal_unreachable',
  'turn_not_parked',
  'not_found',
])

const NEVER_RAN = /^(?:Cancelled before it ran|This was not run|Not approved)/
const REFUSED = /denied|refused|not approved|declined/i
