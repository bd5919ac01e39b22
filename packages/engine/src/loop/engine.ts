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
import type { Timer } from '../clock.ts'
import { deadlineAt, next } from '../turn/next.ts'
import type { Command, QueuedTurn, SessionFold, ToolCall, TurnFold } from '../turn/state.ts'
import { probeIntervalMs } from '../turn/wait.ts'
import { modelNow, type ModelPort, performAnswer, requestFacts } from './ask-model.ts'
import { performCompaction } from './compact.ts'
import { discardDrafts } from './answer-writer.ts'
import { cancelTurn, endTurn, failTurn, openCalls, stopTurn } from './end-turn.ts'
import { Listeners } from '../listeners.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import type { Folders } from '../session/folders.ts'
import type { Lifecycle } from '../session/lifecycle.ts'
import { askForSteps, parkTurn, stayParked, type WaitPort } from './park.ts'
import { CONTINUE, type GiveUp, giveUp, type StepResult } from '../turn/step-result.ts'
import { recoverTurn, waitToRecover } from './recover.ts'
import { askApproval, askQuestion, denyCall } from './approval.ts'
import type { ToolCatalog } from '../tools/catalog.ts'
import { decideFor } from '../session/turn-decision.ts'
import { startingTurn, turnOpening } from './turn-opening.ts'

type EngineParts = {
  readonly models: ModelPort
  readonly tools: ToolCatalog
  readonly waits: WaitPort
  readonly folders: Folders
  readonly lifecycle: Lifecycle
}

export class Engine {
  readonly #parts: EngineParts
  /** A session has nothing left to do. */
  readonly rested = new Listeners<[session: OwnedSession]>()
  readonly #drives = new Map<OwnedSession, Drive>()

  constructor(parts: EngineParts) {
    this.#parts = parts
  }

  isDriving(session: OwnedSession): boolean {
    return this.#drives.has(session)
  }

  get driven(): number {
    return this.#drives.size
  }

  *drivenTurns(): Iterable<{ readonly turn: TurnFold; readonly policy: Policy }> {
    for (const { fold, policy } of this.#drives.keys()) if (fold.turn !== null) yield { turn: fold.turn, policy }
  }

  /** Drives a session that an earlier process left unfinished; recovers its turn when its time has come. */
  driveInherited(session: OwnedSession): void {
    this.drive(session, true)
  }

  /** Makes sure that the session is being driven. */
  drive(session: OwnedSession, isInherited = false): void {
    if (this.#drives.has(session)) return // I1
    const drive: Drive = { isInherited, done: Promise.resolve() }
    this.#drives.set(session, drive)
    drive.done = this.#loop(session, drive).finally(() => {
      this.#drives.delete(session)
      // Work that arrived while the loop was ending would otherwise wait forever.
      if (!this.#parts.lifecycle.isDraining && !session.isLost && hasWork(session.fold))
        this.drive(session, drive.isInherited)
      else this.rested.tell(session)
    })
  }

  /** Resolves when the session is not being driven any more. */
  async settled(session: OwnedSession): Promise<void> {
    await this.#drives.get(session)?.done
  }

  /** Resolves when no session is being driven any more. */
  async allSettled(): Promise<void> {
    await Promise.all([...this.#drives.values()].map(({ done }) => done))
  }

  async #loop(session: OwnedSession, drive: Drive): Promise<void> {
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
        deadline?.cancel()
      }
    }
  }

  /** At once if the daemon closes, and at the end of the step while it drains. */
  #mustHandOver({ fold: { turn } }: OwnedSession): boolean {
    if (this.#parts.lifecycle.isClosing) return true
    const isInStep = turn !== null && (turn.answer.isAnswering || turn.calls.some(({ result }) => result === null))
    return this.#parts.lifecycle.isDraining && (!isInStep || turn?.parked != null)
  }

  async #advance(session: OwnedSession, drive: Drive): Promise<StepResult> {
    if (!drive.isInherited) return this.#perform(session, this.#next(session))
    await this.#recover(session, drive)
    return CONTINUE
  }

  /** If even the end of a turn cannot be written, this process abandons the session. */
  async #settle(session: OwnedSession, write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (thrown) {
      await session.abandon(classify(thrown, { boundary: 'daemon' }))
    }
  }

  async #recover(session: OwnedSession, drive: Drive): Promise<void> {
    const inherited = session.fold.turn
    await waitToRecover(this.#parts.waits.pacing, session)
    if (this.#parts.lifecycle.isClosing) return // I3
    drive.isInherited = false
    await recoverTurn(session, inherited)
  }

  #next(session: OwnedSession): Command {
    const { fold, policy, clock } = session
    const { models, tools } = this.#parts
    const request = requestFacts(models, session)
    const approvalFor = (call: ToolCall): string | null => tools.approvalFor(session, call)
    const cancel = session.cancelOf(fold.turn?.id)
    return next(fold, { policy, request, cancel, now: clock.now(), approvalFor })
  }

  async #perform(session: OwnedSession, command: Command): Promise<StepResult> {
    const { models, tools } = this.#parts
    if (REACHES_OUT.has(command.do)) await session.gate.pass(session.signal)
    if (session.isLost) return CONTINUE
    if (command.do === 'answer') return performAnswer(models, session, command.attempt)
    if (command.do === 'compact') return performCompaction(models, session, command)
    if (command.do === 'call') return this.#orAsk(session, await tools.run(session, command.call))
    await this.#write(session, command)
    return CONTINUE
  }

  async #write(session: OwnedSession, command: Exclude<Command, { do: 'answer' | 'compact' | 'call' }>): Promise<void> {
    const { models, tools, waits, folders } = this.#parts
    switch (command.do) {
      case 'rest':
        return
      case 'start':
        if (!(await folders.untilFree(session, command.turn))) return
        return startQueued(models, session, command.turn)
      case 'cancel':
        return cancelTurn(tools, session, command.cancel, command.open)
      case 'fail':
        return failTurn(tools, session, command.why, command.open)
      case 'ask-for-steps':
        return askForSteps(waits, session)
      case 'ask-approval':
        return askApproval(waits, session, command.call, command.why)
      case 'refuse-call':
        return denyCall(session, command.call, command.reason)
      case 'stay-parked':
        return stayParked(waits, session, command.parked)
      case 'pause':
        return session.backOff(command.until)
      case 'discard':
        return void (await session.append(...interrupted(session.currentTurn, command.parts)))
      case 'begin-step':
        return void (await session.append(stepDraft(models, session, command.step)))
    }
  }

  async #orAsk(session: OwnedSession, result: StepResult): Promise<StepResult> {
    if (result.kind !== 'asks') return result
    if (!(await askQuestion(this.#parts.waits, session, result.call, result.question))) result.decline()
    return CONTINUE
  }

  /** I2: turns what a performer threw into an event. */
  async #failed(session: OwnedSession, thrown: unknown): Promise<void> {
    const fault = classify(thrown, { boundary: 'daemon' })
    if (fault.category === 'journal_full') return this.#waitForSpace(session, fault)
    if (isFault(thrown) && LOST.has(fault.category) && fault.report.boundary === 'journal') {
      return session.abandon(fault)
    }
    if (session.signal.aborted) return // stopped on purpose: `next` knows why
    if (fault.report.next === 'park') return this.#giveUp(session, this.#parking(session, fault))
    session.observer.log.error({ err: thrown, sessionId: session.id, turnId: session.fold.turn?.id }, 'turn failed')
    await this.#orWaitForSpace(session, () =>
      endTurn(this.#parts.tools, session, fault.with({ stopped: 'not_retryable' })),
    )
  }

  async #giveUp(session: OwnedSession, { fault, decision }: GiveUp): Promise<void> {
    await this.#orWaitForSpace(session, () =>
      decision.action === 'park'
        ? parkTurn(this.#parts.waits, session, fault, decision.resumeAt)
        : endTurn(this.#parts.tools, session, faultFrom(fault)),
    )
  }

  /** A fault that asks for a person, from a call without its own retries. */
  #parking(session: OwnedSession, fault: Fault): GiveUp {
    const decision = decideFor(session, session.currentTurn, fault.report, { at: 'engine' })
    const isFinal = decision.action === 'park' || decision.action === 'stop'
    return giveUp(fault.report, isFinal ? decision : { action: 'stop', because: 'not_retryable' })
  }

  async #orWaitForSpace(session: OwnedSession, write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (thrown) {
      if (!isFault(thrown) || thrown.category !== 'journal_full') throw thrown
      await this.#waitForSpace(session, thrown)
    }
  }

  /** The disk is full. The turn is parked in memory until the `parked` event can be written. */
  async #waitForSpace(session: OwnedSession, fault: Fault): Promise<void> {
    const { turn } = session.fold
    if (turn === null) return
    const report = fault.with({ turnId: turn.id }).report
    session.parkUnsaved(report)
    try {
      for (let probe = 0; !this.#parts.lifecycle.isClosing; probe += 1) {
        const { action, because } = decideFor(session, turn, report, { at: 'engine' })
        try {
          if (action === 'park') return await parkTurn(this.#parts.waits, session, report, null)
          if (because === 'deadline_passed')
            return await failTurn(this.#parts.tools, session, 'deadline', openCalls(turn))
          return await stopTurn(
            this.#parts.tools,
            session,
            openCalls(turn),
            withDecision(fault, { action: 'stop', because: 'parking_off' }),
          )
        } catch (thrown) {
          if (!isFault(thrown) || thrown.category !== 'journal_full') throw thrown
        }
        session.clearInterrupt()
        const ms = probeIntervalMs('journal', probe, session.clock.dice(), this.#parts.waits.probeMsFirst)
        await session.sleepUnlessWoken(ms) // a person who resumes the turn ends the wait, too
      }
    } finally {
      session.endUnsavedPark()
    }
  }

  /** I3 */
  async #handOver(session: OwnedSession, { isInherited }: Drive): Promise<void> {
    const { turn } = session.fold
    try {
      const isKept = turn === null || turn.parked !== null || session.cancelOf(turn.id) !== null || isInherited
      if (isKept) return await session.giveUp(true)
      await parkTurn(this.#parts.waits, session, new Fault('shutting_down', { turnId: turn.id }).report, null)
    } catch (thrown) {
      // The next daemon finds the turn unfinished, as after a crash, and recovers it all the same.
      session.observer.log.warn({ err: thrown, sessionId: session.id }, 'cannot hand over a turn')
    }
  }

  #deadlineTimer(session: OwnedSession): Timer | undefined {
    const { turn } = session.fold
    const at = turn === null ? null : deadlineAt(turn, session.policy)
    if (at === null) return undefined
    const ms = Math.min(Math.max(at - session.clock.now(), 0), TIMER_MS_MAX)
    return session.clock.after(ms, () => session.interrupt(new Fault('deadline_exceeded')))
  }
}

// ---- details ----

/** `isInherited`: an earlier process left the turn, and this one has not recovered it yet. */
type Drive = { isInherited: boolean; done: Promise<void> }

async function startQueued(models: ModelPort, session: OwnedSession, queued: QueuedTurn): Promise<void> {
  const { id: turnId, prompt, traceparent } = queued
  const opening = await turnOpening(models, session)
  const chosen = await models.providers.forNextTurn(session.data)
  await session.transact((fold) => {
    const isNext = fold.turn === null && fold.queue[0]?.id === turnId // a cancel may have ended it meanwhile
    return isNext ? startingTurn(fold, session, { turnId, prompt, traceparent }, { ...opening, ...chosen }) : null
  })
}

function stepDraft(models: ModelPort, session: OwnedSession, step: number): EventDraft {
  return { type: 'step-start', turnId: session.currentTurn.id, step, model: modelNow(models, session) }
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
