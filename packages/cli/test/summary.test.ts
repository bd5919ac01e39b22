import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, type FaultCategory } from '@breakfall/faults'
import type { RunResult } from '../src/commands/run/result.ts'
import { summary } from '../src/commands/run/summary.ts'
import { TurnView } from '../src/render/turn-view.ts'
import { anEvent, aSession } from './samples.ts'

const fault = new Fault('model_unreachable', { errorRaw: 'connect ECONNREFUSED' }).report
const result = (fields: Partial<RunResult>): RunResult => ({
  outcome: 'finished',
  turnId: 't',
  text: '',
  fault: null,
  faultsSurvived: 0,
  ...fields,
})
const shownSummary = (given: RunResult, view: TurnView, isLasting = false): string =>
  summary(given, view, aSession(), { isLasting })
    .map(({ text }) => text)
    .join('\n')

const show = (view: TurnView, fields: Parameters<typeof anEvent>[0]): void => void view.show(anEvent(fields))
const retry = (category: FaultCategory): Parameters<typeof anEvent>[0] => ({
  type: 'retry',
  step: 1,
  attempt: 1,
  fault: new Fault(category, { errorRaw: 'x' }).report,
  action: 'retry',
  delayMs: 0,
  nextAt: '2026-11-15T12:00:00.000Z',
  max: 6,
})

test('a fault counts as survived when the turn makes progress after it, not when the turn parks or fails with it', () => {
  for (const outcome of ['parked', 'failed'] as const) {
    const view = new TurnView()
    show(view, { type: 'step-start', step: 1 })
    show(view, retry('model_stream_stalled'))
    show(view, { type: 'step-start', step: 2 })
    for (let i = 0; i < 3; i++) show(view, retry(fault.category))
    const text = shownSummary(result({ outcome, fault, faultsSurvived: view.survived.length }), view)
    assert.equal(view.survived.length, 1)
    assert.match(text, /survived model_stream_stalled/)
    assert.doesNotMatch(text, /survived model_unreachable/)
    assert.ok(!text.includes(fault.error))
    assert.match(text, outcome === 'parked' ? /still parked after 2 steps/ : /failed after 2 steps, 1 fault survived/)
  }
})

test('a fault survived in an earlier step still counts when the turn parks with the same fault', () => {
  const view = new TurnView()
  show(view, retry(fault.category))
  show(view, { type: 'tool-call', step: 1, callId: 'c', tool: 'bash', arguments: {}, execId: 'e' })
  show(view, retry(fault.category))
  assert.equal(view.survived.length, 1)
})

test('a parked turn continues automatically under a lasting daemon; otherwise the summary says how to continue it', () => {
  const parked = result({ outcome: 'parked', fault })
  assert.match(shownSummary(parked, new TurnView(), true), /continues automatically; to retry now: breakfall resume s1/)
  assert.match(
    shownSummary(parked, new TurnView()),
    /to continue it: breakfall run --continue .* --session s1; breakfall up continues it/,
  )
})

test('the steps are named if they are known', () => {
  const view = new TurnView()
  assert.match(shownSummary(result({}), view), /finished, no faults/)
  view.steps = 1
  assert.match(shownSummary(result({ faultsSurvived: 2 }), view), /finished in 1 step, 2 faults survived/)
})

test('if there is no sandbox the summary names the flag that runs without one', () => {
  const missing = new Fault('isolation_unavailable').report
  assert.match(
    shownSummary(result({ outcome: 'failed', fault: missing }), new TurnView()),
    /breakfall run --isolation process/,
  )
  assert.doesNotMatch(shownSummary(result({ outcome: 'failed', fault }), new TurnView()), /--isolation/)
})

test('a run names each process that it leaves running, with its ports and the command that stops it', () => {
  const web = {
    execId: 'e1',
    name: 'my web',
    state: 'running',
    ports: [3000, 3001],
    sessionId: 's1',
    workspace: null,
  } as const
  const lines = summary(result({}), new TurnView(), aSession(), {
    isLasting: false,
    processes: [web, { ...web, name: 'job', ports: [] }],
  })
  assert.deepEqual(
    lines.slice(-2).map(({ text }) => text),
    [
      "  still running: my web (ports 3000, 3001 of its box); to stop it: breakfall processes stop 'my web' --session s1",
      '  still running: job; to stop it: breakfall processes stop job --session s1',
    ],
  )
})
