/** What a turn's events add up to. `e2e/journals` folds whole journals; these are the cases that they do not have. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, type FaultCategory } from '@breakfall/faults'
import type { EventDraft, SessionEvent } from '../src/index.ts'
import {
  continuesByItself,
  countsAsFault,
  FIRST_STATUS,
  firstRecord,
  recordAfter,
  retryAt,
  statusAfter,
  type TurnRecord,
  type TurnStatus,
  type Wait,
  parkIn,
  waitOf,
} from '../src/turn/index.ts'

type Fillable<E> = E extends EventDraft ? Omit<E, 'turnId'> : never
type Draft = Fillable<EventDraft>

const START = Date.parse('2026-11-15T12:00:00.000Z')
const at = (second: number): string => new Date(START + second * 1_000).toISOString()

/** One event a second. */
const events = (drafts: readonly Draft[]): readonly SessionEvent[] =>
  drafts.map((draft, n) => ({ seq: n + 1, sessionId: 's', turnId: 't', at: at(n), ...draft }) as SessionEvent)

const statusOf = (...drafts: readonly Draft[]): TurnStatus => events(drafts).reduce(statusAfter, FIRST_STATUS)
const recordOf = (...drafts: readonly Draft[]): TurnRecord => events(drafts).reduce(recordAfter, firstRecord(1))

const parked = (category: 'shutting_down' | 'model_unreachable'): Draft => ({
  type: 'parked',
  fault: new Fault(category).report,
  resumeAt: null,
})
const retry = (second: number): Draft => ({
  type: 'retry',
  step: 1,
  attempt: 1,
  max: 6,
  action: 'retry',
  delayMs: 1_000,
  nextAt: at(second),
  fault: new Fault('model_overloaded').report,
})
const call = (callId: string, tool: string, given: Readonly<Record<string, unknown>> = {}): Draft => ({
  type: 'tool-call',
  step: 1,
  callId,
  tool,
  arguments: given,
  execId: `exec of ${callId}`,
})
const result = (callId: string, outcome: 'ok' | 'failed' = 'ok'): Draft => ({
  type: 'tool-result',
  callId,
  outcome,
  text: '',
})

test('the end of a daemon shortens no wait for a retry, and a person ends it', () => {
  const handedOver = statusOf(retry(100), parked('shutting_down'))
  assert.deepEqual([handedOver.state, retryAt(handedOver)], ['parked', START + 100_000])
  const rest: readonly (readonly [Draft, string])[] = [
    [{ type: 'resumed', because: 'restart' }, 'retrying'],
    [{ type: 'resumed', because: 'person' }, 'running'],
  ]
  for (const [resumed, state] of rest) assert.equal(statusOf(retry(100), parked('shutting_down'), resumed).state, state)
  assert.equal(statusOf(retry(100), { type: 'taken-over', epoch: 2 }).state, 'retrying')
  assert.equal(
    statusOf(retry(1), { type: 'taken-over', epoch: 2 }).state,
    'running',
    'it was over when the next one came',
  )
  assert.equal(retryAt(statusOf(retry(100), parked('model_unreachable'))), null)
})

test('a parked turn stays parked while its call is answered or ends', () => {
  const approval: Draft = { type: 'approval', callId: 'c', decision: 'allow', actor: 'user', reason: null }
  assert.equal(statusOf(call('c', 'bash'), parked('model_unreachable'), approval).state, 'parked')
  assert.equal(statusOf(call('c', 'bash'), parked('model_unreachable'), result('c')).state, 'parked')
})

test('files are those that tools wrote by name, until the end of the turn says what commands changed, or that it is not known', () => {
  const drafts = [
    call('a', 'write', { path: 'x' }),
    result('a'),
    call('c', 'write', { path: 'not written' }),
    result('c', 'failed'),
    call('constructor', 'edit', { path: 'y' }),
    call('b', 'bash'),
  ]
  const { open, ...running } = recordOf(...drafts)
  assert.deepEqual(running, {
    firstSeq: 1,
    lastSeq: 6,
    marks: '',
    tools: { write: 2, edit: 1, bash: 1 },
    filesChanged: ['x'],
    filesUnknown: true,
    longOutputs: [],
  })
  assert.deepEqual(Object.keys(open), ['constructor', 'b'])
  const usage = { inputTokens: { value: 1, quality: 'known' }, outputTokens: { value: 1, quality: 'known' } } as const
  const end: Draft = { type: 'turn-end', text: '', usage, steps: 1, faultsSurvived: 0, filesChanged: ['x', 'z'] }
  const { filesChanged, filesUnknown } = recordOf(...drafts, end)
  const { filesChanged: _, ...without } = end
  assert.equal(recordOf({ ...without, filesUnknown: true }).filesUnknown, true)
  assert.deepEqual([filesChanged, filesUnknown], [['x', 'z'], false])
})

test('what a parked turn waits for follows from its fault, and whoever reads only a list knows as much', () => {
  const row = (category: FaultCategory, resumeAt: string | null = null): string => {
    const { report: fault } = new Fault(category)
    const wait = waitOf({ fault, resumeAt })
    const listed = parkIn({ parked: { resumeAt }, fault: { category, class: fault.class } })
    assert.deepEqual(listed === null ? null : waitOf(listed), wait)
    const what = [
      wait.for,
      wait.question,
      wait.needsPerson && 'you',
      continuesByItself({ fault, resumeAt }) && 'itself',
    ]
    return what.filter((word) => typeof word === 'string').join(' ')
  }
  assert.deepEqual(
    [
      row('steps_spent'),
      row('approval_needed'),
      row('model_auth_failed'),
      row('model_auth_failed', at(60)),
      row('model_quota_exhausted', at(60)),
      row('runner_not_available'),
      row('runner_unreachable'),
      row('model_unreachable'),
      row('model_overloaded', at(60)),
      row('journal_full'),
      row('shutting_down'),
    ],
    [
      'person steps you',
      'person approval you',
      'config you',
      'config you itself',
      'config you itself',
      'runner you itself',
      'runner itself',
      'model itself',
      'time itself',
      'journal itself',
      'restart itself',
    ],
  )
})

test('a turn that an earlier version parked without steps left asks the same, and what an event says of its wait counts', () => {
  const before = new Fault('quota_exceeded', { boundary: 'daemon', next: 'park', reason: 'steps_spent' }).report
  assert.deepEqual(waitOf({ fault: before }), waitOf({ fault: new Fault('steps_spent').report }))
  assert.equal(countsAsFault({ fault: before }), false)
  const wait: Wait = { for: 'time', needsPerson: true, until: at(1), expiresAt: at(2) }
  assert.deepEqual(waitOf({ fault: before, wait }), wait)
  assert.equal(parkIn({ parked: null, fault: before }), null)
})
