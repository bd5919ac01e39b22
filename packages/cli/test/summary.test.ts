import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, type FaultCategory } from '@breakfall/faults'
import type { Session, SessionEvent } from '@breakfall/wire'
import type { RunResult } from '../src/run/turn.ts'
import { summary } from '../src/render/summary.ts'
import { TurnView } from '../src/render/turn-view.ts'

const fault = new Fault('model_unreachable', { errorRaw: 'connect ECONNREFUSED' }).report
const result = (fields: Partial<RunResult>): RunResult => ({
  outcome: 'finished',
  turnId: 't',
  text: '',
  fault: null,
  faultsSurvived: 0,
  ...fields,
})
const said = (given: RunResult, view: TurnView, isLasting = false): string =>
  summary(given, view, { id: 's' } as Session, isLasting)
    .map(({ text }) => text)
    .join('\n')

let seq = 0
const shown = (view: TurnView, fields: object): void => {
  view.show({ seq: ++seq, sessionId: 's', turnId: 't', at: '2026-11-15T12:00:00.000Z', ...fields } as SessionEvent)
}
const retry = (category: FaultCategory): object => ({
  type: 'retry',
  step: 1,
  attempt: 1,
  fault: new Fault(category, { errorRaw: 'x' }).report,
  action: 'retry',
  delayMs: 0,
  nextAt: '2026-11-15T12:00:00.000Z',
  max: 6,
})

test('a fault is survived once the turn has got on; what it is parked with or failed of was not', () => {
  for (const outcome of ['parked', 'failed'] as const) {
    const view = new TurnView()
    shown(view, { type: 'step-start', step: 1 })
    shown(view, retry('model_stream_stalled'))
    shown(view, { type: 'step-start', step: 2 })
    for (let i = 0; i < 3; i++) shown(view, retry(fault.category))
    const text = said(result({ outcome, fault, faultsSurvived: view.survived.length }), view)
    assert.equal(view.survived.length, 1)
    assert.match(text, /survived model_stream_stalled/)
    assert.doesNotMatch(text, /survived model_unreachable/)
    assert.ok(!text.includes(fault.error))
    assert.match(text, outcome === 'parked' ? /still parked after 2 steps/ : /failed after 2 steps, 1 fault survived/)
  }
})

test('the same fault in an earlier step was survived, although the turn is parked with it now', () => {
  const view = new TurnView()
  shown(view, retry(fault.category))
  shown(view, { type: 'tool-call', step: 1, callId: 'c', tool: 'bash', arguments: {}, execId: 'e' })
  shown(view, retry(fault.category))
  assert.equal(view.survived.length, 1)
})

test('a parked turn goes on by itself where the daemon stays, else it is said how it is taken up', () => {
  const parked = result({ outcome: 'parked', fault })
  assert.match(said(parked, new TurnView(), true), /goes on by itself; to try now: breakfall resume s/)
  assert.match(
    said(parked, new TurnView()),
    /take it up again: breakfall run --continue .* --session s; breakfall up goes/,
  )
})

test('steps are counted where they are known', () => {
  const view = new TurnView()
  assert.match(said(result({}), view), /finished, no faults/)
  view.steps = 1
  assert.match(said(result({ faultsSurvived: 2 }), view), /finished in 1 step, 2 faults survived/)
})

test('where the sandbox is missing it is said which flag does without', () => {
  const missing = new Fault('isolation_unavailable').report
  assert.match(said(result({ outcome: 'failed', fault: missing }), new TurnView()), /breakfall run --isolation process/)
  assert.doesNotMatch(said(result({ outcome: 'failed', fault }), new TurnView()), /--isolation/)
})
