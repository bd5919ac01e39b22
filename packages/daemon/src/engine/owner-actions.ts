/**
 * What a request does to a session that this daemon owns, whether a client sent it here or another daemon passes it on.
 *
 * I1  A prompt is accepted once per key: the key is stored in the same commit as the turn.
 * I2  What another daemon asked for and its outcome are one commit: it happened and is answered, or neither.
 */
import { Fault, isFault } from '@breakfall/faults'
import {
  type SessionEvent,
  type SessionPatch,
  sessionPatchSchema,
  type Turn,
  type TurnApprove,
  turnApproveSchema,
  turnCreateSchema,
  type TurnReceipt,
  type TurnResume,
} from '@breakfall/wire'
import { newId } from '@breakfall/wire/node'
import { within } from '@breakfall/supervisor/internal'
import { z } from 'zod'
import type { CommandRow } from '../store/sharing.ts'
import type { CancelRequest, SessionRow, Store } from '../store/store.ts'
import { accepted, type PromptRequest, titled } from './accept-prompt.ts'
import { hashOf, receiptOf } from './answers.ts'
import { approvalDrafts } from './approval.ts'
import { answered, refused } from './asking.ts'
import { skipBackOff } from './back-off.ts'
import { checkSessionBox } from './box.ts'
import type { BoxRemovals } from './box-removals.ts'
import { boxesOf } from './boxes-of.ts'
import { cancelQueued } from './ending.ts'
import type { Engine } from './engine.ts'
import type { LiveSession, Writing } from './live-session.ts'
import { ours, type SessionLoader } from './loader.ts'
import { resumeTurn } from './park.ts'
import type { Ports } from './ports.ts'
import { turnOpening } from './turn-opening.ts'

type OwnerParts = {
  readonly ports: Ports
  readonly engine: Engine
  readonly loader: SessionLoader
  readonly boxRemovals: BoxRemovals
  /** A turn as the API shows it. */
  readonly turn: (turnId: string) => Promise<Turn>
}

export class OwnerActions {
  readonly #ports: Ports
  readonly #store: Store
  readonly #engine: Engine
  readonly #loader: SessionLoader
  readonly #boxRemovals: BoxRemovals
  readonly #turn: (turnId: string) => Promise<Turn>

  constructor(parts: OwnerParts) {
    this.#ports = parts.ports
    this.#store = parts.ports.store
    this.#engine = parts.engine
    this.#loader = parts.loader
    this.#boxRemovals = parts.boxRemovals
    this.#turn = parts.turn
  }

  /** Accepts a prompt once per key. */
  async prompt(
    session: LiveSession,
    request: PromptRequest,
    key: string | undefined,
    command?: CommandRow,
  ): Promise<TurnReceipt> {
    const { id } = session
    session.releasing?.abort() // the box is needed again
    return session.admission.run(async () => {
      const requestHash = promptHash(request)
      const known = key === undefined ? undefined : await this.#store.getKey(id, key)
      if (known !== undefined) {
        const receipt = receiptOf(known, requestHash)
        if (command !== undefined) await session.transact(() => ({ drafts: [], ...outcomeOf(command, receipt) }))
        await this.#loader.recover(id) // the process that accepted it may be gone
        return receipt
      }
      if (session.fold.turn === null && session.fold.queue.length === 0) await checkSessionBox(this.#ports, session)
      const left = this.#engine.isDriving(session) ? undefined : session.fold.turn?.id // by an earlier owner
      const turnId = newId()
      const opening = await turnOpening(this.#ports, session)
      const receipt = (seq: number): TurnReceipt => ({ turnId, seq })
      const chosen = await this.#ports.providers.forNextTurn(session.data)
      const traceparent = this.#ports.traces.begin(id, turnId, request.traceparent)
      const events = await session
        .transact((fold) => {
          const prompted = { turnId, ...request, traceparent }
          const writing = accepted(fold, session, prompted, { ...opening, ...chosen }, this.#ports)
          const first = writing.drafts.findIndex((draft) => draft.turnId === turnId)
          const done = receipt(session.row.lastSeq + 1 + first)
          return {
            ...titled(writing, session.data, request.prompt),
            ...(command === undefined ? {} : outcomeOf(command, done)),
            ...(key === undefined
              ? {}
              : { key: () => ({ scope: id, key, requestHash, receipt: JSON.stringify(done) }) }),
          }
        }) // I1, I2
        .catch((thrown: unknown) => this.#ports.traces.refused(turnId, thrown))
        .finally(() => this.#ports.folders.update(session)) // if it was not written, the folder is free again
      this.#loader.request(id)
      if (left !== undefined && session.fold.turn?.id === left) await this.#loader.recover(id)
      else this.#engine.drive(session)
      session.wake() // it may be parked with a turn that this prompt has ended
      return receipt(seqOf(events, turnId))
    })
  }

  async cancel(
    session: LiveSession,
    view: Turn,
    cancel: CancelRequest,
    command?: CommandRow,
  ): Promise<{ turn: Turn; isOver: boolean }> {
    const { id: turnId } = view
    await this.#storeCancel(session, turnId, cancel, command)
    await this.#loader.recover(session.id) // the cancel is stored first: the recovered turn then does nothing but end
    if (session.fold.turn?.id === turnId) {
      session.interrupt(new Fault('cancelled'))
      this.#engine.drive(session)
    }
    const turn = session.turn(turnId) ?? view
    return { turn, isOver: turn.endedAt !== null }
  }

  async resume(view: Turn, { provider }: TurnResume): Promise<Turn> {
    const turnId = view.id
    const notParked = (state: string): Fault => new Fault('turn_not_parked', { facts: { detail: state }, turnId })
    const isUnowned = view.live === false
    const session = ours(await this.#loader.recover(view.sessionId), view.sessionId)
    if (provider !== undefined && session.fold.turn !== null)
      this.#ports.providers.bring(session.id, session.fold.turn, provider)
    const isResumed =
      session.memoryPark !== null || (await resumeTurn(session, 'person')) || (await skipBackOff(this.#ports, session))
    if (!isResumed && !isUnowned) throw notParked(stateText(session.turn(turnId) ?? view))
    session.wake()
    this.#engine.drive(session)
    return session.turn(turnId) ?? view
  }

  /** Changes the title at once, and the model and its provider for the next turn. */
  async change(session: LiveSession, { title, ...request }: SessionPatch, command?: CommandRow): Promise<string> {
    return session.admission.run(async () => {
      const bound = await this.#ports.providers.bind(session.id, request, session.data)
      const data = { ...session.data, ...bound, ...(title === undefined ? {} : { title }) }
      const done = command === undefined ? {} : outcomeOf(command, session.id)
      await session.transact(() => ({ drafts: [], data, ...done }))
      return session.id
    })
  }

  /** Answers a call that waits for an approval; the turn continues. */
  async approve(session: LiveSession, view: Turn, approval: TurnApprove, command?: CommandRow): Promise<Turn> {
    const turnId = view.id
    await this.#loader.recover(session.id)
    const done = command === undefined ? {} : outcomeOf(command, turnId)
    const { turn } = session.fold
    if (approval.provider !== undefined && turn !== null)
      this.#ports.providers.bring(session.id, turn, approval.provider)
    await session.transact((fold) => ({ drafts: approvalDrafts(fold, turnId, approval), ...done })) // I2
    session.wake()
    this.#engine.drive(session)
    return session.turn(turnId) ?? view
  }

  /** Removes a session that is being deleted and that this daemon owns, with its box and everything that runs in it. */
  async remove(row: SessionRow): Promise<void> {
    const live = this.#loader.peek(row.id)
    if (live !== undefined) {
      live.lose() // nothing may write to the journal that is about to be deleted
      live.interrupt(new Fault('cancelled', { facts: { name: 'superseded' } }))
      await within(this.#engine.settled(live), this.#ports.limits.killMsMax)
    }
    const boxes = boxesOf(live?.row ?? row)
    await this.#boxRemovals.list(boxes)
    await this.#store.deleteSession(row.id)
    this.#loader.forget(row.id, 'session_deleted')
    this.#ports.providers.forget(row.id)
    await this.#boxRemovals.remove(boxes)
  }

  /** Does what another daemon asks of a session that this one owns. */
  async carryOut(session: LiveSession, command: CommandRow): Promise<void> {
    try {
      const asked: unknown = JSON.parse(command.body)
      if (command.kind === 'delete') return await this.remove(session.row)
      if (command.kind === 'prompt') return void (await this.prompt(session, promptOf(asked), command.key, command))
      if (command.kind === 'change') return void (await this.change(session, changeSchema.parse(asked).patch, command))
      const { turnId, cancel, approval } = askedSchema.parse(asked)
      const view = session.turn(turnId) ?? (await this.#turn(turnId))
      if (cancel !== undefined) return void (await this.cancel(session, view, cancel, command))
      if (approval !== undefined) return void (await this.approve(session, view, approval, command))
      const turn = await this.resume(view, {})
      await session.transact(() => ({ drafts: [], ...outcomeOf(command, turn.id) }))
    } catch (thrown) {
      if (!isFault(thrown) || thrown.report.boundary === 'journal') throw thrown
      const outcome = { commandId: command.id, outcome: refused(thrown), isRefused: true }
      await session.transact(() => ({ drafts: [], outcomes: [outcome], seen: command.nr }))
    }
  }

  // ---- details ----

  async #storeCancel(
    session: LiveSession,
    turnId: string,
    cancel: CancelRequest,
    command: CommandRow | undefined,
  ): Promise<void> {
    const done = command === undefined ? undefined : outcomeOf(command, turnId)
    try {
      await session.transact((fold) => {
        if (fold.queue.some((queued) => queued.id === turnId))
          return { drafts: [cancelQueued(turnId, cancel)], ...done }
        const isDone = fold.turn?.id !== turnId || session.cancelOf(turnId) !== null
        if (isDone) return done === undefined ? null : { drafts: [], ...done }
        return { drafts: [], cancel: { turnId, request: cancel }, ...done }
      })
    } catch (thrown) {
      if (!isFault(thrown) || thrown.category !== 'journal_full') throw thrown
      session.rememberCancel(turnId, cancel) // the disk is full: the cancel holds as long as this process lives
    }
  }
}

export const promptHash = ({ prompt, queue = false }: PromptRequest): string => hashOf({ prompt, queue })

function promptOf(asked: unknown): PromptRequest {
  return forwardedSchema.parse(asked)
}

/** A prompt that another daemon accepted for us, with its caller's span. */
const forwardedSchema = turnCreateSchema.extend({ traceparent: z.string().optional() })

const changeSchema = z.object({ patch: sessionPatchSchema })

const askedSchema = z.object({
  turnId: z.string(),
  approval: turnApproveSchema.optional(),
  cancel: z
    .object({
      actor: z.enum(['user', 'client_lost', 'deadline', 'shutdown', 'superseded']),
      reason: z.string().nullable(),
      at: z.string(),
    })
    .optional(),
})

/** What the append that carries out a command says to the daemon that asked. */
const outcomeOf = (command: CommandRow, value: unknown): Pick<Writing, 'outcomes' | 'seen'> => ({
  outcomes: [{ commandId: command.id, outcome: answered(value) }],
  seen: command.nr,
})

/** A turn counts as retrying until its next attempt gets somewhere. */
const stateText = ({ state }: Turn): string => (state === 'retrying' ? 'retrying already' : state)

const seqOf = (events: readonly SessionEvent[], turnId: string): number =>
  events.find((event) => event.turnId === turnId)?.seq ?? 0
