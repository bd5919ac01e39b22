/** Which events are faults, and what becomes of them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Fault, type FaultCategory } from '@breakfall/faults'
import { parseEvent, type SessionEvent } from '@breakfall/wire'
import type { FaultFate, SeenFault } from '../src/turn/fault-history.ts'
import { reduce } from '../src/turn/reduce.ts'
import { faultNotesIn, faultNotesOf } from '../src/turn/fault-history.ts'
import { EMPTY_FOLD } from '../src/turn/state.ts'

type Draft = Record<string, unknown> & { readonly type: string }

const report = (category: FaultCategory, errorRaw = 'read ECONNRESET') => new Fault(category, { errorRaw }).report

const START: Draft = { type: 'turn-start', prompt: 'p' }
const STEP: Draft = { type: 'step-start', step: 1 }
const RETRY: Draft = {
  type: 'retry',
  step: 1,
  attempt: 1,
  fault: report('model_stream_interrupted'),
  action: 'retry',
  delayMs: 1,
  nextAt: '2026-11-15T12:00:01.000Z',
  max: 6,
}
const PARKED: Draft = { type: 'parked', fault: report('model_auth_failed'), resumeAt: null }
const QUESTION: Draft = { ...PARKED, fault: new Fault('approval_needed').report }
const RESUMED: Draft = { type: 'resumed', because: 'person' }
const UNKNOWN: Draft = {
  type: 'tool-result',
  callId: 'c',
  outcome: 'unknown',
  text: 'It is unknown whether this ran: x. More.',
}
const CALL: Draft = { type: 'tool-call', step: 1, callId: 'c', tool: 'bash', arguments: {}, execId: 'e' }
const FAILED: Draft = { type: 'turn-error', ...report('crash_loop', 'too many') }
const CANCELLED: Draft = { type: 'turn-error', ...report('cancelled'), actor: 'user' }

const journal = (...drafts: readonly Draft[]): readonly SessionEvent[] =>
  drafts.map(
    (draft, index) =>
      parseEvent({
        ...draft,
        seq: index + 1,
        sessionId: 's',
        turnId: 't',
        at: '2026-11-15T12:00:00.000Z',
      }) as SessionEvent,
  )

const became = (...drafts: readonly Draft[]): readonly FaultFate[] =>
  faultNotesOf(journal(START, STEP, ...drafts))?.seen.map((fault) => fault.became) ?? []

test('a fault is open until the turn makes progress or ends', () => {
  assert.deepEqual(became(RETRY), ['open'])
  assert.deepEqual(became(RETRY, CALL), ['survived'])
  assert.deepEqual(became(RETRY, RETRY, STEP, RETRY), ['survived', 'survived', 'open'])
  assert.deepEqual(became(RETRY, FAILED), ['ended', 'ended'])
  assert.deepEqual(became(PARKED), ['parked'])
  assert.deepEqual(became(PARKED, RESUMED), ['open'])
  assert.deepEqual(became(PARKED, RESUMED, STEP), ['survived'])
  assert.deepEqual(became(CALL, UNKNOWN), ['open'])
  assert.deepEqual(became(CALL, UNKNOWN, STEP), ['survived'])
})

test('a question to a person and a cancelled turn are no faults', () => {
  assert.deepEqual(became(QUESTION), [])
  assert.deepEqual(became(CANCELLED), [])
  assert.deepEqual(became(RETRY, CANCELLED), ['ended'], 'but the turn did not survive what was open')
  assert.equal(faultNotesOf(journal(START, STEP, CALL)), undefined, 'most appends say nothing about faults')
})

test('an occurrence has its step, attempt, category and raw error', () => {
  const [retry, unknown] = faultNotesOf(journal(START, STEP, RETRY, CALL, UNKNOWN))?.seen ?? []
  assert.deepEqual(
    [retry?.step, retry?.attempt, retry?.category, retry?.errorRaw],
    [1, 1, 'model_stream_interrupted', 'read ECONNRESET'],
  )
  assert.deepEqual(
    [unknown?.step, unknown?.attempt, unknown?.category, unknown?.errorRaw],
    [1, null, 'exec_outcome_unknown', 'It is unknown whether this ran: x'],
  )
})

test('an event that cannot be read reports nothing', () => {
  const bodies = journal(START, STEP, RETRY).map((event) => JSON.stringify(event))
  assert.equal(faultNotesIn([...bodies, '{"type":"retry"', '{"type":"retry","seq":9}'])?.seen.length, 1)
})

test('batches of any size end with the same faults as the whole journal at once', () => {
  const drafts = fc.array(fc.constantFrom(STEP, RETRY, PARKED, QUESTION, RESUMED, CALL, UNKNOWN), { maxLength: 30 })
  const sizes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 30, maxLength: 30 })
  fc.assert(
    fc.property(drafts, sizes, fc.boolean(), (given, cuts, isEnded) => {
      const events = journal(START, STEP, ...given, ...(isEnded ? [FAILED] : []))
      const kept = new Map<number, SeenFault>()
      let fold = EMPTY_FOLD
      let from = 0
      for (const size of cuts) {
        const batch = events.slice(from, (from += size))
        const notes = faultNotesOf(batch, fold.turn)
        for (const fate of notes?.fates ?? [])
          for (const fault of kept.values())
            if (fault.became === 'open' || fault.became === 'parked')
              kept.set(fault.seq, { ...fault, became: fate.became })
        for (const fault of notes?.seen ?? []) kept.set(fault.seq, fault)
        fold = batch.reduce(reduce, fold)
      }
      const whole = faultNotesOf(events.slice(0, from))?.seen ?? []
      assert.deepEqual([...kept.values()], whole)
    }),
    { numRuns: 300 },
  )
})
