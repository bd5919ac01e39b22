/**
 * The journal, memory and the relay drive one answer machine. For the same failures they take the same rungs, with the same
 * attempt numbers and the same budget, and a turn that is folded from its journal after a cut continues exactly there.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, type FaultCategory, POLICY_DEFAULTS } from '@breakfall/faults'
import {
  type AnswerState,
  initialAnswer,
  type Ladder,
  type MachineEvent,
  nextAttempt,
  nextRung,
  reduceAnswer,
  type Rung,
  rungEvent,
} from '@breakfall/model/internal'
import type { EventDraft, SessionEvent } from '@breakfall/wire'
import fc from 'fast-check'
import { discardDrafts, retryDraft } from '../src/loop/answer-writer.ts'
import { reduce } from '../src/turn/reduce.ts'
import { EMPTY_FOLD, type SessionFold, type TurnFold } from '../src/turn/state.ts'

const NOW = Date.parse('2026-11-16T12:00:00.000Z')
const AT = new Date(NOW).toISOString()

type Failed = {
  readonly said: readonly string[]
  readonly isThought: boolean
  readonly hasDraft: boolean
  readonly category: FaultCategory
  readonly diverged: boolean
  readonly dice: number
}

const failures: fc.Arbitrary<Failed[]> = fc.array(
  fc.record({
    said: fc.array(fc.constantFrom('a ', 'bc', ' d', 'Hello '), { maxLength: 3 }),
    isThought: fc.boolean(),
    hasDraft: fc.boolean(),
    category: fc.constantFrom(
      'model_stream_interrupted',
      'model_overloaded',
      'model_bad_request',
      'model_context_overflow',
      'tool_call_truncated',
      'model_auth_failed',
    ),
    diverged: fc.boolean(),
    dice: fc.double({ min: 0, max: 1, noNaN: true }),
  }),
  { minLength: 1, maxLength: 9 },
)
const offers = fc.record({ canContinue: fc.boolean(), canPark: fc.boolean(), fallbacks: fc.nat(2) })
type Offer = Pick<Ladder, 'canContinue' | 'canPark' | 'fallbacks'>

/** One way to keep the machine's state. */
type Driver = {
  readonly state: AnswerState
  show(events: readonly MachineEvent[]): void
  take(rung: Rung): void
}

function play(driver: Driver, list: readonly Failed[], offer: Offer): Rung[] {
  const rungs: Rung[] = []
  for (const { said, isThought, hasDraft, category, diverged, dice } of list) {
    const attempt = nextAttempt(driver.state)
    const type = isThought ? 'reasoning-delta' : 'text-delta'
    const deltas = said.map((text): MachineEvent => ({ type, attempt, part: 'p1', text }))
    driver.show([...deltas, ...(hasDraft ? ([{ type: 'tool-draft', attempt, part: 'p2' }] as const) : [])])
    const ladder: Ladder = {
      ...offer,
      policy: { ...POLICY_DEFAULTS, backoffMs: 100 },
      canTakeBack: true,
      canReplay: true,
      fallbacks: Math.max(0, offer.fallbacks - driver.state.target),
      canCompact: true,
      canTell: false,
      deadlineAt: null,
      dice,
    }
    const fault = new Fault(category, { at: AT })
    const rung = nextRung(
      driver.state,
      { attempt, fault, diverged, contentStarted: said.length > 0 || hasDraft },
      ladder,
      NOW,
    )
    rungs.push(rung)
    driver.take(rung)
    if (rung.action === 'stop') break
  }
  return rungs
}

/** As `streamAnswer` and the relay do it. */
class MemoryDriver implements Driver {
  state = reduceAnswer(initialAnswer(), { type: 'step-start' })

  show(events: readonly MachineEvent[]): void {
    for (const event of events) this.#fold(event)
  }

  take(rung: Rung): void {
    for (const { attempt, part } of rung.discards) this.#fold({ type: 'part-discarded', attempt, part })
    this.#fold(rungEvent(rung, NOW))
    if (rung.action === 'park') this.#fold({ type: 'resumed', at: AT })
  }

  #fold(event: MachineEvent): void {
    this.state = reduceAnswer(this.state, event)
  }
}

/** As the daemon does it: through the events of a journal. */
class JournalDriver implements Driver {
  readonly journal: SessionEvent[] = []
  fold: SessionFold = EMPTY_FOLD

  constructor() {
    this.append({ type: 'turn-start', turnId: 't1', prompt: 'go' }, { type: 'step-start', turnId: 't1', step: 1 })
  }

  get state(): AnswerState {
    return this.#turn.answer
  }

  show(events: readonly MachineEvent[]): void {
    for (const event of events) {
      if (event.type === 'text-delta' || event.type === 'reasoning-delta')
        this.append({ ...event, turnId: 't1', step: 1 })
      else if (event.type === 'tool-draft')
        this.append({ ...event, type: 'tool-draft', turnId: 't1', step: 1, tool: 'bash', argumentsBytes: 1 })
    }
  }

  take(rung: Rung): void {
    this.append(...discardDrafts(this.#turn, rung.discards, rung.fault))
    if (rung.action === 'stop') return
    if (rung.action !== 'park')
      return this.append(retryDraft(this.#turn, rung, undefined, { overflow: compactedBy(rung) }))
    this.append({ type: 'parked', turnId: 't1', fault: rung.fault, resumeAt: null })
    this.append({ type: 'resumed', turnId: 't1', because: 'person' })
  }

  append(...drafts: readonly EventDraft[]): void {
    for (const draft of drafts) {
      const event: SessionEvent = { ...draft, seq: this.journal.length + 1, sessionId: 's', at: AT }
      this.journal.push(event)
      this.fold = reduce(this.fold, event)
    }
  }

  get #turn(): TurnFold {
    assert.ok(this.fold.turn !== null)
    return this.fold.turn
  }
}

const compactedBy = (rung: Rung) => (rung.action === 'compact' ? { model: 'm', requestBytes: 1 } : undefined)

/** `lastFault` and tool drafts aside: the journal names a fault by its report, and a draft needs no discard there. */
const comparable = ({ lastFault: _fault, parts, ...state }: AnswerState) => ({
  ...state,
  parts: parts.filter(({ kind }) => kind !== 'tool'),
})

test('memory and journal take the same rungs, with the same attempt numbers and the same budget', () => {
  fc.assert(
    fc.property(failures, offers, (list, offer) => {
      const [memory, journal] = [new MemoryDriver(), new JournalDriver()]
      const rungs = play(memory, list, offer)
      const journalled = play(journal, list, offer)
      const told = ({ action, attempt, max, decision }: Rung) => ({ action, attempt, max, decision })
      assert.deepEqual(journalled.map(told), rungs.map(told))
      if (rungs.at(-1)?.action !== 'stop') assert.deepEqual(comparable(journal.state), comparable(memory.state))
    }),
    { numRuns: 500 },
  )
})

test('a journal that is cut at any event and folded again gives the same state and the same next rung', () => {
  fc.assert(
    fc.property(failures, offers, fc.nat(60), (list, offer, at) => {
      const driver = new JournalDriver()
      play(driver, list, offer)
      const cut = 2 + (at % (driver.journal.length - 1))
      const before: SessionEvent[] = JSON.parse(JSON.stringify(driver.journal.slice(0, cut)))
      const restored = before.reduce(reduce, EMPTY_FOLD)
      const straight = driver.journal.slice(0, cut).reduce(reduce, EMPTY_FOLD)
      assert.deepEqual(restored.turn?.answer, straight.turn?.answer)
      assert.deepEqual(driver.journal.slice(cut).reduce(reduce, restored).turn?.answer, driver.fold.turn?.answer)
    }),
    { numRuns: 500 },
  )
})
