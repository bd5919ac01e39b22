/**
 * All sessions, and everything that a client can do with them. The HTTP and the WebSocket API call only this. What changes a session
 * goes through `session-commands.ts`.
 */
import { Fault, isFault } from '@breakfall/faults'
import {
  type Box,
  type BoxCreate,
  type Placement,
  type Pruned,
  type PruneInput,
  type Session,
  type SessionCreate,
  type SessionList,
  type SessionPatch,
  type SessionQuery,
  type Turn,
  type TurnApprove,
  type TurnList,
  type TurnReceipt,
  turnReceiptSchema,
  type TurnResume,
} from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import { secretVariables } from '../secrets.ts'
import type { OutputAnswer } from '@breakfall/runner/client'
import { type CancelRequest, type SessionRow } from '../rows.ts'
import { CREATED, type KeyRow, type Store, type StoredEvent, type TurnRow } from '../store/store.ts'
import { sessionPage } from '../turn/view.ts'
import type { PromptRequest } from './accept-prompt.ts'
import { answerBefore, answeredBefore, isSame } from '../loop/approval.ts'
import { checkBox } from '../boxes/box.ts'
import type { Engine } from '../loop/engine.ts'
import type { BoxReleases } from './box-releases.ts'
import type { BoxRemovals } from '../boxes/box-removals.ts'
import { notParked, SessionCommands } from './session-commands.ts'
import type { SessionParts } from '../session/session-parts.ts'
import { forgetQuarantined, type SessionLoader, type SessionReading } from './loader.ts'
import type { Lifecycle } from '../session/lifecycle.ts'
import type { ModelPort } from '../loop/ask-model.ts'
import type { Runners } from '../runner/runners.ts'
import type { ToolCatalog } from '../tools/catalog.ts'
import { hashOf, unfinished } from './idempotency.ts'
import type { Pruning } from './pruning.ts'
import { selectionOf } from './session-selection.ts'
import { type OutputRequest, storedOutput } from './stored-output.ts'
import { newId } from '@breakfall/wire/node'

const TURNS_PAGE_MAX = 50
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

type SessionsParts = {
  readonly base: SessionParts
  readonly models: ModelPort
  readonly tools: ToolCatalog
  readonly runners: Runners
  readonly lifecycle: Lifecycle
  readonly stateDir: string
  readonly engine: Engine
  readonly loader: SessionLoader
  readonly boxRemovals: BoxRemovals
  readonly boxReleases: BoxReleases
  readonly pruning: Pruning
}

export class Sessions {
  readonly #parts: SessionsParts
  readonly #store: Store
  readonly #loader: SessionLoader
  /** Also what other daemons ask for: the fleet starts and ends that. */
  readonly commands: SessionCommands

  constructor(parts: SessionsParts) {
    this.#parts = parts
    this.#store = parts.base.store
    this.#loader = parts.loader
    this.commands = new SessionCommands({ ...parts, turn: (turnId) => this.turn(turnId) })
  }

  get loader(): SessionLoader {
    return this.#loader
  }

  /** With a key: the same key gets the same session, whichever daemon is asked. */
  async create(request: SessionCreate, key?: string): Promise<Session> {
    this.#refuseWhileClosing()
    const requestHash = hashOf(request)
    const known = key === undefined ? undefined : await this.#store.getKey(CREATED, key)
    if (known !== undefined) return this.#createdBefore(known, requestHash)
    const { title = null, box = {}, policy = {}, agent, placement } = request
    const { tools, outside, needsBox } = this.#parts.tools.chosen(request.tools)
    const { about, isolation } = (needsBox ? await this.#checkedBox(box, placement) : undefined) ?? {}
    const id = newId()
    const bound = await this.#parts.models.providers.bind(id, request, { model: null })
    const { clock, observer } = this.#parts.base
    const secrets = this.#parts.base.secrets.session(id)
    secrets.set('box', secretVariables(box.env))
    const session = {
      id,
      journal: newId(),
      createdAt: new Date(clock.now()).toISOString(),
      data: {
        title: title === null ? null : secrets.scrub(title),
        ...bound,
        box,
        tools,
        outside,
        policy,
        placement,
        agent,
        about,
        level: isolation?.level,
        runnerId: null,
        boxMade: false,
      },
    }
    try {
      const keyRow = key === undefined ? undefined : { scope: CREATED, key, requestHash, receipt: id }
      const row = await this.#store.createSession(session, keyRow)
      observer.created.tell(id)
      observer.changed.tell(id)
      return this.viewOf(row)
    } catch (thrown) {
      const made = key === undefined ? undefined : await this.#store.getKey(CREATED, key)
      if (made === undefined || !isFault(thrown) || thrown.category !== 'idempotency_conflict') throw thrown
      return this.#createdBefore(made, requestHash) // another request with this key was first
    }
  }

  #createdBefore(known: KeyRow, requestHash: string): Promise<Session> {
    if (known.requestHash !== requestHash) throw new Fault('idempotency_conflict')
    return this.get(known.receipt)
  }

  /** Changes the title at once, and the model and its provider for the next turn. */
  async change(id: string, patch: SessionPatch): Promise<Session> {
    this.#refuseWhileClosing()
    await this.#order(id, { kind: 'change', patch: { ...patch, ...this.#cleanTitle(id, patch) } })
    return this.get(id)
  }

  async list(query: SessionQuery): Promise<SessionList> {
    const selection = selectionOf(query)
    const { rows, counts } = await this.#store.listSessions({ ...selection, limit: selection.limit + 1 })
    return sessionPage(
      rows.map((row) => this.viewOf(row)),
      selection.limit,
      counts,
    )
  }

  /** The session's turns, newest first. */
  async turns(id: string, cursor: string | undefined): Promise<TurnList> {
    if (cursor !== undefined && !UUID.test(cursor)) {
      const got = JSON.stringify(cursor.slice(0, 50))
      throw invalidRequest([{ field: 'cursor', expected: 'the "next" of an earlier page', got }])
    }
    if ((await this.#store.getSession(id)) === undefined) notFound('session', id)
    const rows = await this.#store.listTurns(id, { before: cursor, limit: TURNS_PAGE_MAX + 1 })
    const turns: Turn[] = []
    for (const row of rows.slice(0, TURNS_PAGE_MAX)) turns.push(await this.#turnView(row))
    const next = rows.length > TURNS_PAGE_MAX ? turns.at(-1)?.id : undefined
    return { turns, ...(next === undefined ? {} : { next }) }
  }

  async get(id: string): Promise<Session> {
    return this.viewOf((await this.#store.getSession(id)) ?? notFound('session', id))
  }

  /** Undefined: there is no such session. */
  async find(id: string): Promise<Session | undefined> {
    const row = await this.#store.getSession(id)
    return row === undefined ? undefined : this.viewOf(row)
  }

  /** The row as the API shows it. */
  viewOf(row: SessionRow): Session {
    const { providers } = this.#parts.models
    if (row.quarantined !== null) return providers.sessionView({ ...row, state: 'idle', turnId: null })
    const view = providers.sessionView(this.#loader.peek(row.id)?.shownRow ?? row)
    return view.state === 'idle' || this.#loader.owns(row.id) ? view : { ...view, live: false }
  }

  /** A page of the session's events, as they are in the journal. */
  journalOf(id: string, after: number, limit: number, charsMax: number): Promise<readonly StoredEvent[]> {
    return this.#store.read(id, after, limit, charsMax)
  }

  /** All of an exec's output, from the runner. */
  async output(request: OutputRequest): Promise<OutputAnswer> {
    const row = (await this.#store.getSession(request.sessionId)) ?? notFound('session', request.sessionId)
    return storedOutput(this.#parts.runners, this.#loader.peek(row.id)?.row ?? row, request)
  }

  /** What a reader of the session's events needs. */
  async view(id: string): Promise<SessionReading> {
    return (await this.#loader.view(id)) ?? notFound('session', id)
  }

  async prompt(id: string, request: PromptRequest, key: string | undefined): Promise<TurnReceipt> {
    this.#refuseWhileClosing()
    return turnReceiptSchema.parse(await this.#order(id, { kind: 'prompt', ...request }, { key }))
  }

  async turn(turnId: string): Promise<Turn> {
    return this.#turnView((await this.#store.getTurn(turnId)) ?? notFound('turn', turnId))
  }

  /** Asks a turn to end. `isOver`: it had ended before. */
  async cancel(turnId: string, request: Omit<CancelRequest, 'at'>): Promise<{ turn: Turn; isOver: boolean }> {
    const view = await this.turn(turnId)
    if (view.endedAt !== null) return { turn: view, isOver: true }
    const at = new Date(this.#parts.base.clock.now()).toISOString()
    const cancel: CancelRequest = { ...request, reason: this.#clean(view.sessionId, request.reason), at }
    await this.#order(view.sessionId, { kind: 'cancel', turnId, cancel })
    const turn = await this.turn(turnId)
    return { turn, isOver: turn.endedAt !== null }
  }

  /** `provider`: the turn's own one, with a key for it. */
  async resume(turnId: string, { provider }: TurnResume = {}): Promise<Turn> {
    const view = await this.turn(turnId)
    const isUnowned = view.live === false
    const isWaiting = view.state === 'parked' || view.state === 'retrying'
    if (!isWaiting && !isUnowned) throw notParked(turnId, view.state)
    await this.#order(view.sessionId, { kind: 'resume', turnId }, { provider, isUnowned })
    return this.turn(turnId)
  }

  /** Answers a call that waits for an approval; the turn continues. */
  async approve(turnId: string, { provider, ...request }: TurnApprove): Promise<Turn> {
    const view = await this.turn(turnId)
    const approval = {
      ...request,
      ...(request.reason === undefined ? {} : { reason: this.#clean(view.sessionId, request.reason) ?? '' }),
    }
    try {
      if (view.state !== 'parked') throw notParked(turnId, view.state)
      await this.#order(view.sessionId, { kind: 'approve', turnId, approval }, { provider })
    } catch (thrown) {
      // The answer may have arrived before, and its own answer may have been lost.
      const before = isFault(thrown) ? await answerBefore(this.#store, await this.turn(turnId), request) : undefined
      if (before === undefined) throw thrown
      if (!isSame(before, request)) throw answeredBefore(before)
    }
    return this.turn(turnId)
  }

  /**
   * Ends the session's turns and deletes it with its box. Also works for a stuck or damaged session. `ifEnded`: refuses a session
   * that has not ended.
   */
  async delete(id: string, { ifEnded = false }: { readonly ifEnded?: boolean } = {}): Promise<void> {
    const row = (await this.#store.getSession(id)) ?? notFound('session', id)
    const { state, turnId } = this.viewOf(row)
    if (ifEnded && state !== 'idle') throw unfinished(id, turnId)
    if (!this.#store.lease.isEndless) return this.commands.orderRemoval(id)
    if (row.quarantined === null) await this.#stopAll(row)
    await this.commands.remove((await this.#store.getSession(id)) ?? row) // its last turn may have made a box
    forgetQuarantined(this.#parts.stateDir, id)
  }

  /** Deletes sessions that have ended. */
  prune(request: PruneInput): Promise<Pruned> {
    this.#refuseWhileClosing()
    return this.#parts.pruning.prune(request)
  }

  /** Releases the box of an idle session now. False if it is in use, has none, or its runner cannot be reached. */
  async release(id: string): Promise<boolean> {
    if ((await this.#store.getSession(id)) === undefined) notFound('session', id)
    return this.#parts.boxReleases.release(id)
  }

  // ---- details, in the order they are used above ----

  async #order(...order: Parameters<SessionCommands['order']>): Promise<unknown> {
    const outcome = await this.commands.order(...order)
    return outcome === undefined ? notFound('session', order[0]) : outcome
  }

  #cleanTitle(id: string, { title }: SessionPatch): Pick<SessionPatch, 'title'> {
    return title === undefined ? {} : { title: this.#clean(id, title) }
  }

  #refuseWhileClosing(): void {
    if (this.#parts.lifecycle.isDraining) throw new Fault('shutting_down')
    if (!this.#parts.base.gate.isOpen)
      throw new Fault('journal_unreachable', { errorRaw: 'the lease of this daemon may run out', retryAfterMs: 1_000 })
  }

  /** A session that names no box is never refused: its box is only described, if the runner is known. */
  async #checkedBox(box: BoxCreate, placement: Placement | undefined): Promise<Box | undefined> {
    if (Object.keys(box).length > 0) return checkBox(this.#parts.runners, box, placement)
    if (this.#parts.runners.known.length === 0) return undefined
    return checkBox(this.#parts.runners, box, placement).catch(() => undefined) // the first tool call reports what is wrong
  }

  async #turnView({ sessionId, turnId, view }: TurnRow): Promise<Turn> {
    const live = this.#loader.owns(sessionId) ? this.#loader.peek(sessionId)?.turn(turnId) : undefined
    return live ?? (await this.#settledView(sessionId, view))
  }

  /** A turn of a session that is not in memory: ended, or failed together with a damaged journal. */
  async #settledView(sessionId: string, view: Turn): Promise<Turn> {
    if (view.endedAt !== null) return view
    const row = await this.#store.getSession(sessionId)
    if (row?.quarantined == null && !this.#loader.owns(sessionId)) return { ...view, live: false }
    if (row?.quarantined != null) return { ...view, state: 'failed', parked: null, fault: row.quarantined }
    return view
  }

  async #stopAll({ id }: SessionRow): Promise<void> {
    const stopped = await this.#loader.use(id, async (session) => {
      const turnIds = [...session.fold.queue.map((queued) => queued.id), session.fold.turn?.id]
      for (const turnId of turnIds.filter((turnId) => turnId !== undefined))
        await this.cancel(turnId, { actor: 'superseded', reason: 'the session is being deleted' })
      await session.clock.within(this.#parts.engine.settled(session), this.#parts.runners.limits.killMsMax)
      session.lose() // nothing may write to the journal that is about to be deleted
      return true
    })
    if (stopped === undefined) notFound('session', id)
  }

  /** What passes through the store to a session's owner. */
  #clean(sessionId: string, text: string | null): string | null {
    return text === null ? null : this.#parts.base.secrets.session(sessionId).scrub(text)
  }
}

function notFound(what: string, id: string): never {
  throw new Fault('not_found', { facts: { name: `${what} ${id}` } })
}
