/** When a parked turn is due: one answer for turns in memory and turns without an owner. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, FAULTS, fullPolicy, type FaultReport, type Policy } from '@breakfall/faults'
import { waitOf, waitsFor } from '@breakfall/wire/turn'
import { releaseOf } from '../src/session/ownership.ts'
import { reduce } from '../src/turn/reduce.ts'
import { EMPTY_FOLD, type SessionFold } from '../src/turn/state.ts'
import { deadlineAt } from '../src/turn/next.ts'
import { type Due, dueAt, unownedProbeAt, waitOfTurn } from '../src/turn/wait.ts'
import { eventsOf, type TestDraft } from './support/events.ts'

const HOUR = 3_600_000
const START = Date.parse('2026-11-15T12:00:00.000Z')
const hours = (ms: number): number => Math.round((10 * (ms - START)) / HOUR) / 10
const at = (hour: number): number => START + hour * HOUR
const policy = (set: Partial<Policy> = {}): Policy => fullPolicy({ parkMsMax: 24 * HOUR, ...set })

/** A turn that parked a few milliseconds after its start. */
function foldOf(fault: FaultReport, parked: { resumeAt?: number; because?: string; asks?: number } = {}): SessionFold {
  const { resumeAt = null, because, asks } = parked
  const question: readonly TestDraft[] =
    asks === undefined
      ? []
      : [
          { type: 'tool-call', step: 1, callId: 'c', tool: 'bash', arguments: {}, execId: 'e' },
          {
            type: 'approval-requested',
            callId: 'c',
            tool: 'bash',
            arguments: {},
            why: 'always',
            expiresAt: new Date(asks).toISOString(),
          },
        ]
  const drafts: readonly TestDraft[] = [
    { type: 'turn-start', prompt: 'go' },
    { type: 'step-start', step: 1 },
    ...question,
    { type: 'parked', fault, resumeAt: resumeAt === null ? null : new Date(resumeAt).toISOString(), because },
  ]
  return eventsOf(drafts, START).reduce(reduce, EMPTY_FOLD)
}

function due({ turn }: SessionFold, now: number, probeAt: number | null = null, set: Partial<Policy> = {}): Due {
  assert.ok(turn?.parked != null)
  const all = policy(set)
  return dueAt(waitOfTurn(turn, turn.parked, all), now, { deadline: deadlineAt(turn, all), probeAt })
}

const APPROVAL = new Fault('approval_needed').report
const STEPS = new Fault('steps_spent').report
const AWAY = new Fault('model_unreachable').report

test('a clock that was turned forward does not end a wait, and what this process has seen pass does', () => {
  const { turn } = foldOf(APPROVAL, { because: 'approval_needed', asks: at(30) })
  assert.ok(turn?.parked != null)
  const { parked } = turn
  const dueIn = (hours: number, aheadHours: number): Due =>
    dueAt(waitOfTurn(turn, parked, policy()), at(hours), { deadline: null, probeAt: null, aheadMs: aheadHours * HOUR })
  assert.deepEqual(dueIn(100, 99), { at: at(129), now: null })
  assert.deepEqual(dueIn(129, 99), { at: at(129), now: 'expiry' })
})

test('a parked turn is due at the first of its deadline, its time, its expiry and its next probe', () => {
  const rows = [
    [foldOf(AWAY), {}, null, 24], // it may park for that long
    [foldOf(AWAY), {}, at(1), 1],
    [foldOf(AWAY), { deadlineMs: 2 * HOUR }, at(3), 2],
    [foldOf(AWAY, { resumeAt: at(5) }), {}, null, 5],
    [foldOf(APPROVAL, { because: 'approval_needed', asks: at(30) }), {}, null, 30],
    [foldOf(APPROVAL, { because: 'approval_needed', asks: at(30) }), { deadlineMs: 3 * HOUR }, null, 3],
    [foldOf(STEPS, { because: 'steps_spent' }), { deadlineMs: 100 * HOUR }, null, 100],
    [foldOf(new Fault('shutting_down').report), {}, null, 0],
  ] as const
  assert.deepEqual(
    rows.map(([fold, set, probeAt]) => hours(due(fold, START, probeAt, set).at)),
    rows.map(([, , , hour]) => hour),
  )
  assert.equal(due(foldOf(STEPS, { because: 'steps_spent' }), START).at, Number.POSITIVE_INFINITY)
})

test('what is done first about a turn that is due for several reasons', () => {
  const late = foldOf(AWAY, { resumeAt: at(5) })
  const now = (hour: number, set: Partial<Policy> = {}): Due['now'] => due(late, at(hour), at(1), set).now
  assert.deepEqual(
    [now(0.5), now(2), now(6), now(30), now(30, { deadlineMs: 10 * HOUR })],
    [null, 'probe', 'resume', 'resume', 'deadline'],
  )
  const asked = foldOf(APPROVAL, { because: 'approval_needed', asks: at(2) })
  assert.deepEqual([due(asked, at(1)).now, due(asked, at(2)).now], [null, 'expiry'])
})

test('a turn that no daemon owns is due in the store when it would be due in memory', () => {
  const now = START + 10_000
  for (const fold of everyPark()) {
    const facts = { policy: policy(), runnerId: 'r1', isCancelled: false, now }
    const parked = fold.turn?.parked
    assert.ok(parked != null)
    const memory = due(fold, now, unownedProbeAt(waitOf(parked), parked.since, now)).at
    const { wakeAt } = releaseOf(fold, facts) ?? { wakeAt: null }
    assert.equal(wakeAt === null ? Number.POSITIVE_INFINITY : Date.parse(wakeAt), memory, parked.fault.category)
    const isQuestion = parked.because === 'steps_spent'
    assert.equal(wakeAt === null, isQuestion, `only a person ends this wait: ${parked.fault.category}`)
  }
})

function* everyPark(): Iterable<SessionFold> {
  yield foldOf(APPROVAL, { because: 'approval_needed', asks: at(30) })
  yield foldOf(STEPS, { because: 'steps_spent' })
  for (const [category, { next }] of Object.entries(FAULTS)) {
    if (next !== 'park' && next !== 'retry' && next !== 'resolve') continue
    const fault = new Fault(category as keyof typeof FAULTS).report
    if (waitsFor(fault) === 'person') continue
    yield foldOf(fault)
    yield foldOf(fault, { resumeAt: at(5) })
  }
}
