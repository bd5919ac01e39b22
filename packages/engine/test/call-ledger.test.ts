/** Who knows whether a call may have started, and that only the session changes itself. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mayHaveReachedBox } from '../src/tools/built-in-tools.ts'
import { CallLedger } from '../src/session/call-ledger.ts'
import type { OwnedSession } from '../src/session/owned-session.ts'
import { reduce } from '../src/turn/reduce.ts'
import { EMPTY_FOLD, type SessionFold } from '../src/turn/state.ts'
import { eventsOf, type TestDraft } from './support/events.ts'

const call = (callId: string): TestDraft => ({
  type: 'tool-call',
  step: 1,
  callId,
  tool: 'bash',
  arguments: {},
  execId: callId,
})
const events = eventsOf([
  { type: 'turn-start', prompt: 'go' },
  { type: 'step-start', step: 1 },
  ...['c1', 'c2', 'c3'].map(call),
  { type: 'tool-result', callId: 'c1', outcome: 'ok', text: '' },
  { type: 'box-moved', from: 'r1', to: 'r2', because: 'silent', filesKept: true },
])
const foldOf = (count: number): SessionFold => events.slice(0, count).reduce(reduce, EMPTY_FOLD)
const IN_BOX = { runnerId: 'r1', tools: [] }

test('of the calls that an earlier process left open, only the first can have started', () => {
  const started = (ledger: CallLedger): readonly boolean[] => ['c2', 'c3'].map((id) => ledger.mayHaveStarted(id))
  assert.deepEqual(started(new CallLedger(foldOf(6), IN_BOX, mayHaveReachedBox)), [true, false])
  assert.deepEqual(started(new CallLedger(foldOf(6), { runnerId: null, tools: [] }, mayHaveReachedBox)), [false, false])
  assert.deepEqual(started(new CallLedger(foldOf(6), { ...IN_BOX, boxReleased: true }, mayHaveReachedBox)), [
    false,
    false,
  ])
})

test('a call counts as started unless every request of it was refused', () => {
  const ledger = new CallLedger(foldOf(2), IN_BOX, mayHaveReachedBox)
  ledger.committed(events.slice(2, 5), foldOf(5))
  assert.equal(ledger.mayHaveStarted('c1'), false)
  ledger.starting('c1')
  assert.equal(ledger.mayHaveStarted('c1'), true)
  ledger.refused('c1')
  assert.equal(ledger.mayHaveStarted('c1'), false)
  ledger.starting('c1') // its answer was lost
  ledger.starting('c1')
  ledger.refused('c1')
  assert.equal(ledger.mayHaveStarted('c1'), true)
})

test('in the box that a session moved to, nothing has started', () => {
  const ledger = new CallLedger(foldOf(6), IN_BOX, mayHaveReachedBox)
  ledger.committed(events.slice(6), foldOf(7))
  assert.equal(ledger.mayHaveStarted('c2'), false)
})

test('nothing of a session can be assigned from outside', () => {
  const noField: [Assignable<OwnedSession>] extends [never] ? true : false = true // checked by the compiler
  assert.ok(noField)
})

type IsSame<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** The names of its fields that are not `readonly`. */
type Assignable<T> = {
  [K in keyof T]-?: T[K] extends (...args: never[]) => unknown
    ? never
    : IsSame<{ [P in K]: T[P] }, { -readonly [P in K]: T[P] }> extends true
      ? K
      : never
}[keyof T]
