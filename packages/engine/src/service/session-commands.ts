/**
 * What clients ask of a session, as one value. The daemon that owns the session carries it out; any other passes it on through the
 * store, as the same JSON, and the owner carries that out when a hint arrives, and once a second anyway.
 *
 * I1  A prompt is accepted once per key: the key is stored in the same commit as the turn.
 * I2  What another daemon asked for and its outcome are one commit: it happened and is answered, or neither.
 * I3  A command that is not answered in time is withdrawn: then it certainly was not carried out, and certainly will not be.
 * I4  An accepted request is durable before it is answered.
 */
import { Fault, faultFrom, isFault, isFaultReport } from '@breakfall/faults'
import { isObject } from '@breakfall/faults/internal'
import {
  type SessionEvent,
  sessionPatchSchema,
  type Turn,
  turnApproveSchema,
  turnCreateSchema,
  type TurnReceipt,
  type TurnResume,
} from '@breakfall/wire'
import { newId } from '@breakfall/wire/node'
import { z } from 'zod'
import type { CommandRow, Inbox, NewCommand } from '../store/sharing.ts'
import type { CancelRequest, SessionRow } from '../rows.ts'
import type { Store } from '../store/store.ts'
import { accepted, titled } from './accept-prompt.ts'
import { hashOf, receiptOf } from './idempotency.ts'
import { approvalDrafts } from '../loop/approval.ts'
import { boxesOf, checkSessionBox } from '../boxes/box.ts'
import type { BoxRemovals } from '../boxes/box-removals.ts'
import { cancelQueued } from '../loop/end-turn.ts'
import type { Engine } from '../loop/engine.ts'
import type { OwnedSession, Writing } from '../session/owned-session.ts'
import { ours, type SessionLoader } from './loader.ts'
import { resumeTurn } from '../loop/park.ts'
import { Poll } from '../poll.ts'
import type { SessionParts } from '../session/session-parts.ts'
import type { ModelPort } from '../loop/ask-model.ts'
import type { Runners } from '../runner/runners.ts'
import { turnOpening } from '../loop/turn-opening.ts'

/** As it lies in the store, but for `kind`, which is a column. */
const commandSchema = z.discriminatedUnion('kind', [
  turnCreateSchema.extend({ kind: z.literal('prompt'), traceparent: z.string().optional() }), // its caller's span
  z.object({ kind: z.literal('change'), patch: sessionPatchSchema }),
  z.object({
    kind: z.literal('cancel'),
    turnId: z.string(),
    cancel: z.object({
      actor: z.enum(['user', 'client_lost', 'deadline', 'shutdown', 'superseded']),
      reason: z.string().nullable(),
      at: z.string(),
    }),
  }),
  z.object({ kind: z.literal('resume'), turnId: z.string() }),
  z.object({ kind: z.literal('approve'), turnId: z.string(), approval: turnApproveSchema.omit({ provider: true }) }),
  z.object({ kind: z.literal('delete') }),
])

export type SessionCommand = z.output<typeof commandSchema>
type CommandOf<Kind extends SessionCommand['kind']> = Extract<SessionCommand, { kind: Kind }>

/** What a command comes with that does not pass through the store. */
type Given = {
  /** The same key gets the same answer. */
  readonly key?: string | undefined
  /** The turn's own provider, with a key for it: keys stay in the memory of the daemon that was given them. */
  readonly provider?: TurnResume['provider']
  /** No daemon has been working on the turn: a resume adopts it, whatever its state. */
  readonly isUnowned?: boolean | undefined
  /** Another daemon asked for it. */
  readonly asked?: CommandRow
}

type CommandParts = {
  readonly base: SessionParts
  readonly models: ModelPort
  readonly runners: Runners
  readonly engine: Engine
  readonly loader: SessionLoader
  readonly boxRemovals: BoxRemovals
  /** A turn as the API shows it. */
  readonly turn: (turnId: string) => Promise<Turn>
}

/** How long the owner may take. A cancel is durable when it is passed on, and nobody waits for more. */
const WAIT_MS = { prompt: 10_000, change: 10_000, approve: 10_000, resume: 2_000, cancel: 0, delete: 10_000 } as const

export class SessionCommands {
  readonly #parts: CommandParts
  readonly #store: Store
  readonly #engine: Engine
  readonly #loader: SessionLoader
  readonly #busy = new Set<string>()
  readonly #poll: Poll
  readonly #unlisten: () => void

  constructor(parts: CommandParts) {
    this.#parts = parts
    this.#store = parts.base.store
    this.#engine = parts.engine
    this.#loader = parts.loader
    const { hints } = this.#store
    this.#poll = new Poll(
      () => (hints.isUp ? POLL_MS : POLL_MS_WITHOUT_HINTS),
      () => this.#look(),
      parts.base.clock,
    )
    this.#unlisten = hints.on((hint) => {
      if (hint.kind === 'command' && this.#loader.peek(hint.sessionId) !== undefined) this.#poll.now()
    })
  }

  /** Has it carried out, here or by the session's owner, and returns its outcome. Undefined: there is no such session. */
  async order(sessionId: string, command: SessionCommand, given: Given = {}): Promise<unknown> {
    const { key } = given
    const sideEffects = command.kind === 'prompt' && key === undefined ? 'unknown' : 'none' // the same key gets the same receipt
    const work = this.#loader.use(sessionId, (session) => this.#execute(session, command, given))
    const done = await this.#parts.base.gate.whileOpen(work, sideEffects)
    return done === 'owned' ? this.#passOn(sessionId, command, key) : done
  }

  /** In a shared store a session is invisible from the first step on; whoever claims it finishes what is left. */
  async orderRemoval(sessionId: string): Promise<void> {
    const row = await this.#submit({ id: newId(), sessionId, kind: 'delete', body: '{}' })
    const found = this.#loader.peek(sessionId)?.row ?? (await this.#store.claim(sessionId))
    if (found === 'owned') await this.#outcome(row, WAIT_MS.delete)
    else if (found !== undefined) await this.remove(found)
  }

  /** Removes a session that this daemon owns, with its box and everything that runs in it. */
  async remove(row: SessionRow): Promise<void> {
    const live = this.#loader.peek(row.id)
    if (live !== undefined) {
      live.lose() // nothing may write to the journal that is about to be deleted
      live.interrupt(new Fault('cancelled', { facts: { name: 'superseded' } }))
      await live.clock.within(this.#engine.settled(live), this.#parts.runners.limits.killMsMax)
    }
    const boxes = boxesOf(live?.row ?? row)
    await this.#parts.boxRemovals.list(boxes)
    await this.#store.deleteSession(row.id)
    this.#loader.forget(row.id, 'session_deleted')
    this.#parts.models.providers.forget(row.id)
    await this.#parts.boxRemovals.remove(boxes)
  }

  /** From now on it also carries out what other daemons ask for. */
  start(): void {
    this.#poll.start()
  }

  async close(): Promise<void> {
    this.#unlisten()
    await this.#poll.close()
  }

  /** Carries out what other daemons ask of a session, in their order. */
  async empty(session: OwnedSession): Promise<void> {
    for (const inbox of await this.#store.openCommands([session.id])) await this.#emptyOne(session, inbox)
  }

  // ---- details: carrying out ----

  #execute(session: OwnedSession, command: SessionCommand, given: Given): Promise<unknown> {
    switch (command.kind) {
      case 'prompt':
        return this.#prompt(session, command, given)
      case 'change':
        return this.#change(session, command, given)
      case 'cancel':
        return this.#cancel(session, command, given)
      case 'resume':
        return this.#resume(session, command, given)
      case 'approve':
        return this.#approve(session, command, given)
      case 'delete':
        return this.remove(session.row)
    }
  }

  async #prompt(session: OwnedSession, request: CommandOf<'prompt'>, { key, asked }: Given): Promise<TurnReceipt> {
    const { id } = session
    session.box.keep() // the box is needed again
    return session.admission.run(async () => {
      const requestHash = promptHash(request)
      const known = key === undefined ? undefined : await this.#store.getKey(id, key)
      if (known !== undefined) {
        const receipt = receiptOf(known, requestHash)
        if (asked !== undefined) await session.transact(() => ({ drafts: [], ...outcomeOf(asked, receipt) }))
        await this.#loader.recover(id) // the process that accepted it may be gone
        return receipt
      }
      if (session.fold.turn === null && session.fold.queue.length === 0)
        await checkSessionBox(this.#parts.runners, session)
      const left = this.#engine.isDriving(session) ? undefined : session.fold.turn?.id // by an earlier owner
      const turnId = newId()
      const opening = await turnOpening(this.#parts.models, session)
      const { folders } = this.#parts.base
      const receipt = (seq: number): TurnReceipt => ({ turnId, seq })
      const chosen = await this.#parts.models.providers.forNextTurn(session.data)
      const traceparent = session.observer.traces.begin(id, turnId, request.traceparent)
      const events = await session
        .transact((fold) => {
          const prompted = { turnId, ...request, traceparent }
          const writing = accepted(fold, session, prompted, { ...opening, ...chosen }, folders)
          const first = writing.drafts.findIndex((draft) => draft.turnId === turnId)
          const done = receipt(session.row.lastSeq + 1 + first)
          return {
            ...titled(writing, session.data, request.prompt),
            ...outcomeOf(asked, done),
            ...(key === undefined
              ? {}
              : { key: () => ({ scope: id, key, requestHash, receipt: JSON.stringify(done) }) }),
          }
        }) // I1, I2
        .catch((thrown: unknown) => session.observer.traces.refused(turnId, thrown))
        .finally(() => folders.update(session)) // if it was not written, the folder is free again
      this.#loader.request(id)
      if (left !== undefined && session.fold.turn?.id === left) await this.#loader.recover(id)
      else this.#engine.drive(session)
      session.wake() // it may be parked with a turn that this prompt has ended
      return receipt(seqOf(events, turnId))
    })
  }

  /** The title changes at once, the model and its provider with the next turn. */
  async #change(session: OwnedSession, { patch }: CommandOf<'change'>, { asked }: Given): Promise<string> {
    const { title, ...request } = patch
    return session.admission.run(async () => {
      const bound = await this.#parts.models.providers.bind(session.id, request, session.data)
      const data = { ...session.data, ...bound, ...(title === undefined ? {} : { title }) }
      await session.transact(() => ({ drafts: [], data, ...outcomeOf(asked, session.id) }))
      return session.id
    })
  }

  async #cancel(session: OwnedSession, { turnId, cancel }: CommandOf<'cancel'>, { asked }: Given): Promise<string> {
    await this.#storeCancel(session, turnId, cancel, asked)
    await this.#loader.recover(session.id) // the cancel is stored first: the recovered turn then does nothing but end
    if (session.fold.turn?.id === turnId) {
      session.interrupt(new Fault('cancelled'))
      this.#engine.drive(session)
    }
    return turnId
  }

  async #storeCancel(session: OwnedSession, turnId: string, cancel: CancelRequest, asked?: CommandRow): Promise<void> {
    const done = outcomeOf(asked, turnId)
    try {
      await session.transact((fold) => {
        if (fold.queue.some((queued) => queued.id === turnId))
          return { drafts: [cancelQueued(turnId, cancel)], ...done }
        const isDone = fold.turn?.id !== turnId || session.cancelOf(turnId) !== null
        if (isDone) return asked === undefined ? null : { drafts: [], ...done }
        return { drafts: [], cancel: { turnId, request: cancel }, ...done }
      })
    } catch (thrown) {
      if (!isFault(thrown) || thrown.category !== 'journal_full') throw thrown
      session.rememberCancel(turnId, cancel) // the disk is full: the cancel holds as long as this process lives
    }
  }

  async #resume(session: OwnedSession, { turnId }: CommandOf<'resume'>, given: Given): Promise<string> {
    const { asked, isUnowned = false, provider } = given
    const view = session.turn(turnId) ?? (await this.#parts.turn(turnId))
    ours(await this.#loader.recover(session.id), session.id)
    if (provider !== undefined && session.fold.turn !== null)
      this.#parts.models.providers.bring(session.id, session.fold.turn, provider)
    const isResumed =
      session.unsavedPark !== null || (await resumeTurn(session, 'person')) || (await session.skipBackOff())
    if (!isResumed && !isUnowned) throw notParked(turnId, stateText(session.turn(turnId) ?? view))
    session.wake()
    this.#engine.drive(session)
    if (asked !== undefined) await session.transact(() => ({ drafts: [], ...outcomeOf(asked, turnId) }))
    return turnId
  }

  /** Answers a call that waits for an approval; the turn continues. */
  async #approve(session: OwnedSession, { turnId, approval }: CommandOf<'approve'>, given: Given): Promise<string> {
    const { asked, provider } = given
    await this.#loader.recover(session.id)
    const { turn } = session.fold
    if (provider !== undefined && turn !== null) this.#parts.models.providers.bring(session.id, turn, provider)
    await session.transact((fold) => ({
      drafts: approvalDrafts(fold, turnId, approval),
      ...outcomeOf(asked, turnId),
    })) // I2
    session.wake()
    this.#engine.drive(session)
    return turnId
  }

  // ---- details: passing on ----

  /** The owner's outcome. Throws its refusal, or `journal_unreachable` if it does not answer in time (I3). */
  async #passOn(sessionId: string, command: SessionCommand, key: string | undefined): Promise<unknown> {
    const { kind, ...body } = command
    // A key stays in the memory of the daemon that was given it: it must not pass through the store.
    if (kind === 'change' && command.patch.provider?.apiKey !== undefined)
      throw new Fault('session_busy', { facts: { name: sessionId } })
    const requestHash = kind === 'prompt' && key !== undefined ? promptHash(command) : undefined
    const known = key === undefined ? undefined : await this.#store.getKey(sessionId, key)
    if (known !== undefined && requestHash !== undefined) return receiptOf(known, requestHash)
    const asking = { id: newId(), sessionId, kind, body: JSON.stringify(body) }
    const row = await this.#submit(requestHash === undefined ? asking : { ...asking, key, requestHash })
    if (row.requestHash !== requestHash) throw new Fault('idempotency_conflict')
    const waitMs = WAIT_MS[kind]
    if (waitMs === 0) return null
    const outcome = await this.#outcome(row, waitMs)
    if (outcome !== undefined) return valueOf(outcome)
    if (await this.#store.withdraw(row.id))
      throw new Fault('journal_unreachable', {
        errorRaw: `the owner of session ${sessionId} did not answer in ${waitMs} ms`,
        retryAfterMs: RETRY_MS,
      })
    return valueOf((await this.#store.getCommand(row.id))?.outcome ?? refused(new Fault('not_found', { facts: GONE })))
  }

  /** Durable from now on; the owner learns of it at once, or within a second. */
  async #submit(command: NewCommand): Promise<CommandRow> {
    const row = await this.#store.submit(command)
    this.#store.hints.send({ kind: 'command', sessionId: command.sessionId })
    return row
  }

  /** Its outcome, or the refusal if it is gone with its session. Undefined if neither happens in time. */
  async #outcome(row: CommandRow, waitMs: number): Promise<string | undefined> {
    const { clock } = this.#parts.base
    const until = clock.elapsed() + waitMs
    let found: CommandRow | undefined = row
    for (let pauseMs = PAUSE_MS; found?.outcome === null; pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX)) {
      const leftMs = until - clock.elapsed()
      if (leftMs <= 0) return undefined
      await this.#hinted(row.id, Math.min(pauseMs, leftMs))
      found = await this.#store.getCommand(row.id)
    }
    return found?.outcome ?? refused(new Fault('not_found', { facts: GONE }))
  }

  #hinted(commandId: string, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        unlisten()
        timer.cancel()
        resolve()
      }
      const timer = this.#parts.base.clock.after(ms, done)
      const unlisten = this.#store.hints.on((hint) => {
        if (hint.kind === 'outcome' && hint.commandId === commandId) done()
      })
    })
  }

  // ---- details: what other daemons ask for ----

  async #look(): Promise<void> {
    try {
      const inboxes = await this.#store.openCommands()
      // Not awaited: a command that takes long must not hold up those of other sessions.
      for (const inbox of inboxes) if (!this.#busy.has(inbox.sessionId)) void this.#use(inbox)
    } catch (err) {
      this.#parts.base.observer.log.debug({ err }, 'cannot read commands now; the next look is in a second')
    }
  }

  async #use(inbox: Inbox): Promise<void> {
    const { sessionId } = inbox
    this.#busy.add(sessionId)
    try {
      await this.#loader.use(sessionId, (session) => this.#emptyOne(session, inbox))
    } catch (err) {
      this.#parts.base.observer.log.warn({ err, sessionId }, 'cannot carry out a command now')
    } finally {
      this.#busy.delete(sessionId)
    }
  }

  async #emptyOne(session: OwnedSession, { asked, commands }: Inbox): Promise<void> {
    for (const command of commands) {
      try {
        await this.#carryOut(session, command)
      } catch (thrown) {
        if (!isFault(thrown) || thrown.category !== 'cancelled') throw thrown
        continue // withdrawn meanwhile
      }
      this.#store.hints.send({ kind: 'outcome', commandId: command.id })
    }
    const isLeft = (commands.at(-1)?.nr ?? 0) < asked && !session.isLost
    if (isLeft) await session.transact(() => ({ drafts: [], seen: asked })) // the others were withdrawn
  }

  /** Writes the outcome together with what it does. Rejects only if nothing was written. */
  async #carryOut(session: OwnedSession, asked: CommandRow): Promise<void> {
    try {
      const body: unknown = JSON.parse(asked.body)
      const command = commandSchema.parse({ ...(isObject(body) ? body : {}), kind: asked.kind })
      await this.#execute(session, command, { key: asked.key, asked })
    } catch (thrown) {
      if (!isFault(thrown) || thrown.report.boundary === 'journal') throw thrown
      const outcome = { commandId: asked.id, outcome: refused(thrown), isRefused: true }
      await session.transact(() => ({ drafts: [], outcomes: [outcome], seen: asked.nr }))
    }
  }
}

export const notParked = (turnId: string, state: string): Fault =>
  new Fault('turn_not_parked', { facts: { detail: state }, turnId })

// ---- details ----

const promptHash = ({
  prompt,
  queue = false,
}: {
  readonly prompt: string
  readonly queue?: boolean | undefined
}): string => hashOf({ prompt, queue })

/** What the append that carries out a command says to the daemon that asked, if one did. */
const outcomeOf = (asked: CommandRow | undefined, value: unknown): Pick<Writing, 'outcomes' | 'seen'> =>
  asked === undefined
    ? {}
    : { outcomes: [{ commandId: asked.id, outcome: JSON.stringify({ ok: value }) }], seen: asked.nr }

const refused = (fault: Fault): string => JSON.stringify({ fault: fault.report })

function valueOf(outcome: string): unknown {
  const parsed: unknown = JSON.parse(outcome)
  if (!isObject(parsed)) return null
  if ('fault' in parsed && isFaultReport(parsed.fault)) throw faultFrom(parsed.fault)
  return 'ok' in parsed ? parsed.ok : null
}

/** A turn counts as retrying until its next attempt gets somewhere. */
const stateText = ({ state }: Turn): string => (state === 'retrying' ? 'retrying already' : state)

const seqOf = (events: readonly SessionEvent[], turnId: string): number =>
  events.find((event) => event.turnId === turnId)?.seq ?? 0

const GONE = { name: 'such session' } as const
const RETRY_MS = 2_000
const PAUSE_MS = 100
const PAUSE_MS_MAX = 1_000
const POLL_MS = 1_000
const POLL_MS_WITHOUT_HINTS = 100
