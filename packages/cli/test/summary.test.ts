import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '@breakfall/faults'
import type { Session } from '@breakfall/wire'
import type { RunResult } from '../src/commands/run.ts'
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
const said = (given: RunResult, view: TurnView): string =>
  summary(given, view, { id: 's' } as Session)
    .map(({ text }) => text)
    .join('\n')

test('what a turn is parked with was not survived, what came before was; its sentence is not said again', () => {
  const view = new TurnView()
  view.steps = 2
  view.survived.push({ category: 'model_stream_stalled', what: 'silence', how: 'asked again' })
  for (let i = 0; i < 3; i++) view.survived.push({ category: fault.category, what: 'refused', how: 'asked again' })
  for (const outcome of ['parked', 'failed'] as const) {
    const text = said(result({ outcome, fault, faultsSurvived: 4 }), view)
    assert.match(text, /survived model_stream_stalled/)
    assert.doesNotMatch(text, /survived model_unreachable/)
    assert.ok(!text.includes(fault.error))
  }
  assert.match(said(result({ outcome: 'parked', fault }), view), /still parked after 2 steps \(model_unreachable\)/)
})

test('steps are counted where they are known', () => {
  const view = new TurnView()
  assert.match(said(result({}), view), /finished, no faults/)
  view.steps = 1
  assert.match(said(result({ faultsSurvived: 2 }), view), /finished in 1 step, 2 faults survived/)
})
