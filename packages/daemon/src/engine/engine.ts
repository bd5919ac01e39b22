/**
 * Drives a session: asks `next` what to do, does it, and asks again, until there is nothing left to do.
 *
 * I1  One loop per session at a time. What it does is in the journal before it is asked what follows.
 * I2  Whatever goes wrong in a turn ends in a terminal or a parked event and leaves the session free; a bug in one turn
 *     stops no other.
 * I3  A closing daemon hands its turns over: parked with `shutting_down`, taken up by the next one. What it has not taken up
 *     itself it leaves as it is.
 */
import { classify, Fault, faultFrom, isFault, sleep, TIMER_MS_MAX, withDecision } from '@breakfall/faults'
import type { ShownPart } from '@breakfall/model'
import type { EventDraft } from '@breakfall/wire'
import { deadlineAt, next } from '../turn/next.ts'
import type { Command, TurnFold } from '../turn/state.ts'
import { performAnswer } from './answer.ts'
import { discardDrafts } from './answer-writer.ts'
import { performCall } from './call.ts'
import { cancelTurn, endTurn, failTurn, openCalls, stopTurn } from './ending.ts'
import type { LiveSession } from './live-session.ts'
import { parkTurn, stayParked } from './park.ts'
import { CONTINUE, type GiveUp, giveUp, type Performed } from './performed.ts'
import type { Ports } from './ports.ts'
import { takeUpTurn, waitForPlace } from './take-up.ts'
import { decideFor } from './turn-decision.ts'
import { lookDelayMs } from './wake.ts'

export class Engine {
  readonly #ports: Ports
  readonly #running = new Map<LiveSession, Promise<void>>()
  /** Found unfinished when the daemon started, and not taken up yet. */
  readonly #left = new WeakSet<LiveSession>()

  constructor(ports: Ports) {
    this.#ports = ports
  }

  isDriving(session: LiveSession): boolean {
    return this.#running.has(session)
  }

  get driven(): number {
    return this.#running.size
  }

  /** Works on what an earlier process left, when it is its turn to go on. */
  driveInPlace(session: LiveSession): void {
    this.#left.add(session)
    this.drive(session)
  }

  /** Makes sure that somebody works on the session. */
  drive(session: LiveSession): void {
    if (this.#running.has(session)) return // I1
    const loop = this.#loop(session).finally(() => {
      this.#running.delete(session)
      // What arrived while the loop was on its way out would otherwise wait for ever.
      if (!this.#ports.isClosing() && !session.isBroken && hasWork(session)) this.drive(session)
    })
    this.#running.set(session, loop)
  }

  /** When nobody works on the session any more. */
  async settled(session: LiveSession): Promise<void> {
    await this.#running.get(session)
  }

  /** When nobody works on anything any more. */
  async allSettled(): Promise<void> {
    await Promise.all(this.#running.values())
  }

  async #loop(session: LiveSession): Promise<void> {
    while (!session.isBroken) {
      if (this.#ports.isClosing()) return this.#handOver(session)
      if (!hasWork(session)) return
      session.rearm()
      const deadline = this.#deadlineTimer(session)
      try {
        const performed = await this.#advance(session)
        if (performed.kind === 'give-up') await this.#settle(session, () => this.#giveUp(session, performed))
      } catch (thrown) {
        await this.#settle(session, () => this.#failed(session, thrown))
      } finally {
        clearTimeout(deadline)
      }
    }
  }

  async #advance(session: LiveSession): Promise<Performed> {
    if (!this.#left.has(session)) return this.#perform(session, this.#next(session))
    await this.#takeUp(session)
    return CONTINUE
  }

  /** If even the end of a turn cannot be written, this process lets go of the session. */
  async #settle(session: LiveSession, write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (thrown) {
      await session.breakDown(classify(thrown, { boundary: 'daemon' }))
    }
  }

  async #takeUp(session: LiveSession): Promise<void> {
    const asLeft = session.fold.turn
    await waitForPlace(this.#ports, session)
    if (this.#ports.isClosing()) return // I3
    this.#left.delete(session)
    await takeUpTurn(session, asLeft)
  }

  #next(session: LiveSession): Command {
    const { fold, policy } = session
    return next(fold, { policy, cancel: session.cancelOf(fold.turn?.id), now: this.#ports.now() })
  }

  async #perform(session: LiveSession, command: Command): Promise<Performed> {
    if (command.do === 'answer') return performAnswer(this.#ports, session, command.attempt)
    if (command.do === 'call') return performCall(this.#ports, session, command.call)
    await this.#write(session, command)
    return CONTINUE
  }

  async #write(session: LiveSession, command: Exclude<Command, { do: 'answer' | 'call' }>): Promise<void> {
    const ports = this.#ports
    const turnId = session.fold.turn?.id ?? ''
    switch (command.do) {
      case 'rest':
        return
      case 'start':
        return void (await session.append({ type: 'turn-start', turnId: command.turn.id, prompt: command.turn.prompt }))
      case 'cancel':
        return cancelTurn(ports, session, command.cancel, command.open)
      case 'fail':
        return failTurn(ports, session, command.why, command.open)
      case 'stay-parked':
        return stayParked(ports, session, command.parked)
      case 'pause':
        return sleep(command.until - ports.now(), session.signal)
      case 'discard':
        return void (await session.append(...interrupted(session.turnNow, command.parts)))
      case 'begin-step':
        return void (await session.append({ type: 'step-start', turnId, step: command.step }))
    }
  }

  /** I2: what a performer threw, turned into an event. */
  async #failed(session: LiveSession, thrown: unknown): Promise<void> {
    const fault = classify(thrown, { boundary: 'daemon' })
    if (fault.category === 'journal_full') return this.#waitForRoom(session, fault)
    if (isFault(thrown) && LOST.has(fault.category) && fault.report.boundary === 'journal') {
      return session.breakDown(fault)
    }
    if (session.signal.aborted) return // stopped on purpose: `next` knows why
    if (fault.report.next === 'park') return this.#giveUp(session, this.#parking(session, fault))
    this.#ports.log.error({ err: thrown, sessionId: session.id, turnId: session.fold.turn?.id }, 'turn failed')
    await this.#orWait(session, () => endTurn(session, fault.with({ stopped: 'not_retryable' })))
  }

  async #giveUp(session: LiveSession, { fault, decision }: GiveUp): Promise<void> {
    await this.#orWait(session, () =>
      decision.action === 'park'
        ? parkTurn(this.#ports, session, fault, decision.resumeAt)
        : endTurn(session, faultFrom(fault)),
    )
  }

  /** A fault that asks for a person, from a call that does not retry by itself. */
  #parking(session: LiveSession, fault: Fault): GiveUp {
    const decision = decideFor(this.#ports, session, session.turnNow, fault.report, { at: 'engine' })
    const isFinal = decision.action === 'park' || decision.action === 'stop'
    return giveUp(fault.report, isFinal ? decision : { action: 'stop', because: 'not_retryable' })
  }

  async #orWait(session: LiveSession, write: () => Promise<void>): Promise<void> {
    try {
      await write()
    } catch (thrown) {
      if (!isFault(thrown) || thrown.category !== 'journal_full') throw thrown
      await this.#waitForRoom(session, thrown)
    }
  }

  /** The journal is full. The turn is parked in memory until the event that says so can be written. */
  async #waitForRoom(session: LiveSession, fault: Fault): Promise<void> {
    const { turn } = session.fold
    if (turn === null) return
    const report = fault.with({ turnId: turn.id }).report
    session.parkedInMemory = { fault: report, since: new Date(this.#ports.now()).toISOString(), resumeAt: null }
    try {
      for (let look = 0; !this.#ports.isClosing(); look += 1) {
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
        session.rearm()
        await sleep(lookDelayMs(look, this.#ports.dice(), this.#ports.limits.probeMsFirst), session.signal)
      }
    } finally {
      session.parkedInMemory = null
    }
  }

  /** I3 */
  async #handOver(session: LiveSession): Promise<void> {
    const { turn } = session.fold
    if (turn === null || turn.parked !== null || session.cancelOf(turn.id) !== null || this.#left.has(session)) return
    try {
      await parkTurn(this.#ports, session, new Fault('shutting_down', { turnId: turn.id }).report, null)
    } catch (thrown) {
      // The next daemon finds the turn unfinished, as after a crash, and takes it over; only the word of it is missing.
      this.#ports.log.warn({ err: thrown, sessionId: session.id }, 'a turn could not be handed over')
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

const hasWork = ({ fold }: LiveSession): boolean => fold.turn !== null || fold.queue.length > 0

/** Somebody else owns the journal now, or it is damaged: this process must not write to it any more. */
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
