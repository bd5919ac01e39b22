/**
 * All sessions, and everything that a client can do with them. The HTTP and the WebSocket API call only this.
 *
 * I1  A prompt is accepted once per key: the key is stored in the same commit as the turn.
 * I2  An accepted request is durable before it is answered.
 */
import { Fault, isFault } from '@breakfall/faults'
import {
  type Box,
  type BoxCreate,
  invalidRequest,
  type Pruned,
  type PruneInput,
  type Session,
  type SessionCreate,
  type SessionEvent,
  type SessionList,
  type SessionPatch,
  type SessionQuery,
  type Turn,
  type TurnApprove,
  type TurnList,
  type TurnReceipt,
  type TurnResume,
} from '@breakfall/wire'
import type { OutputAnswer } from '@breakfall/runner/client'
import { within } from '@breakfall/supervisor'
import type { CancelRequest, SessionRow, Store, StoredEvent, TurnRow } from '../store/store.ts'
import { sessionPage, sessionView } from '../turn/view.ts'
import { accepted, type PromptRequest, titled } from './accept-prompt.ts'
import { approvalDrafts } from './approval.ts'
import { checkBox, checkSessionBox } from './box.ts'
import { cancelQueued } from './ending.ts'
import type { Engine } from './engine.ts'
import type { BoxReleases } from './box-releases.ts'
import type { BoxRemoval, BoxRemovals } from './box-removals.ts'
import type { LiveSession } from './live-session.ts'
import { forgetQuarantined, type SessionLoader, type SessionReading } from './loader.ts'
import { skipBackOff } from './back-off.ts'
import { toolsIn } from './tool-names.ts'
import { hashOf, receiptOf, unfinished } from './answers.ts'
import { resumeTurn } from './park.ts'
import type { Ports } from './ports.ts'
import type { Pruning } from './pruning.ts'
import { selectionOf } from './session-selection.ts'
import { type OutputRequest, storedOutput } from './stored-output.ts'
import { turnOpening } from './turn-opening.ts'
import { newId } from '@breakfall/wire/node'

const TURNS_PAGE_MAX = 50
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

type SessionsParts = {
  readonly ports: Ports
  readonly engine: Engine
  readonly loader: SessionLoader
  readonly boxRemovals: BoxRemovals
  readonly boxReleases: BoxReleases
  readonly pruning: Pruning
  readonly onCreate: (id: string) => void
}

export class Sessions {
  readonly #ports: Ports
  readonly #store: Store
  readonly #engine: Engine
  readonly #loader: SessionLoader
  readonly #boxRemovals: BoxRemovals
  readonly #boxReleases: BoxReleases
  readonly #pruning: Pruning
  readonly #onCreate: (id: string) => void

  constructor(parts: SessionsParts) {
    this.#ports = parts.ports
    this.#store = parts.ports.store
    this.#engine = parts.engine
    this.#loader = parts.loader
    this.#boxRemovals = parts.boxRemovals
    this.#boxReleases = parts.boxReleases
    this.#pruning = parts.pruning
    this.#onCreate = parts.onCreate
  }

  get loader(): SessionLoader {
    return this.#loader
  }

  async create(request: SessionCreate): Promise<Session> {
    this.#refuseWhileClosing()
    const { title = null, box = {}, policy = {}, agent } = request
    const { tools, outside, needsBox } = toolsIn(request.tools, this.#ports.outside.custom)
    const { about, isolation } = (needsBox ? await this.#checkedBox(box) : undefined) ?? {}
    const id = newId()
    const bound = await this.#ports.providers.bind(id, request, { model: null })
    const row = await this.#store.createSession({
      id,
      journal: newId(),
      createdAt: new Date(this.#ports.now()).toISOString(),
      data: {
        title: this.#clean(title),
        ...bound,
        box,
        tools,
        outside,
        policy,
        agent,
        about,
        level: isolation?.level,
        runnerId: null,
        boxMade: false,
      },
    })
    this.#onCreate(id)
    return this.#rowView(row)
  }

  /** Changes the title at once, and the model and its provider for the next turn. */
  async change(id: string, { title, ...request }: SessionPatch): Promise<Session> {
    this.#refuseWhileClosing()
    const session = await this.own(id)
    return session.admission.run(async () => {
      const bound = await this.#ports.providers.bind(id, request, session.data)
      await session.setData({ ...bound, ...(title === undefined ? {} : { title: this.#clean(title) }) })
      return this.get(id)
    })
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
    if ((await this.#store.getSession(id)) === undefined) notFound('session')
    const rows = await this.#store.listTurns(id, { before: cursor, limit: TURNS_PAGE_MAX + 1 })
    const turns: Turn[] = []
    for (const row of rows.slice(0, TURNS_PAGE_MAX)) turns.push(await this.#turnView(row))
    const next = rows.length > TURNS_PAGE_MAX ? turns.at(-1)?.id : undefined
    return { turns, ...(next === undefined ? {} : { next }) }
  }

  async get(id: string): Promise<Session> {
    return this.viewOf((await this.#store.getSession(id)) ?? notFound('session'))
  }

  /** Undefined: there is no such session. */
  async find(id: string): Promise<Session | undefined> {
    const row = await this.#store.getSession(id)
    return row === undefined ? undefined : this.viewOf(row)
  }

  /** The row as the API shows it. */
  viewOf(row: SessionRow): Session {
    if (row.quarantined !== null) return this.#rowView({ ...row, state: 'idle', turnId: null })
    const view = this.#loader.peek(row.id)?.view() ?? this.#rowView(row)
    return view.state === 'idle' || this.#loader.owns(row.id) ? view : { ...view, live: false }
  }

  /** A page of the session's events, as they are in the journal. */
  journalOf(id: string, after: number, limit: number, charsMax: number): Promise<readonly StoredEvent[]> {
    return this.#store.read(id, after, limit, charsMax)
  }

  /** All of an exec's output, from the runner. */
  async output(request: OutputRequest): Promise<OutputAnswer> {
    const row = (await this.#store.getSession(request.sessionId)) ?? notFound('session')
    return storedOutput(this.#ports, this.#loader.peek(row.id)?.row ?? row, request)
  }

  /** What a reader of the session's events needs. */
  async view(id: string): Promise<SessionReading> {
    return (await this.#loader.view(id)) ?? notFound('session')
  }

  /** The session in memory, with the right to write it. */
  async own(id: string): Promise<LiveSession> {
    return ours(await this.#loader.own(id))
  }

  async prompt(id: string, request: PromptRequest, key: string | undefined): Promise<TurnReceipt> {
    this.#refuseWhileClosing()
    const session = await this.own(id)
    session.releasing?.abort() // the box is needed again
    return session.admission.run(async () => {
      const requestHash = hashOf({ prompt: request.prompt, queue: request.queue ?? false })
      const known = key === undefined ? undefined : await this.#store.getKey(id, key)
      if (known !== undefined) {
        const receipt = receiptOf(known, requestHash)
        await this.#loader.recover(id) // the process that accepted it may be gone
        return receipt
      }
      if (session.fold.turn === null && session.fold.queue.length === 0) await checkSessionBox(this.#ports, session)
      const isUnowned = !this.#loader.owns(id) && session.fold.turn !== null
      const turnId = newId()
      const opening = await turnOpening(this.#ports, session)
      const receipt = (seq: number): TurnReceipt => ({ turnId, seq })
      const chosen = await this.#ports.providers.forNextTurn(session.data)
      const events = await session
        .transact((fold) => ({
          ...titled(
            accepted(fold, session, { turnId, ...request }, { ...opening, ...chosen }, this.#ports),
            session.data,
            request.prompt,
          ),
          ...(key === undefined
            ? {}
            : {
                key: (written) => ({
                  scope: id,
                  key,
                  requestHash,
                  receipt: JSON.stringify(receipt(seqOf(written, turnId))),
                }),
              }),
        })) // I1, I2
        .finally(() => this.#ports.folders.update(session)) // if it was not written, the folder is free again
      this.#loader.request(id)
      if (isUnowned) await this.#loader.recover(id)
      else this.#engine.drive(session)
      session.wake() // it may be parked with a turn that this prompt has ended
      return receipt(seqOf(events, turnId))
    })
  }

  async turn(turnId: string): Promise<Turn> {
    return this.#turnView((await this.#store.getTurn(turnId)) ?? notFound('turn'))
  }

  /** Asks a turn to end. `isOver`: it had ended before. */
  async cancel(turnId: string, request: Omit<CancelRequest, 'at'>): Promise<{ turn: Turn; isOver: boolean }> {
    const view = await this.turn(turnId)
    if (view.endedAt !== null) return { turn: view, isOver: true }
    const session = await this.own(view.sessionId)
    const at = new Date(this.#ports.now()).toISOString()
    const cancel: CancelRequest = { ...request, reason: this.#clean(request.reason), at }
    await this.#storeCancel(session, turnId, cancel)
    await this.#loader.recover(session.id) // the cancel is stored first: the recovered turn then does nothing but end
    if (session.fold.turn?.id === turnId) {
      session.interrupt(new Fault('cancelled'))
      this.#engine.drive(session)
    }
    const turn = session.turn(turnId) ?? view
    return { turn, isOver: turn.endedAt !== null }
  }

  /** `provider`: the turn's own one, with a key for it. */
  async resume(turnId: string, { provider }: TurnResume = {}): Promise<Turn> {
    const view = await this.turn(turnId)
    const notParked = (state: string): Fault => new Fault('turn_not_parked', { facts: { detail: state }, turnId })
    const isUnowned = view.live === false
    const isWaiting = view.state === 'parked' || view.state === 'retrying'
    if (!isWaiting && !isUnowned) throw notParked(view.state)
    const session = ours(await this.#loader.recover(view.sessionId))
    if (provider !== undefined && session.fold.turn !== null)
      this.#ports.providers.bring(session.id, session.fold.turn, provider)
    const isResumed =
      session.memoryPark !== null || (await resumeTurn(session, 'person')) || (await skipBackOff(this.#ports, session))
    if (!isResumed && !isUnowned) throw notParked(stateText(session.turn(turnId) ?? view))
    session.wake()
    this.#engine.drive(session)
    return session.turn(turnId) ?? view
  }

  /** Answers a call that waits for an approval; the turn continues. */
  async approve(turnId: string, request: TurnApprove): Promise<Turn> {
    const view = await this.turn(turnId)
    if (view.state !== 'parked') throw new Fault('turn_not_parked', { facts: { detail: view.state }, turnId })
    const session = ours(await this.#loader.recover(view.sessionId))
    const answer = {
      ...request,
      reason: request.reason === undefined ? undefined : this.#ports.secrets.scrub(request.reason),
    }
    await session.transact((fold) => ({ drafts: approvalDrafts(fold, turnId, answer) })) // I2
    session.wake()
    this.#engine.drive(session)
    return session.turn(turnId) ?? view
  }

  /**
   * Ends the session's turns and deletes it with its box. Also works for a stuck or damaged session. `ifEnded`: refuses a session
   * that has not ended.
   */
  async delete(id: string, { ifEnded = false }: { readonly ifEnded?: boolean } = {}): Promise<void> {
    const row = (await this.#store.getSession(id)) ?? notFound('session')
    const { state, turnId } = this.viewOf(row)
    if (ifEnded && state !== 'idle') throw unfinished(id, turnId)
    if (row.quarantined === null) await this.#stopAll(row)
    const boxes = boxesOf((await this.#store.getSession(id)) ?? row) // its last turn may have made one
    this.#boxRemovals.list(boxes)
    await this.#store.deleteSession(id)
    this.#loader.forget(id, 'session_deleted')
    this.#ports.providers.forget(id)
    forgetQuarantined(this.#ports.stateDir, id)
    await this.#boxRemovals.remove(boxes)
  }

  /** Deletes sessions that have ended. */
  prune(request: PruneInput): Promise<Pruned> {
    this.#refuseWhileClosing()
    return this.#pruning.prune(request)
  }

  /** Releases the box of an idle session now. False if it is in use, has none, or its runner cannot be reached. */
  async release(id: string): Promise<boolean> {
    if ((await this.#store.getSession(id)) === undefined) notFound('session')
    return this.#boxReleases.release(id)
  }

  // ---- details, in the order they are used above ----

  #refuseWhileClosing(): void {
    if (this.#ports.isClosing()) throw new Fault('shutting_down')
  }

  /** A session that names no box is never refused: its box is only described, if the runner is known. */
  async #checkedBox(box: BoxCreate): Promise<Box | undefined> {
    if (Object.keys(box).length > 0) return checkBox(this.#ports, box)
    if (this.#ports.runner.address === undefined) return undefined
    return checkBox(this.#ports, box).catch(() => undefined) // the first tool call reports what is wrong
  }

  #rowView(row: SessionRow): Session {
    const { providers } = this.#ports
    return sessionView(row, providers.modelOf(row.data), providers.viewOf(row.data.provider))
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

  async #storeCancel(session: LiveSession, turnId: string, cancel: CancelRequest): Promise<void> {
    try {
      await session.transact((fold) => {
        if (fold.queue.some((queued) => queued.id === turnId)) return { drafts: [cancelQueued(turnId, cancel)] }
        if (fold.turn?.id !== turnId || session.cancelOf(turnId) !== null) return null
        return { drafts: [], cancel: { turnId, request: cancel } }
      })
    } catch (thrown) {
      if (!isFault(thrown) || thrown.category !== 'journal_full') throw thrown
      session.rememberCancel(turnId, cancel) // the disk is full: the cancel holds as long as this process lives
    }
  }

  async #stopAll(row: SessionRow): Promise<void> {
    const session = await this.own(row.id)
    const ids = [...session.fold.queue.map((queued) => queued.id), session.fold.turn?.id].filter(
      (id) => id !== undefined,
    )
    for (const turnId of ids) await this.cancel(turnId, { actor: 'superseded', reason: 'the session is being deleted' })
    await within(this.#engine.settled(session), this.#ports.limits.killMsMax)
    session.isLost = true // nothing may write to the journal that is about to be deleted
  }

  /** Titles and reasons are stored as well as events. */
  #clean(text: string | null): string | null {
    return text === null ? null : this.#ports.secrets.scrub(text)
  }
}

/** A box may exist as soon as its runner is known, even if its creation was never recorded. */
const boxesOf = ({ id, epoch, data }: SessionRow): readonly BoxRemoval[] =>
  data.runnerId === null ? [] : [{ boxId: data.box.id ?? id, runnerId: data.runnerId, epoch: epoch + 1 }]

const seqOf = (events: readonly SessionEvent[], turnId: string): number =>
  events.find((event) => event.turnId === turnId)?.seq ?? 0

/** A turn counts as retrying until its next attempt gets somewhere. */
const stateText = ({ state }: Turn): string => (state === 'retrying' ? 'retrying already' : state)

function ours(session: LiveSession | 'owned' | undefined): LiveSession {
  if (session === undefined) notFound('session')
  if (session !== 'owned') return session
  throw new Fault('lease_lost', { boundary: 'journal', errorRaw: 'another daemon owns the session' })
}

function notFound(what: string): never {
  throw new Fault('not_found', { facts: { name: `such ${what}` } })
}
