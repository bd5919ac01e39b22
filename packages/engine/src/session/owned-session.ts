/**
 * A session in memory: what its journal adds up to, what this process knows beyond the journal, and the only way to write it.
 *
 * I1  Journal first: the fold and the readers move only after the store has committed.
 * I2  Writes of one session run one after another; each is decided on the state that the previous one left.
 * I3  An accepted cancel is durable: it is stored with its turn before the caller gets an answer.
 * I4  In a shared store, the append that ends or parks a turn also gives the session up, unless a request is using it here.
 * I5  A session that is lost is read like any other that this process does not own: its feed follows the store.
 */
import assert from 'node:assert/strict'
import { Fault, type FaultReport, isFault, type Policy } from '@breakfall/faults'
import { type EventDraft, type EventType, isTerminal, type SessionEvent, type Turn } from '@breakfall/wire'
import { Mutex } from '@breakfall/faults/internal'
import { retryAt } from '@breakfall/wire/turn'
import { type Clock, unhurried } from '../clock.ts'
import { secretVariables, type SessionSecrets } from '../secrets.ts'
import type { CommandOutcome } from '../store/sharing.ts'
import type { CancelRequest, SessionData, SessionRow } from '../rows.ts'
import type { Append, KeyRow, Release, Store, StoredEvent } from '../store/store.ts'
import type { Used } from '../turn/cost.ts'
import { reduce } from '../turn/reduce.ts'
import { faultNotesOf } from '../turn/fault-history.ts'
import type { OfferedTools, Parked, SessionFold, TurnFold } from '../turn/state.ts'
import { sessionState, turnSummary, turnView } from '../turn/view.ts'
import { CallLedger } from './call-ledger.ts'
import { HeldCall, HeldCalls } from './held-calls.ts'
import { type Feed, REWOUND } from './feed.ts'
import { Memo } from './memo.ts'
import type { Observer } from './observer.ts'
import { type LeaseGate, releaseOf } from './ownership.ts'
import { SessionBox } from './session-box.ts'
import type { SessionParts } from './session-parts.ts'
import { Wakes } from './wakes.ts'

export type Writing = {
  readonly drafts: readonly EventDraft[]
  readonly data?: SessionData | undefined
  readonly key?: ((events: readonly SessionEvent[]) => KeyRow) | undefined
  readonly cancel?: { readonly turnId: string; readonly request: CancelRequest } | undefined
  /** Commands of other daemons that this carries out. */
  readonly outcomes?: readonly CommandOutcome[] | undefined
  /** How many of them were looked at. */
  readonly seen?: number | undefined
  /** Gives the session up, whatever its state. */
  readonly release?: Release | undefined
}

export class OwnedSession {
  readonly gate: LeaseGate
  readonly clock: Clock
  readonly observer: Observer
  readonly hasSpace: () => Promise<boolean>
  readonly feed: Feed
  readonly policy: Policy
  /** What its output must not contain. Known as long as the session is in memory. */
  readonly secrets: SessionSecrets
  /** Prompts are admitted one at a time. */
  readonly admission = new Mutex()
  readonly calls: CallLedger
  /** Calls of MCP servers that are open, some of them while the turn is parked. */
  readonly held = new HeldCalls()
  readonly box: SessionBox
  /** The tools that its model is offered: the same in every step of a turn, unless a server changes them. */
  readonly offered = new Memo<OfferedTools>()
  /** Size of the part that every request of a turn starts with. */
  readonly fixedBytes = new Memo<number>()
  #journalChars: number
  #uses = 0
  #settingsIgnored: string | undefined
  #unsavedPark: Parked | null = null
  #unsaid: Used | null = null
  /** The wait of the turn, and the time that this process has seen pass in it. */
  #wait: { readonly since: string; readonly now: () => number } | undefined
  readonly #parts: SessionParts
  readonly #store: Store
  readonly #mutex = new Mutex()
  readonly #cancels = new Map<string, CancelRequest>()
  #isLost = false
  #row: SessionRow
  #fold: SessionFold
  #stop = new AbortController()
  readonly #wakes = new Wakes()

  constructor(parts: SessionParts, row: SessionRow, fold: SessionFold, journalChars: number) {
    this.#parts = parts
    this.#store = parts.store
    this.gate = parts.gate
    this.clock = parts.clock
    this.observer = parts.observer
    this.hasSpace = parts.hasSpace
    this.#row = row
    this.#fold = fold
    this.#journalChars = journalChars
    this.policy = parts.policyOf(row.data.policy)
    this.secrets = parts.secrets.session(row.id)
    this.secrets.set('box', secretVariables(row.data.box.env)) // a command may print what the user passed into the box
    this.calls = new CallLedger(fold, row.data, parts.mayHaveLeft)
    const isLeft = row.data.boxReleased === true || (fold.turn?.calls.some(({ result }) => result === null) ?? false)
    this.box = new SessionBox(row.data.runnerId !== null && isLeft)
    this.feed = parts.feeds.own(row)
  }

  get id(): string {
    return this.#row.id
  }

  get row(): SessionRow {
    return this.#row
  }

  get data(): SessionData {
    return this.#row.data
  }

  get fold(): SessionFold {
    return this.#fold
  }

  /** The turn under way. Only for code that runs as part of one. */
  get currentTurn(): TurnFold {
    assert(this.#fold.turn !== null, 'no turn is under way')
    return this.#fold.turn
  }

  /** True if this process must not write to the journal any more. */
  get isLost(): boolean {
    return this.#isLost
  }

  /** From now on another process may own it, or it is being deleted. */
  lose(): void {
    if (this.#isLost) return
    this.#isLost = true
    this.held.dropAll()
    this.#parts.feeds.release(this.#row) // I5
  }

  get createdAt(): string {
    return this.#row.createdAt
  }

  get boxId(): string {
    return this.#row.data.box.id ?? this.#row.id
  }

  /** Size of the journal: roughly what the session costs in memory. */
  get journalChars(): number {
    return this.#journalChars
  }

  /** The row as it would be if everything were written. */
  get shownRow(): SessionRow {
    const state = sessionState(this.#fold, this.#unsavedPark)
    const turnId = this.#fold.turn?.id ?? this.#fold.queue[0]?.id ?? null
    const turn = turnSummary(this.#fold, this.id, this.#unsavedPark) ?? this.#row.turn
    return { ...this.#row, state, turnId, turn }
  }

  turn(turnId: string): Turn | undefined {
    return turnView(this.#fold, this.id, turnId, this.#unsavedPark)
  }

  cancelOf(turnId: string | undefined): CancelRequest | null {
    return (turnId === undefined ? undefined : this.#cancels.get(turnId)) ?? null
  }

  /** For a cancel that an earlier process accepted, or that a full disk keeps from being stored. */
  rememberCancel(turnId: string, request: CancelRequest): void {
    this.#cancels.set(turnId, request)
  }

  /** What the last attempt used, until an event says it: of an attempt that parks or ends its turn, that event does. */
  get unsaid(): Used | null {
    return this.#unsaid
  }

  /** An attempt at an answer is over. */
  attemptUsed(used: Used | undefined): void {
    this.#unsaid = used ?? null
    if (used !== undefined) this.observer.used.tell(used.usage, used.cost)
  }

  /** Makes a call that may outlive a park. The session stays in memory until the call is over. */
  hold(callId: string, run: ConstructorParameters<typeof HeldCall>[0]): HeldCall {
    this.beginUse()
    const held = new HeldCall(run, () => this.wake())
    held.outcome.catch(() => undefined).finally(() => this.endUse()) // its failure is the call's
    return this.held.hold(callId, held)
  }

  // ---- who uses it ----

  /** A request uses it, or the code that loads it. Meanwhile it is not given up. */
  beginUse(): void {
    this.#uses += 1
  }

  endUse(): void {
    this.#uses -= 1
  }

  /** Of this daemon, among those that share its store. */
  get daemonName(): string {
    return this.#store.lease.name
  }

  /** No other daemon can own it, so it stays in memory while its turn waits. */
  get isKept(): boolean {
    return this.#store.lease.isEndless
  }

  get isInUse(): boolean {
    return this.#uses > 0
  }

  // ---- what a parked turn knows beyond its journal ----

  /** Set while a full disk keeps the `parked` event itself from being written. */
  get unsavedPark(): Parked | null {
    return this.#unsavedPark
  }

  parkUnsaved(fault: FaultReport): void {
    this.#unsavedPark = { fault, since: new Date(this.clock.now()).toISOString(), resumeAt: null }
  }

  endUnsavedPark(): void {
    this.#unsavedPark = null
  }

  /** The settings that do not wake the turn, if they are not those it was parked under. */
  get settingsIgnored(): string | undefined {
    return this.#settingsIgnored
  }

  /** Until this process parks the turn itself, it ignores what changed before. */
  ignoreSettings(settings: string | undefined): void {
    this.#settingsIgnored = settings
  }

  // ---- stopping and waking the engine's work ----

  /** Aborted when the current turn must stop what it is doing. */
  get signal(): AbortSignal {
    return this.#stop.signal
  }

  interrupt(reason: unknown): void {
    this.#stop.abort(reason)
    this.wake()
  }

  /** After an interrupt was handled: the next step may run again. */
  clearInterrupt(): void {
    if (this.#stop.signal.aborted) this.#stop = new AbortController()
  }

  /** The current state, with every change that woke the session before. */
  look(): SessionFold {
    this.clearInterrupt()
    this.#wakes.look()
    return this.#fold
  }

  /** The time in a wait that began then, as this process has seen it pass. */
  waitSince(since: string): () => number {
    if (this.#wait?.since !== since) this.#wait = { since, now: unhurried(this.clock) }
    return this.#wait.now
  }

  /** Something changed that a waiting turn may care about. */
  wake(): void {
    this.#wakes.wake()
  }

  /** Waits with that work, unless `wake` or `interrupt` ends the wait: then the result is `woken`. */
  async unlessWoken<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T | 'woken'> {
    return this.signal.aborted ? 'woken' : this.#wakes.unlessWoken(work)
  }

  /** Sleeps for that time, unless `wake` or `interrupt` ends the sleep. */
  sleepUnlessWoken(ms: number): Promise<'slept' | 'woken'> {
    return this.unlessWoken(async (signal) => {
      await this.clock.sleep(ms, signal)
      return 'slept' as const
    })
  }

  /** This process cannot continue the session: readers get the reason, and a damaged journal is quarantined. */
  async abandon(fault: Fault): Promise<void> {
    this.lose()
    if (!this.isKept && fault.category === 'lease_lost') {
      this.observer.log.warn(
        { sessionId: this.id, epoch: this.#row.epoch },
        'another daemon has taken over the session',
      )
      return
    }
    this.observer.log.error({ err: fault, sessionId: this.id }, 'session abandoned')
    if (fault.category !== 'journal_corrupt') return this.#parts.feeds.end(this.id, fault.category)
    const { report } = quarantinedFault(fault)
    await this.#store.quarantine(this.id, report)
    const isRewound = (await this.#store.heads([this.id]))[0]?.journal !== this.#row.journal
    this.#parts.feeds.end(this.id, isRewound ? REWOUND : fault.category)
    this.#row = { ...this.#row, quarantined: report }
    this.observer.changed.tell(this.id)
  }

  /**
   * The wait before a retry. Breakfall never shortens it, because a provider may have asked for it; a person may. Waits until then,
   * unless a person ends the wait or something stops the turn. A timer that ran to its end is the whole wait: the clock may have been
   * turned back meanwhile.
   */
  async backOff(until: number): Promise<void> {
    while (this.#fold.turn?.status.retry != null && this.clock.now() < until && !this.signal.aborted)
      if ((await this.sleepUnlessWoken(until - this.clock.now())) === 'slept') return
  }

  /** Ends that wait, because a person says so. False if the turn does not wait. */
  async skipBackOff(): Promise<boolean> {
    const events = await this.transact(({ turn }) => {
      if (turn === null || (retryAt(turn.status) ?? 0) <= this.clock.now()) return null
      return { drafts: [{ type: 'resumed', turnId: turn.id, because: 'person' }] }
    })
    return events.length > 0
  }

  // ---- the journal ----

  append(...drafts: readonly EventDraft[]): Promise<readonly SessionEvent[]> {
    return this.transact(() => ({ drafts }))
  }

  setData(patch: Partial<SessionData>): Promise<readonly SessionEvent[]> {
    return this.transact(() => ({ drafts: [], data: { ...this.data, ...patch } }))
  }

  /** Gives the session up, if nothing here uses it. `isUrgent`: even if its turn is worked on; it is due at once then. */
  async giveUp(isUrgent = false): Promise<void> {
    if (this.#isLost) return
    await this.transact((fold) => {
      const release = this.#releaseOf(fold, isUrgent)
      return release === null || (this.isInUse && !isUrgent) ? null : { drafts: [], release }
    })
  }

  /** The box has seen a higher epoch than ours. If the store confirms that the session is ours, it gets one above that. */
  async raiseEpoch(above: number): Promise<void> {
    await this.#mutex.run(async () => {
      if (this.#row.epoch > above) return // raised meanwhile
      const raised = this.#isLost ? undefined : await this.#store.raiseEpoch(this.#row, above)
      if (raised === undefined)
        throw new Fault('lease_lost', { boundary: 'journal', errorRaw: 'the session has another owner' })
      this.#row = { ...this.#row, epoch: raised.epoch }
    })
  }

  /** Decides from the current state what to write, and writes it. Null writes nothing. */
  transact(decide: (fold: SessionFold) => Writing | null): Promise<readonly SessionEvent[]> {
    return this.#mutex.run(async () => {
      if (this.#isLost) throw new Fault('lease_lost', { boundary: 'journal', errorRaw: 'the session was given up' })
      const decided = decide(this.#fold) // I2
      if (decided === null) return []
      const writing = this.#cleanRow(decided)
      const drafted = writing.drafts.map((draft, index) => this.#clean(this.#numbered(draft, index)))
      const events = drafted.map(({ event }) => event)
      for (const event of events) this.observer.reached(`before:${event.type}`)
      const fold = events.reduce(reduce, this.#fold)
      const append = this.#appendOf(writing, drafted, fold)
      await this.#write(append)
      this.#commit(append, writing, fold, events)
      if (append.release !== undefined) this.lose()
      for (const event of events) this.observer.reached(`after:${event.type}`)
      for (const event of events) this.observer.event.tell(event, fold.turn?.traceparent)
      return events
    })
  }

  /** The store knows first if another daemon has taken over. */
  async #write(append: Append): Promise<void> {
    try {
      await this.#store.append(append)
    } catch (thrown) {
      if (isFault(thrown) && thrown.category === 'lease_lost') this.lose()
      throw thrown
    }
  }

  #numbered(draft: EventDraft, index: number): SessionEvent {
    const { type, turnId } = draft
    const at = new Date(this.clock.now()).toISOString()
    const envelope = { seq: this.#row.lastSeq + 1 + index, type, sessionId: this.id, turnId, at } // first in the JSON
    return { ...envelope, ...draft }
  }

  /** Whatever the source, a model, a machine, a command or a user: none of our secrets gets into the journal. */
  #clean(event: SessionEvent): { readonly event: SessionEvent; readonly stored: StoredEvent } {
    const { seq, type, turnId } = event
    const body = JSON.stringify(event)
    const clean = this.secrets.scrubValue(event, body)
    const stored = { seq, type, turnId, body: clean === event ? body : JSON.stringify(clean) }
    return { event: clean, stored }
  }

  /** The same for what is stored beside the events. */
  #cleanRow(writing: Writing): Writing {
    const { data, cancel } = writing
    const clean = (text: string | null): string | null => (text === null ? null : this.secrets.scrub(text))
    return {
      ...writing,
      ...(data === undefined ? {} : { data: { ...data, title: clean(data.title) } }),
      ...(cancel === undefined
        ? {}
        : { cancel: { ...cancel, request: { ...cancel.request, reason: clean(cancel.request.reason) } } }),
    }
  }

  #appendOf(
    writing: Writing,
    drafted: readonly { readonly event: SessionEvent; readonly stored: StoredEvent }[],
    fold: SessionFold,
  ): Append {
    const events = drafted.map(({ event }) => event)
    const state = sessionState(fold)
    const turnId = fold.turn?.id ?? fold.queue[0]?.id ?? null
    const isMoved = state !== this.#row.state || turnId !== this.#row.turnId
    const { cancel, data, key, outcomes, seen } = writing
    const release = writing.release ?? this.#releaseAfter(fold, events)
    const suspect = fold.turn?.takeovers ?? 0
    const isEssential = cancel !== undefined || events.some((event) => event.type === 'parked' || isTerminal(event)) // I3
    const shown = new Set(events.filter((event) => !isStreamed(event)).map((event) => event.turnId))
    if (cancel !== undefined) shown.add(cancel.turnId)
    // The first word of a new attempt ends the wait for it.
    if (fold.turn !== null && fold.turn.status.retry !== this.#fold.turn?.status.retry) shown.add(fold.turn.id)
    const turns = [...shown].flatMap((id) => {
      const view = turnView(fold, this.id, id, null)
      const request = cancel?.turnId === id ? cancel.request : this.cancelOf(id)
      return view === undefined ? [] : [{ turnId: id, sessionId: this.id, view, cancel: request }]
    })
    const faults = faultNotesOf(events, this.#fold.turn)
    return {
      sessionId: this.id,
      epoch: this.#row.epoch,
      after: this.#row.lastSeq,
      events: drafted.map(({ stored }) => stored),
      ...(isMoved ? { set: { state, turnId, at: new Date(this.clock.now()).toISOString() } } : {}),
      ...(data === undefined ? {} : { data }),
      ...(turns.length === 0
        ? {}
        : { turns, summary: { turn: turnSummary(fold, this.id), updatedAt: this.#updatedAt(events) } }),
      ...(faults === undefined ? {} : { faults }),
      ...(key === undefined ? {} : { key: key(events) }),
      ...(isEssential ? { essential: true } : {}),
      ...(suspect === this.#row.suspect ? {} : { suspect }),
      ...(outcomes === undefined ? {} : { outcomes }),
      ...(seen === undefined ? {} : { seen }),
      ...(release === undefined ? {} : { release }),
    }
  }

  /** I4 */
  #releaseAfter(fold: SessionFold, events: readonly SessionEvent[]): Release | undefined {
    const isEnd = events.some((event) => event.type === 'parked' || isTerminal(event))
    return isEnd && !this.isInUse ? (this.#releaseOf(fold) ?? undefined) : undefined
  }

  /** Null: the session stays ours. `isUrgent`: not even if its turn is worked on; then it is due at once. */
  #releaseOf(fold: SessionFold, isUrgent = false): Release | null {
    if (this.isKept) return null
    const now = this.clock.now()
    const isCancelled = this.cancelOf(fold.turn?.id) !== null
    const release = releaseOf(fold, { policy: this.policy, runnerId: this.data.runnerId, isCancelled, now })
    return release ?? (isUrgent ? { wakeAt: new Date(now).toISOString(), waitFor: null } : null)
  }

  #updatedAt(events: readonly SessionEvent[]): string {
    return events.at(-1)?.at ?? new Date(this.clock.now()).toISOString()
  }

  #commit(append: Append, writing: Writing, fold: SessionFold, events: readonly SessionEvent[]): void {
    const lastSeq = append.events.at(-1)?.seq ?? this.#row.lastSeq
    const { at: movedAt = this.#row.updatedAt, ...moved } = append.set ?? {}
    const changed = { updatedAt: movedAt, ...moved, ...append.summary }
    const { suspect = this.#row.suspect } = append
    this.#row = { ...this.#row, ...changed, lastSeq, suspect, data: writing.data ?? this.#row.data }
    this.#fold = fold // I1
    this.calls.committed(events, fold)
    this.held.committed(events, fold)
    for (const { type } of events) {
      if (SAYS_USAGE.has(type)) this.#unsaid = null
      if (type === 'parked') this.#settingsIgnored = undefined // this process knows what changes from now on
      if (type === 'box-moved') this.box.moved()
    }
    this.#parts.folders.update(this)
    if (writing.cancel !== undefined) this.#cancels.set(writing.cancel.turnId, writing.cancel.request) // I3
    for (const { body } of append.events) this.#journalChars += body.length
    this.feed.publish(append.events)
    if (append.summary !== undefined || append.set !== undefined || append.data !== undefined)
      this.observer.changed.tell(this.id)
  }
}

// ---- details ----

const SAYS_USAGE: ReadonlySet<string> = new Set<EventType>([
  'tool-call',
  'retry',
  'compacted',
  'parked',
  'turn-end',
  'turn-error',
])

const STREAMED: ReadonlySet<EventType> = new Set(['text-delta', 'reasoning-delta', 'tool-draft', 'tool-output'])

/** Events that come by the hundred and change nothing in a turn's view, except that they end the wait for a retry. */
const isStreamed = (event: SessionEvent): boolean => STREAMED.has(event.type)

/** The damaged journal was quarantined. */
export const quarantinedFault = (fault: Fault): Fault =>
  fault.with({ message: { action: 'Breakfall set it aside unchanged; other sessions are not affected.' } })
