/**
 * Drives a session: asks `next` what to do, does it, and asks again, until there is nothing left to do.
 *
 * I1  One loop per session at a time. Each step is in the journal before `next` is asked again.
 * I2  Whatever goes wrong in a turn ends in a terminal or a parked event and leaves the session usable; a bug in one turn stops
 *     no other turn.
 * I3  A closing daemon hands its turns over: parked with `shutting_down`, recovered by the next daemon. Turns that it has
 *     not recovered itself yet stay untouched.
 */
import { classify, Fault, faultFrom, isFault, type Policy, withDecision } from '@breakfall/faults'
import { TIMER_MS_MAX } from '@breakfall/faults/internal'
import type { ShownPart } from '@breakfall/model/internal'
import type { EventDraft } from '@breakfall/wire'
import { deadlineAt, next } from '../turn/next.ts'
import type { Command, QueuedTurn, SessionFold, ToolCall, TurnFold } from '../turn/state.ts'
import { probeIntervalMs } from '../turn/wait.ts'
import { performAnswer } from './answer.ts'
import { modelNow, requestFacts } from './ask-model.ts'
import { performCompaction } from './compact.ts'
import { discardDrafts } from './answer-writer.ts'
import { performCall } from './tool-call.ts'
import { cancelTurn, endTurn, failTurn, openCalls, stopTurn } from './ending.ts'
import { Listeners } from '../listeners.ts'
import type { LiveSession } from './live-session.ts'
import { backOff } from './back-off.ts'
import { parkTurn, stayParked } from './park.ts'
import { CONTINUE, type GiveUp, giveUp, type Performed } from './performed.ts'
import type { Ports } from './ports.ts'
import { recoverTurn, waitToRecover } from './recover.ts'
import { approvalFor, askApproval, denyCall } from './approval.ts'
import { askForSteps } from './steps-spent.ts'
import { decideFor } from './turn-decision.ts'
import { startingTurn, turnOpening } from './turn-opening.ts'

export class Engine {
  readonly #ports: Ports
  /** A session has nothing left to do. */
  readonly rested = new Listeners<[session: LiveSession]>()
  readonly #drives = new Map<LiveSession, Drive>()

  constructor(ports: Ports) {
    this.#ports = ports
  }

  isDriving(session: LiveSession): boolean {
    return this.#drives.has(session)
  }

  get driven(): number {
    return this.#drives.size
  }

  *drivenTurns(): Iterable<{ readonly turn: TurnFold; readonly policy: Policy }> {
    for (const { fold, policy } of this.#drives.keys()) if (fold.turn !== null) yield { turn: fold.turn, policy }
  }

  /** Drives a session that an earlier process left unfinished; recovers its turn when its time has come. */
  driveInherited(session: LiveSession): void {
    this.drive(session, true)
  }

  /** Makes sure that the session is being driven. */
  drive(session: LiveSession, isInherited = false): void {
    if (this.#drives.has(session)) return // I1
    const drive: Drive = { isInherited, done: Promise.resolve() }
    this.#drives.set(session, drive)
    drive.done = this.#loop(session, drive).finally(() => {
      this.#drives.delete(session)
      // Work that arrived while the loop was ending would otherwise wait forever.
      if (!this.#ports.lifecycle.isDraining && !session.isLost && hasWork(session.fold))
        this.drive(session, drive.isInherited)
      else this.rested.tell(session)
    })
  }

  /** Resolves when the session is not being driven any more. */
  async settled(session: LiveSession): Promise<void> {
    await this.#drives.get(session)?.done
  }

  /** Resolves when no session is being driven any more. */
  async allSettled(): Promise<void> {
    await Promise.all([...this.#drives.values()].map(({ done }) => done))
  }

  async #loop(session: LiveSession, drive: Drive): Promise<void> {
    while (!session.isLost) {
      if (this.#mustHandOver(session)) return this.#handOver(session, drive)
      if (!hasWork(session.look())) return
      const deadline = this.#deadlineTimer(session)
      try {
        const performed = await this.#advance(session, drive)
        if (performed.kind === 'give-up') await this.#settle(session, () => this.#giveUp(session, performed))
      } catch (thrown) {
        await this.#settle(session, () => this.#failed(session, thrown))
      } finally {
        clearTimeout(deadline)
      }
    }
  }

  /** At once if the daemon closes, and at the end of the step while it drains. */
  #mustHandOver({ fold: { turn } }: LiveSession): boolean {
    if (this.#ports.lifecycle.isClosing) return true
    const isInStep = turn !== null && (turn.answer.isAnswering || turn.calls.some(({ result }) => result === null))
    return this.#ports.lifecycle.isDraining && (!isInStep || turn?.parked != null)
  }

  async #advance(session: LiveSession, drive: Drive): Promise<Performed> {
    if (!drive.isInherited) return this.#perform(session, this.#next(session))
    await this.#recover(session, drive)
    return CONTINUE
  }

  /** If even the end of a turn cannot be written, this process abandons the session. */
  async #settle(session: LiveSession, write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (thrown) {
      await session.abandon(classify(thrown, { boundary: 'daemon' }))
    }
  }

  async #recover(session: LiveSession, drive: Drive): Promise<void> {
    const inherited = session.fold.turn
    await waitToRecover(this.#ports, session)
    if (this.#ports.lifecycle.isClosing) return // I3
    drive.isInherited = false
    await recoverTurn(session, inherited, this.#ports.store.lease.name)
  }

  #next(session: LiveSession): Command {
    const { fold, policy } = session
    const request = requestFacts(this.#ports, session)
    const approval = (call: ToolCall): string | null => approvalFor(this.#ports, session, call)
    const cancel = session.cancelOf(fold.turn?.id)
    return next(fold, { policy, request, cancel, now: this.#ports.now(), approvalFor: approval })
  }

  async #perform(session: LiveSession, command: Command): Promise<Performed> {
    if (REACHES_OUT.has(command.do)) await this.#ports.gate.pass(session.signal)
    if (session.isLost) return CONTINUE
    if (command.do === 'answer') return performAnswer(this.#ports, session, command.attempt)
    if (command.do === 'compact') return performCompaction(this.#ports, session, command)
    if (command.do === 'call') return performCall(this.#ports, session, command.call)
    await this.#write(session, command)
    return CONTINUE
  }

  async #write(session: LiveSession, command: Exclude<Command, { do: 'answer' | 'compact' | 'call' }>): Promise<void> {
    const ports = this.#ports
    switch (command.do) {
      case 'rest':
        return
      case 'start':
        if (!(await ports.folders.untilFree(session, command.turn))) return
        return startQueued(ports, session, command.turn)
      case 'cancel':
        return cancelTurn(ports, session, command.cancel, command.open)
      case 'fail':
        return failTurn(ports, session, command.why, command.open)
      case 'ask-for-steps':
        return askForSteps(ports, session)
      case 'ask-approval':
        return askApproval(ports, session, command.call, command.why)
      case 'refuse-call':
        return denyCall(session, command.call, command.reason)
      case 'stay-parked':
        return stayParked(ports, session, command.parked)
      case 'pause':
        return backOff(ports, session, command.until)
      case 'discard':
        return void (await session.append(...interrupted(session.currentTurn, command.parts)))
      case 'begin-step':
        return void (await session.append(stepDraft(ports, session, command.step)))
    }
  }

  /** I2: turns what a performer threw into an event. */
  async #failed(session: LiveSession, thrown: unknown): Promise<void> {
    const fault = classify(thrown, { boundary: 'daemon' })
    if (fault.category === 'journal_full') return this.#waitForSpace(session, fault)
    if (isFault(thrown) && LOST.has(fault.category) && fault.report.boundary === 'journal') {
      return session.abandon(fault)
    }
    if (session.signal.aborted) return // stopped on purpose: `next` knows why
    if (fault.report.next === 'park') return this.#giveUp(session, this.#parking(session, fault))
    this.#ports.log.error({ err: thrown, sessionId: session.id, turnId: session.fold.turn?.id }, 'turn failed')
    await this.#orWaitForSpace(session, () => endTurn(this.#ports, session, fault.with({ stopped: 'not_retryable' })))
  }

  async #giveUp(session: LiveSession, { fault, decision }: GiveUp): Promise<void> {
    await this.#orWaitForSpace(session, () =>
      decision.action === 'park'
        ? parkTurn(this.#ports, session, fault, decision.resumeAt)
        : endTurn(this.#ports, session, faultFrom(fault)),
    )
  }

  /** A fault that asks for a person, from a call without its own retries. */
  #parking(session: LiveSession, fault: Fault): GiveUp {
    const decision = decideFor(this.#ports, session, session.currentTurn, fault.report, { at: 'engine' })
    const isFinal = decision.action === 'park' || decision.action === 'stop'
    return giveUp(fault.report, isFinal ? decision : { action: 'stop', because: 'not_retryable' })
  }

  async #orWaitForSpace(session: LiveSession, write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (thrown) {
      if (!isFault(thrown) || thrown.category !== 'journal_full') throw thrown
      await this.#waitForSpace(session, thrown)
    }
  }

  /** The disk is full. The turn is parked in memory until the `parked` event can be written. */
  async #waitForSpace(session: LiveSession, fault: Fault): Promise<void> {
    const { turn } = session.fold
    if (turn === null) return
    const report = fault.with({ turnId: turn.id }).report
    session.parkInMemory(report)
    try {
      for (let probe = 0; !this.#ports.lifecycle.isClosing; probe += 1) {
        const { action, because } = decideFor(this.#ports, session, turn, report, { at: 'engine' })
        try {
          if (action === 'park') return await parkTurn(this.#ports, session, report, null)
          if (because === 'deadline_passed') return await failTurn(this.#ports, session, 'deadline', openCalls(turn))
          return await stopTurn(
            this.#ports,
            session,
            openCalls(turn),
            withDecision(fault, { action: 'stop', because: 'parking_off' }),
          )
        } catch (thrown) {
          if (!isFault(thrown) || thrown.category !== 'journal_full') throw thrown
        }
        session.clearInterrupt()
        const ms = probeIntervalMs('journal', probe, this.#ports.dice(), this.#ports.limits.probeMsFirst)
        await session.sleepUnlessWoken(ms) // a person who resumes the turn ends the wait, too
      }
    } finally {
      session.endMemoryPark()
    }
  }

  /** I3 */
  async #handOver(session: LiveSession, { isInherited }: Drive): Promise<void> {
    const { turn } = session.fold
    try {
      const isKept = turn === null || turn.parked !== null || session.cancelOf(turn.id) !== null || isInherited
      if (isKept) return await session.giveUp(true)
      await parkTurn(this.#ports, session, new Fault('shutting_down', { turnId: turn.id }).report, null)
    } catch (thrown) {
      // The next daemon finds the turn unfinished, as after a crash, and recovers it all the same.
      this.#ports.log.warn({ err: thrown, sessionId: session.id }, 'cannot hand over a turn')
    }
  }

  #deadlineTimer(session: LiveSession): NodeJS.Timeout | undefined {
    const { turn } = session.fold
    const at = turn === null ? null : deadlineAt(turn, session.policy)
    if (at === null) return undefined
    const ms = Math.min(Math.max(at - this.#ports.now(), 0), TIMER_MS_MAX)
    return setTimeout(() => session.interrupt(new Fault('deadline_exceeded')), ms)
  }
}

// ---- details ----

/** `isInherited`: an earlier process left the turn, and this one has not recovered it yet. */
type Drive = { isInherited: boolean; done: Promise<void> }

async function startQueued(ports: Ports, session: LiveSession, queued: QueuedTurn): Promise<void> {
  const { id: turnId, prompt, traceparent } = queued
  const opening = await turnOpening(ports, session)
  const chosen = await ports.providers.forNextTurn(session.data)
  await session.transact((fold) => {
    const isNext = fold.turn === null && fold.queue[0]?.id === turnId // a cancel may have ended it meanwhile
    return isNext ? startingTurn(fold, session, { turnId, prompt, traceparent }, { ...opening, ...chosen }) : null
  })
}

function stepDraft(ports: Ports, session: LiveSession, step: number): EventDraft {
  return { type: 'step-start', turnId: session.currentTurn.id, step, model: modelNow(ports, session) }
}

/** What asks a model, or runs a tool: nothing that another owner may be doing at the same time. */
const REACHES_OUT: ReadonlySet<Command['do']> = new Set(['answer', 'compact', 'call'])

const hasWork = ({ turn, queue }: SessionFold): boolean => turn !== null || queue.length > 0

/** Another process owns the journal now, or it is damaged: this process must not write to it any more. */
const LOST: ReadonlySet<string> = new Set(['lease_lost', 'journal_corrupt', 'not_found', 'other', 'shutting_down'])

function interrupted(turn: TurnFold, parts: readonly ShownPart[]): readonly EventDraft[] {
  const because = new Fault('process_failed', {
    boundary: 'daemon',
    turnId: turn.id,
    message: {
      happened: 'The daemon was interrupted in the middle of this answer.',
      action: 'Breakfall discards the unfinished part and asks again.',
    },
  }).report
  return discardDrafts(turn, parts, because)
}
