import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Fault, LIMITS, POLICY_DEFAULTS } from '@breakfall/faults'
import { toMessages } from '../src/turn/messages.ts'
import { next } from '../src/turn/next.ts'
import { reduce } from '../src/turn/reduce.ts'
import { type Command, EMPTY_FOLD, NO_USAGE, type SessionFold } from '../src/turn/state.ts'
import { turnView } from '../src/turn/view.ts'
import { eventsOf, type TestDraft, type TestDraftOf, turnError } from './support/events.ts'

const NOW = Date.parse('2026-11-15T12:00:00.000Z')
const fault = (category: 'model_stream_interrupted' | 'runner_unreachable' | 'shutting_down' | 'steps_spent') =>
  new Fault(category).report

const fold = (...drafts: readonly TestDraft[]): SessionFold => eventsOf(drafts).reduce(reduce, EMPTY_FOLD)
const asked = (state: SessionFold, more: Partial<Parameters<typeof next>[1]> = {}): Command =>
  next(state, {
    policy: POLICY_DEFAULTS,
    cancel: null,
    request: REQUEST,
    now: NOW + 1_000,
    approvalFor: () => null,
    ...more,
  })

const REQUEST = { model: 'm', contextTokens: null, fixedBytes: 100 }

const start: TestDraft = { type: 'turn-start', prompt: 'do it' }
const step: TestDraft = { type: 'step-start', step: 1 }
const delta = (attempt: number, text: string): TestDraft => ({ type: 'text-delta', step: 1, attempt, part: 'p1', text })
const call = (callId: string, n = 1): TestDraftOf<'tool-call'> => ({
  type: 'tool-call',
  step: 1,
  callId,
  tool: 'bash',
  arguments: { command: 'ls' },
  execId: `t1-1-${n}`,
})
const result = (callId: string, text = 'out'): TestDraft => ({ type: 'tool-result', callId, outcome: 'ok', text })
type Retry = TestDraftOf<'retry'>
const retry = (action: Retry['action'], delayMs = 100, more: Partial<Retry> = {}): Retry => ({
  type: 'retry',
  step: 1,
  attempt: 1,
  fault: fault('model_stream_interrupted'),
  action,
  delayMs,
  nextAt: new Date(NOW).toISOString(),
  max: 6,
  ...more,
})

test('a turn goes from prompt to step to answer to call to the next step', () => {
  assert.equal(asked(EMPTY_FOLD).do, 'rest')
  assert.deepEqual(asked(fold(start)), { do: 'begin-step', step: 1 })
  assert.deepEqual(asked(fold(start, step)), { do: 'answer', step: 1, attempt: 1 })
  const called = asked(fold(start, step, delta(1, 'hi'), call('a'), call('b', 2)))
  assert.ok(called.do === 'call' && called.call.callId === 'a')
  const second = asked(fold(start, step, call('a'), call('b', 2), result('a')))
  assert.ok(second.do === 'call' && second.call.callId === 'b')
  assert.deepEqual(asked(fold(start, step, call('a'), result('a'))), { do: 'begin-step', step: 2 })
})

test('a turn that repeats a call with the same result parks and asks, also over a compaction; anything new starts over', () => {
  const round = (at: number, text = 'out', command = 'ls'): readonly TestDraft[] => [
    { type: 'step-start', step: at },
    { ...call(`c${at}`), step: at, arguments: { command } },
    result(`c${at}`, text),
  ]
  const rounds = (count: number): TestDraft[] => Array.from({ length: count }, (_, at) => round(at + 1)).flat()
  const policy = { ...POLICY_DEFAULTS, repeatsMax: 8 }
  const next = (...drafts: readonly TestDraft[]): string => asked(fold(start, ...drafts), { policy }).do
  assert.equal(next(...rounds(7)), 'begin-step')
  assert.equal(next(...rounds(8)), 'ask-for-steps')
  const compacted: TestDraft = {
    type: 'compacted',
    step: 5,
    fromStep: 1,
    toStep: 2,
    droppedResults: 0,
    summaryBytes: 6,
    requestBytesBefore: 90,
    requestBytesAfter: 9,
    summary: { text: 'so far', upToSeq: 9 },
  }
  assert.equal(next(...rounds(4), compacted, ...rounds(8).slice(12)), 'ask-for-steps')
  assert.equal(next(...rounds(7), ...round(8, 'other')), 'begin-step')
  assert.equal(next(...rounds(7), ...round(8, 'out', 'pwd')), 'begin-step')
  const two = [
    { type: 'step-start', step: 8 },
    { ...call('a'), step: 8 },
    { ...call('b', 2), step: 8 },
    result('a'),
    result('b'),
  ]
  assert.equal(next(...rounds(7), ...(two as TestDraft[])), 'begin-step')
  const state = fold(start, ...rounds(8))
  assert.equal(asked(state).do, 'begin-step')
  const park: TestDraft = {
    type: 'parked',
    fault: fault('steps_spent'),
    resumeAt: null,
    because: 'steps_spent',
  }
  const granted: TestDraft = { type: 'resumed', because: 'person' }
  assert.equal(next(...rounds(8), park, granted), 'begin-step')
})

test('an interrupted answer is discarded first and requested again under a new attempt number', () => {
  const broken = asked(fold(start, step, delta(1, 'half an ans')))
  assert.ok(broken.do === 'discard')
  assert.deepEqual(
    broken.parts.map(({ attempt, part }) => [attempt, part]),
    [[1, 'p1']],
  )
  const discarded: TestDraft = {
    type: 'part-discarded',
    step: 1,
    attempt: 1,
    part: 'p1',
    because: fault('shutting_down'),
  }
  assert.deepEqual(asked(fold(start, step, delta(1, 'half'), discarded)), { do: 'answer', step: 1, attempt: 2 })
})

test('a wait before a retry survives a crash, and counts against the budget', () => {
  const state = fold(start, step, retry('retry', 5_000, { nextAt: new Date(NOW + 5_000).toISOString() }))
  assert.deepEqual(asked(state), { do: 'pause', until: NOW + 5_000 })
  const { failures, waitedMs, parks } = state.turn?.answer.budget ?? assert.fail('no turn')
  assert.deepEqual([failures, waitedMs, parks], [1, 5_000, 0])
  assert.deepEqual(asked(state, { now: NOW + 5_001 }), { do: 'answer', step: 1, attempt: 2 })
})

test('a clock that was set back does not make a wait longer than the longest possible wait', () => {
  const state = fold(start, step, retry('retry', 5_000, { nextAt: new Date(NOW + 5_000).toISOString() }))
  assert.equal(asked(state, { now: NOW - 50_000 }).do, 'pause')
  assert.deepEqual(asked(state, { now: NOW - 3_600_000 }), { do: 'answer', step: 1, attempt: 2 })
})

test('a parked turn stays parked, and resuming gives the step its attempts back but not the turn its budget', () => {
  const parked: TestDraft = { type: 'parked', fault: fault('runner_unreachable'), resumeAt: null }
  const state = fold(start, step, retry('retry'), parked)
  assert.equal(asked(state).do, 'stay-parked')
  const resumed = fold(start, step, retry('retry'), parked, { type: 'resumed', because: 'signal' })
  assert.equal(resumed.turn?.answer.attemptsSpent, 0)
  assert.deepEqual(
    [resumed.turn?.answer.budget.failures, resumed.turn?.answer.budget.parks, resumed.turn?.answer.budget.parkedMs],
    [2, 1, 1],
  )
})

test('the next model of the list has its own attempts, and the turn stays with it from step to step', () => {
  const moved = fold(start, step, retry('retry'), retry('fallback', 0, { attempt: 2 }))
  assert.deepEqual(
    [moved.turn?.answer.target, moved.turn?.answer.attemptsSpent, moved.turn?.answer.budget.failures],
    [1, 0, 2],
  )
  assert.deepEqual(asked(moved), { do: 'answer', step: 1, attempt: 3 })
  const later = fold(start, step, retry('fallback', 0), call('a'), result('a'), { type: 'step-start', step: 2 })
  assert.deepEqual([later.turn?.answer.target, later.turn?.answer.attempt], [1, 0])
})

test('a parked turn starts again with the first model; a turn that was handed over stays with its model', () => {
  const moved = [start, step, retry('fallback', 0), retry('retry', 0, { attempt: 2 })]
  const after = (category: 'runner_unreachable' | 'shutting_down') =>
    fold(...moved, { type: 'parked', fault: fault(category), resumeAt: null }, { type: 'resumed', because: 'signal' })
  assert.deepEqual(
    [after('runner_unreachable').turn?.answer.target, after('runner_unreachable').turn?.answer.attemptsSpent],
    [0, 0],
  )
  assert.deepEqual(
    [after('shutting_down').turn?.answer.target, after('shutting_down').turn?.answer.attemptsSpent],
    [1, 1],
  )
})

test('kept text survives a crash; text after it from an interrupted attempt does not', () => {
  const kept = [start, step, delta(1, 'half '), retry('resume')]
  assert.deepEqual(asked(fold(...kept)), { do: 'answer', step: 1, attempt: 2 })
  const broken = asked(fold(...kept, delta(2, 'an ans')))
  assert.ok(broken.do === 'discard')
  assert.deepEqual(
    broken.parts.map(({ attempt, text }) => [attempt, text]),
    [[2, 'an ans']],
  )
  const twice = fold(...kept, delta(2, 'an '), retry('resume', 0, { attempt: 2 }))
  assert.deepEqual(asked(twice), { do: 'answer', step: 1, attempt: 3 })
  assert.deepEqual(
    twice.turn?.answer.parts.map(({ text }) => text),
    ['half ', 'an '],
  )
})

test('a server that refused to continue kept text is not asked to again in that step', () => {
  const refused = [start, step, retry('retry', 0, { prefillRefused: true })]
  assert.equal(fold(...refused).turn?.answer.prefillRefused, true)
  assert.equal(fold(...refused, { type: 'step-start', step: 2 }).turn?.answer.prefillRefused, false)
})

test('handing a turn over at shutdown costs no park', () => {
  const state = fold(
    start,
    step,
    { type: 'parked', fault: fault('shutting_down'), resumeAt: null },
    { type: 'resumed', because: 'restart' },
  )
  assert.deepEqual(
    [state.turn?.answer.budget.parks, state.turn?.answer.budget.failures, state.turn?.status.faults.met],
    [0, 0, 0],
  )
})

test('a fault counts as survived once the turn made progress after it, and all do at a good end', () => {
  const survived = (...drafts: TestDraft[]): unknown => turnView(fold(...drafts), 's', 't1', null)?.faultsSurvived
  const parked: TestDraft = { type: 'parked', fault: fault('runner_unreachable'), resumeAt: null }
  const resumed: TestDraft = { type: 'resumed', because: 'person' }
  const taken: TestDraft = { type: 'taken-over', epoch: 2 }
  const ended: TestDraft = { type: 'turn-end', text: 'ok', usage: NO_USAGE, steps: 1, faultsSurvived: 2 }
  const cancelled = turnError('cancelled')
  assert.equal(survived(start, step, retry('retry')), 0)
  assert.equal(survived(start, step, retry('retry'), parked, resumed, taken), 0)
  assert.equal(survived(start, step, retry('retry'), parked, resumed, call('a')), 2)
  assert.equal(survived(start, step, retry('retry'), call('a'), result('a'), retry('retry'), cancelled), 1)
  assert.equal(survived(start, step, retry('retry'), parked, resumed, ended), 2)
})

test('a crash loop without progress ends the turn, and any progress resets the count', () => {
  const crash: TestDraft = { type: 'taken-over', epoch: 2 }
  const crashes = Array.from({ length: LIMITS.restartsMax }, () => crash)
  const looping = asked(fold(start, step, ...crashes))
  assert.ok(looping.do === 'fail' && looping.why === 'crash_loop')
  assert.equal(asked(fold(start, step, ...crashes.slice(1), call('a'), result('a'), crash)).do, 'begin-step')
})

test('a turn that only waits for its next attempt is not suspected when the daemon dies, however often', () => {
  const crashes = Array.from({ length: 2 * LIMITS.restartsMax }, (): TestDraft => ({ type: 'taken-over', epoch: 2 }))
  const nextAt = new Date(NOW + 60_000).toISOString()
  const state = fold(start, step, retry('retry', 60_000, { nextAt }), ...crashes)
  assert.equal(asked(state).do, 'pause')
  assert.equal(asked(state, { now: Date.parse(nextAt) }).do, 'answer')
})

test('a cancel comes before everything else and names the open calls', () => {
  const cancel = { actor: 'user', reason: null, at: '' } as const
  const state = fold(start, step, call('a'), call('b', 2), result('a'))
  const command = asked(state, { cancel })
  assert.ok(command.do === 'cancel')
  assert.deepEqual(
    command.open.map(({ callId }) => callId),
    ['b'],
  )
})

test('a turn without steps left asks for more, and a passed deadline ends it', () => {
  const done = fold(start, step, call('a'), result('a'))
  const spent = asked(done, { policy: { ...POLICY_DEFAULTS, stepsMax: 1 } })
  assert.equal(spent.do, 'ask-for-steps')
  const parked: TestDraft = {
    type: 'parked',
    fault: fault('steps_spent'),
    resumeAt: null,
  }
  const granted = fold(start, step, call('a'), result('a'), parked, { type: 'resumed', because: 'person' })
  assert.equal(asked(granted, { policy: { ...POLICY_DEFAULTS, stepsMax: 1 } }).do, 'begin-step')
  const late = asked(done, { policy: { ...POLICY_DEFAULTS, deadlineMs: 500 } })
  assert.ok(late.do === 'fail' && late.why === 'deadline')
})

test('a model reads of its cut call that it was not run, in every later request and after a restart', () => {
  const cut = new Fault('tool_call_truncated', { reason: 'output_limit' }).report
  const told = { tool: 'write', text: 'Not run: it was cut.' }
  const state = fold(start, step, retry('retry', 0, { fault: cut, told }))
  const callId = 'cut000003'
  assert.deepEqual(toMessages(state.entries, 'sys').slice(2), [
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: callId, type: 'function', function: { name: 'write', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: callId, content: 'Not run: it was cut.' },
  ])
  assert.equal(state.turn?.answer.cuts, 1)
  assert.deepEqual(asked(state), { do: 'answer', step: 1, attempt: 2 })
  const later = fold(start, step, retry('retry', 0, { fault: cut, told }), call('a'), result('a'), { ...step, step: 2 })
  assert.equal(later.turn?.answer.cuts, 0)
  assert.equal(toMessages(later.entries, 'sys').length, 6)
})

test('a finished turn shows why the model stopped, if not because it was done, and whether that is proven', () => {
  const ended: TestDraftOf<'turn-end'> = { type: 'turn-end', text: 'ok', usage: NO_USAGE, steps: 1, faultsSurvived: 0 }
  const shown = (end: TestDraftOf<'turn-end'>) => {
    const { finish, unproven } = turnView(fold(start, step, end), 's', 't1', null) ?? {}
    return { finish, unproven }
  }
  assert.deepEqual(shown({ ...ended, finish: 'length' }), { finish: 'length', unproven: undefined })
  assert.deepEqual(shown({ ...ended, unproven: true }), { finish: undefined, unproven: true })
  assert.deepEqual(shown(ended), { finish: undefined, unproven: undefined })
})

test('the queue starts one after another, and a queued turn that is cancelled never starts', () => {
  const queued = (turnId: string): TestDraft => ({ type: 'turn-queued', turnId, prompt: turnId })
  const ended: TestDraft = { type: 'turn-end', text: 'ok', usage: NO_USAGE, steps: 1, faultsSurvived: 0 }
  const state = fold(start, queued('t2'), queued('t3'), ended, turnError('cancelled', 't2'))
  const command = asked(state)
  assert.ok(command.do === 'start' && command.turn.id === 't3')
  assert.equal(turnView(state, 's', 't2', null)?.state, 'cancelled')
})

test('however a turn is interrupted, the model sees a result for every call', () => {
  const cutOff = turnError('other')
  const state = fold(start, step, delta(1, 'I look.'), call('a'), call('b', 2), result('a'), cutOff)
  const messages = toMessages(state.entries, 'sys')
  const wanted = messages.flatMap((message) =>
    'tool_calls' in message ? (message.tool_calls ?? []).map(({ id }) => id) : [],
  )
  const given = messages.flatMap((message) => (message.role === 'tool' ? [message.tool_call_id] : []))
  assert.deepEqual(given, wanted)
})

test('usage adds up over steps and an unknown makes it an estimate, never a zero', () => {
  const usage = (value: number | null, quality: 'known' | 'unknown') => ({
    inputTokens: { value, quality },
    outputTokens: { value, quality },
  })
  const state = fold(
    start,
    step,
    { ...call('a'), usage: usage(10, 'known') },
    result('a'),
    { type: 'step-start', step: 2 },
    {
      ...call('b'),
      step: 2,
      usage: usage(null, 'unknown'),
    },
  )
  assert.deepEqual(state.turn?.usage.inputTokens, { value: 10, quality: 'estimated' })
  const unknownFirst = fold(
    start,
    step,
    { ...call('a'), usage: usage(null, 'unknown') },
    result('a'),
    { type: 'step-start', step: 2 },
    { ...call('b'), step: 2, usage: usage(10, 'known') },
  )
  assert.deepEqual(unknownFirst.turn?.usage.inputTokens, { value: 10, quality: 'estimated' })
  assert.deepEqual(fold(start, step, { ...call('a'), usage: usage(null, 'unknown') }).turn?.usage.inputTokens, {
    value: null,
    quality: 'unknown',
  })
})

test('an answer that died with its daemon makes the usage an estimate', () => {
  const { turn } = fold(start, step, delta(1, 'a'), { type: 'taken-over', epoch: 2 })
  assert.deepEqual(turn?.usage.outputTokens, { value: null, quality: 'unknown' })
  assert.deepEqual(fold(start, step).turn?.usage.outputTokens, { value: 0, quality: 'known' })
})

test('folding at once or in any two parts gives the same state', () => {
  const pool: TestDraft[] = [
    start,
    step,
    delta(1, 'a'),
    delta(2, 'b'),
    call('a'),
    call('b', 2),
    result('a'),
    result('b'),
    retry('retry'),
    retry('resolve'),
  ]
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pool), { maxLength: 30 }), fc.nat(30), (list, cut) => {
      const all = eventsOf(list)
      const before = JSON.stringify(all)
      const whole = all.reduce(reduce, EMPTY_FOLD)
      const first = all.slice(0, cut).reduce(reduce, EMPTY_FOLD)
      assert.deepEqual(all.slice(cut).reduce(reduce, first), whole)
      assert.equal(JSON.stringify(all), before)
    }),
  )
})

test('a turn names the files of its file tools; what commands changed is unknown until its end says it', () => {
  const ended = { cause: 'exited', started: true, code: 0, signal: null, signalGuess: null, durationMs: 1 } as const
  const exit = { ...ended, survivors: [], stdoutBytes: 9, stderrBytes: 0, truncated: false, diagnostics: [] }
  const files = (state: SessionFold) => {
    const { filesChanged, filesUnknown, longOutputs } = turnView(state, 's1', 't1', null) ?? {}
    return { filesChanged, filesUnknown, longOutputs }
  }
  const none = { filesUnknown: undefined, longOutputs: undefined }
  const write = { ...call('w'), tool: 'write', arguments: { path: './a' } }
  const end = { type: 'turn-end', text: '', usage: NO_USAGE, steps: 1, faultsSurvived: 0 } as const
  const written = [start, step, write, result('w')]
  assert.deepEqual(files(fold(...written, end)), { ...none, filesChanged: ['./a'] })
  const text = 'head\n[… 9 bytes left out …]\ntail'
  const long = { type: 'tool-result', callId: 'a', outcome: 'ok', text, exit } as const
  const ran = [...written, call('a', 2), long]
  const unknown = { filesChanged: ['./a'], filesUnknown: true, longOutputs: ['t1-1-2'] }
  assert.deepEqual(files(fold(...ran)), unknown)
  assert.deepEqual(files(fold(...ran, { ...end, filesUnknown: true })), unknown)
  const known = { ...unknown, filesChanged: ['a', 'b'], filesUnknown: undefined }
  assert.deepEqual(files(fold(...ran, { ...end, filesChanged: ['a', 'b'] })), known)
  const failed = { ...turnError('cancelled'), filesChanged: ['a', 'b'] }
  assert.deepEqual(files(fold(...ran, failed)), known)
  assert.ok(!('filesChanged' in (turnView(fold(...ran, failed), 's1', 't1', null)?.fault ?? {})))
})

/** What a plain object inherits, which a model may use as the name of a tool or a call. */
const INHERITED = Object.getOwnPropertyNames(Object.prototype)

test('calls are counted by name, whatever a model calls its tools and its calls', () => {
  const name = fc.oneof(fc.constantFrom(...INHERITED), fc.constantFrom('bash', 'edit'), fc.string())
  fc.assert(
    fc.property(fc.uniqueArray(fc.record({ tool: name, callId: name }), { selector: (of) => of.callId }), (calls) => {
      const asked = calls.map(({ tool, callId }, n) => ({ ...call(callId, n), tool }))
      const all = fold(start, step, ...asked, ...calls.map(({ callId }) => result(callId)))
      const tools = turnView(all, 's1', 't1', null)?.tools ?? {}
      const counts = Map.groupBy(calls, ({ tool }) => tool)
      assert.deepEqual(
        Object.entries(tools),
        Object.entries(Object.fromEntries([...counts].map(([tool, of]) => [tool, of.length]))),
      )
      assert.deepEqual(Object.keys(all.turn?.record.open ?? {}), [])
    }),
  )
})

test('a result of a call that nobody made changes nothing that is shown', () => {
  const known = turnView(fold(start, step), 's1', 't1', null)
  for (const callId of INHERITED) {
    const shown = turnView(fold(start, step, result(callId)), 's1', 't1', null)
    assert.deepEqual({ ...shown, lastSeq: known?.lastSeq }, known, callId)
  }
})
