/** The answer machine: which rung follows which failure. What holds for every sequence is in `answer-machine-properties.test.ts`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, type FaultCategory } from '@breakfall/faults'
import { type AttemptFailure, type Ladder, nextRung, type Rung, rungEvent } from '../src/machine/next-rung.ts'
import { type MachineEvent, reduceAnswer } from '../src/machine/reduce-answer.ts'
import {
  type AnswerState,
  initialAnswer,
  interruptedParts,
  nextAttempt,
  nextQuestion,
  shownText,
} from '../src/machine/state.ts'
import { AT, fold, LADDER, NOW, START } from './machine-kit.ts'

const text = (attempt: number, said: string, part = 'p1'): MachineEvent => ({
  type: 'text-delta',
  attempt,
  part,
  text: said,
})
const thought = (attempt: number, said: string): MachineEvent => ({
  type: 'reasoning-delta',
  attempt,
  part: 'p0',
  text: said,
})
const draft = (attempt: number): MachineEvent => ({ type: 'tool-draft', attempt, part: 'p9' })
const failure = (state: AnswerState, category: FaultCategory, more: Partial<AttemptFailure> = {}): AttemptFailure => ({
  attempt: Math.max(1, state.attempt),
  fault: new Fault(category),
  diverged: false,
  contentStarted: state.parts.length > 0,
  ...more,
})

// ---- which rung ----

type Row = readonly [
  name: string,
  events: readonly MachineEvent[],
  category: FaultCategory,
  action: Rung['action'],
  ladder?: Partial<Ladder>,
]

const ROWS: readonly Row[] = [
  ['nothing was shown', [], 'model_unreachable', 'retry'],
  ['text broke off', [text(1, 'Hello, this is a long and wide wor')], 'model_stream_interrupted', 'resume'],
  [
    'text broke off at a server that cannot continue',
    [text(1, 'Hello, this is a long and wide wor')],
    'model_stream_interrupted',
    'retry',
    { canContinue: false },
  ],
  ['a single word broke off', [text(1, 'Hello')], 'model_stream_interrupted', 'retry'],
  ['a few words broke off', [text(1, 'No, that is because I')], 'model_stream_interrupted', 'retry'],
  [
    'reasoning came before the text',
    [thought(1, 'hm'), text(1, 'Hello, this is a long and wide wor')],
    'model_stream_interrupted',
    'retry',
  ],
  [
    'a tool call had started',
    [text(1, 'Hello, this is a long and wide wor'), draft(1)],
    'tool_call_truncated',
    'retry',
  ],
  ['the request is invalid', [], 'model_bad_request', 'stop'],
  ['the request is invalid, and another model is left', [], 'model_bad_request', 'stop', { fallbacks: 1 }],
  ['the key is refused, and another model is left', [], 'model_auth_failed', 'fallback', { fallbacks: 1 }],
  ['the key is refused, and the turn can park', [], 'model_auth_failed', 'park', { canPark: true }],
  ['the key is refused in a library call', [], 'model_auth_failed', 'stop'],
  ['the conversation is too long', [], 'model_context_overflow', 'compact'],
  ['the conversation is too long and cannot be compacted', [], 'model_context_overflow', 'stop', { canCompact: false }],
  ['the caller cancelled', [text(1, 'Hello, this is a long and wide wor')], 'cancelled', 'stop'],
  ['the deadline passed', [], 'model_unreachable', 'stop', { deadlineAt: NOW }],
  [
    'sent text broke off',
    [text(1, 'Hello, this is a long and wide wor')],
    'model_stream_interrupted',
    'resume',
    { canTakeBack: false },
  ],
  [
    'sent text broke off at a server that cannot continue',
    [text(1, 'Hello, this is a long and wide wor')],
    'model_stream_interrupted',
    'retry',
    { canTakeBack: false, canContinue: false },
  ],
  [
    'something was sent that cannot be compared',
    [text(1, 'Hello, this is a long and wide wor')],
    'model_stream_interrupted',
    'stop',
    { canTakeBack: false, canReplay: false },
  ],
]

for (const [name, events, category, action, ladder] of ROWS) {
  test(`when ${name}, the next rung is ${action}`, () => {
    const state = fold(START, ...events)
    const rung = nextRung(state, failure(state, category), { ...LADDER, ...ladder }, NOW)
    assert.equal(rung.action, action)
    const isKept = action === 'resume' || ladder?.canTakeBack === false
    assert.deepEqual(rung.discards, isKept ? [] : state.parts)
    const goesOn = 'delayMs' in rung
    assert.equal(rung.fault.stopped === undefined, goesOn || action === 'park')
    assert.deepEqual(rung.fault.retry, { attempt: 1, max: 6, nextAt: goesOn ? rung.nextAt : null })
  })
}

test('the sixth failure of a step stops, and says how often it was attempted', () => {
  let state = fold(START)
  for (let attempt = 1; attempt < 6; attempt += 1) {
    const rung = nextRung(state, failure(state, 'model_stream_incomplete', { attempt }), LADDER, NOW)
    assert.deepEqual([rung.action, rung.attempt, rung.max], ['retry', attempt, 6])
    state = reduceAnswer(state, rungEvent(rung, NOW))
    assert.equal(nextAttempt(state), attempt + 1)
  }
  const last = nextRung(state, failure(state, 'model_stream_incomplete', { attempt: 6 }), LADDER, NOW)
  assert.deepEqual(
    [last.action, last.decision.because, last.fault.stopped],
    ['stop', 'attempts_spent', 'attempts_spent'],
  )
  assert.equal(reduceAnswer(state, rungEvent(last, NOW)).budget.failures, 6)
})

test('another model gets all attempts, and attempt numbers keep increasing', () => {
  const ladder = { ...LADDER, policy: { ...LADDER.policy, attemptsMax: 2, patienceMs: 0 }, fallbacks: 1 }
  let state = fold(START)
  const seen: unknown[] = []
  for (let attempt = 1; attempt <= 4; attempt += 1) {
    const fallbacks = 1 - state.target
    const rung = nextRung(state, failure(state, 'model_server_error', { attempt }), { ...ladder, fallbacks }, NOW)
    seen.push([rung.action, rung.attempt, rung.max])
    state = reduceAnswer(state, rungEvent(rung, NOW))
  }
  assert.deepEqual(seen, [
    ['retry', 1, 2],
    ['fallback', 2, 2],
    ['retry', 3, 4],
    ['stop', 4, 4],
  ])
  assert.equal(state.target, 1)
})

// ---- continue ----

test('kept text is continued, and what the continuation adds is continued after it', () => {
  let state = fold(START, text(1, 'Hello, this is a long and wide '))
  for (const [attempt, said] of [
    [2, 'wor'],
    [3, 'ld and'],
  ] as const) {
    const rung = nextRung(state, failure(state, 'model_stream_interrupted'), LADDER, NOW)
    assert.equal(rung.action, 'resume')
    state = reduceAnswer(state, rungEvent(rung, NOW))
    assert.deepEqual(nextQuestion(state), { how: 'continue', text: shownText(state) })
    state = reduceAnswer(state, text(attempt, said))
  }
  assert.equal(shownText(state), 'Hello, this is a long and wide world and')
})

for (const [how, more] of [
  ['rejects the unfinished message', { fault: new Fault('model_bad_request') }],
  ['starts over', { fault: new Fault('model_stream_interrupted'), diverged: true }],
] as const) {
  test(`a server that ${how} is asked for the whole answer and never to continue again in this step`, () => {
    const first = fold(START, text(1, 'Hello, this is a long and wide wor'))
    const resumed = reduceAnswer(
      first,
      rungEvent(nextRung(first, failure(first, 'model_stream_interrupted'), LADDER, NOW), NOW),
    )
    const rung = nextRung(resumed, { attempt: 2, diverged: false, contentStarted: true, ...more }, LADDER, NOW)
    assert.ok(rung.action === 'retry' && rung.prefillRefused)
    assert.deepEqual(rung.discards, resumed.parts)
    let state = resumed
    for (const { attempt, part } of rung.discards)
      state = reduceAnswer(state, { type: 'part-discarded', attempt, part })
    state = reduceAnswer(state, rungEvent(rung, NOW))
    assert.deepEqual(nextQuestion(state), { how: 'whole' })
    state = reduceAnswer(state, text(3, 'Hello, this is a long and wide wor'))
    assert.equal(nextRung(state, failure(state, 'model_stream_interrupted'), LADDER, NOW).action, 'retry')
    assert.equal(reduceAnswer(state, START).prefillRefused, false)
  })
}

test('if one kept part is discarded, no other part of that text is continued', () => {
  const fault = new Fault('model_stream_interrupted').report
  const retry = { type: 'retry', at: AT, attempt: 2, fault, delayMs: 0 } as const
  const state = fold(
    START,
    text(1, 'Hello, this is a long and wide '),
    text(2, 'wor', 'p2'),
    { ...retry, action: 'resume' },
    { type: 'part-discarded', attempt: 1, part: 'p1' },
  )
  assert.deepEqual(
    interruptedParts(state).map(({ part }) => part),
    ['p2'],
  )
})

// ---- sent bytes cannot be taken back ----

const SENT = { ...LADDER, canTakeBack: false, canContinue: false }

test('sent text that is asked for again has to come back, and an answer that diverges ends with the fault that broke it', () => {
  const broken = fold(START, thought(1, 'hm'), text(1, 'Hello, this is a long and wide wor'))
  const first = nextRung(broken, failure(broken, 'model_stream_stalled'), SENT, NOW)
  assert.equal(first.action, 'retry')
  const state = reduceAnswer(broken, rungEvent(first, NOW))
  assert.deepEqual(nextQuestion(state), {
    how: 'replay',
    shown: [
      { kind: 'reasoning', text: 'hm' },
      { kind: 'text', text: 'Hello, this is a long and wide wor' },
    ],
  })
  const fault = new Fault('model_stream_interrupted')
  const second = nextRung(state, { attempt: 2, fault, diverged: true, contentStarted: true }, SENT, NOW)
  assert.deepEqual(
    [second.action, second.fault.category, second.fault.stopped],
    ['stop', 'model_stream_stalled', 'not_retryable'],
  )
  assert.deepEqual(second.discards, [])
  const again = nextRung(state, { attempt: 2, fault, diverged: false, contentStarted: true }, SENT, NOW)
  assert.equal(again.action, 'retry', 'an answer that only broke is asked for once more')
})

test('a refused continuation of sent text is followed by a replay, not by the end', () => {
  const broken = fold(START, text(1, 'Hello, this is a long and wide wor'))
  const sent = { ...SENT, canContinue: true }
  const resumed = reduceAnswer(
    broken,
    rungEvent(nextRung(broken, failure(broken, 'model_stream_interrupted'), sent, NOW), NOW),
  )
  const rung = nextRung(
    resumed,
    { attempt: 2, fault: new Fault('model_stream_interrupted'), diverged: true, contentStarted: true },
    sent,
    NOW,
  )
  assert.equal(rung.action, 'retry')
  assert.equal(nextQuestion(reduceAnswer(resumed, rungEvent(rung, NOW))).how, 'replay')
})

// ---- the budget ----

test('failures, waits and parks are drawn from one budget, and a handover costs nothing', () => {
  const fault = new Fault('model_overloaded').report
  const retry = { type: 'retry', at: AT, attempt: 1, fault, delayMs: 70 } as const
  const at = (ms: number): string => new Date(NOW + ms).toISOString()
  const state = fold(
    START,
    { ...retry, action: 'retry' },
    { ...retry, action: 'resolve' },
    { type: 'parked', at: at(0), fault },
    { type: 'resumed', at: at(500) },
    { type: 'parked', at: at(600), fault: new Fault('shutting_down').report, isFree: true },
    { type: 'resumed', at: at(700) },
    { ...retry, attempt: 2, action: 'retry' },
    { type: 'compacted' },
  )
  assert.deepEqual(state.budget, {
    failures: 4,
    freeFailures: 0,
    waitedMs: 210,
    parks: 1,
    parkedMs: 600,
    compactions: 1,
  })
  assert.deepEqual([state.attemptsSpent, state.attemptsTotal], [0, 3], 'the shorter question gets all its attempts')
})

test('a budget that was handed in counts from the first failure', () => {
  const state = reduceAnswer(initialAnswer({ failures: 59 }), START)
  const rung = nextRung(state, failure(state, 'model_stream_incomplete'), LADDER, NOW)
  assert.deepEqual([rung.action, rung.decision.because], ['stop', 'failures_spent'])
})

test('what an attempt showed, and what is void of it, folds at once into the same state as part by part', () => {
  const shown = [
    { attempt: 1, part: 'p1', kind: 'text', text: 'Hello wor' },
    { attempt: 1, part: 'p2', kind: 'tool', text: '' },
  ] as const
  const draft: MachineEvent = { type: 'tool-draft', attempt: 1, part: 'p2' }
  const single = fold(text(1, 'Hello wor'), draft)
  const atOnce = fold({ type: 'parts-shown', attempt: 1, parts: shown })
  assert.deepEqual(atOnce, single)
  const discards = shown.map(({ attempt, part }): MachineEvent => ({ type: 'part-discarded', attempt, part }))
  assert.deepEqual(
    reduceAnswer(atOnce, { type: 'parts-discarded', parts: shown }),
    discards.reduce(reduceAnswer, single),
  )
})
