import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Fault, POLICY_DEFAULTS } from '@breakfall/faults'
import { compacted, compactionDue, planCompaction } from '../src/turn/compaction.ts'
import { conversationBytes, toMessages } from '../src/turn/messages.ts'
import { next } from '../src/turn/next.ts'
import { reduce } from '../src/turn/reduce.ts'
import { type CompactionPlan, EMPTY_FOLD, type SessionFold } from '../src/turn/state.ts'
import { cutSummary, summaryMessages } from '../src/turn/summary-request.ts'
import { windowBytes } from '../src/turn/window.ts'
import { eventsOf, type TestDraft } from './support/events.ts'

const PROMPT = 'find the bug and fix it'
const REQUEST = { model: 'm', contextTokens: null, fixedBytes: 1_000 }
const fold = (...drafts: readonly TestDraft[]): SessionFold => eventsOf(drafts).reduce(reduce, EMPTY_FOLD)

const stepOf = (step: number, bytes: number): readonly TestDraft[] => [
  { type: 'step-start', step },
  {
    type: 'tool-call',
    step,
    callId: `c${step}`,
    tool: 'bash',
    arguments: { command: `step ${step}` },
    execId: `e${step}`,
  },
  { type: 'tool-result', callId: `c${step}`, outcome: 'ok', text: `begin-${step} ${'x'.repeat(bytes)} end-${step}` },
]

const run = (sizes: readonly number[]): readonly TestDraft[] => [
  { type: 'turn-start', prompt: PROMPT },
  ...sizes.flatMap((bytes, index) => stepOf(index + 1, bytes)),
  { type: 'step-start', step: sizes.length + 1 },
]

const overflow = (requestBytes: number, errorRaw = 'too long'): TestDraft => ({
  type: 'retry',
  step: 1,
  attempt: 1,
  fault: new Fault('model_context_overflow', { errorRaw }).report,
  action: 'retry',
  delayMs: 0,
  nextAt: '2026-11-15T12:00:00.000Z',
  max: 6,
  overflow: { model: 'm', requestBytes },
})

const plan = (state: SessionFold): CompactionPlan => {
  const planned = planCompaction(state, REQUEST)
  assert.ok(planned !== null)
  return planned
}

const afterwards = (state: SessionFold, { results, summary }: CompactionPlan, text = 'all is well') =>
  compacted(state.entries, { results, ...(summary === null ? {} : { summary: { text, upToSeq: summary.upToSeq } }) })

test('the oldest results become notes first, and only as many as needed; the newest steps stay whole', () => {
  const state = fold(...run(Array(10).fill(20_000)), overflow(200_000))
  const planned = plan(state)
  assert.deepEqual(planned.results, ['c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7'])
  assert.deepEqual([planned.fromStep, planned.toStep, planned.summary], [1, 7, null])
  const messages = toMessages(afterwards(state, planned), 'sys')
  const results = messages.flatMap((message) => (message.role === 'tool' ? [message.content] : []))
  assert.match(results[0] ?? '', /the result of bash .*step 1.*, 2\d{4} bytes\. It began "begin-1 .* ended ".*end-1"/)
  assert.match(results[0] ?? '', /ran once/)
  assert.equal(
    results.slice(7).every((text) => text.length > 20_000),
    true,
  )
  assert.deepEqual(messages.slice(0, 2), toMessages(state.entries, 'sys').slice(0, 2), 'system prompt and prompt')
})

test('when notes are not enough, the oldest steps become a summary, and prompts stay whole', () => {
  const many = fold(...run(Array(200).fill(900)), overflow(250_000))
  const planned = plan(many)
  assert.ok(planned.summary !== null)
  const entries = afterwards(many, planned, 'fixed a, b is left')
  const messages = toMessages(entries, 'sys')
  assert.deepEqual(messages.map(({ role }) => role).slice(0, 4), ['system', 'user', 'assistant', 'tool'])
  const [, opening] = messages
  assert.ok(opening?.role === 'user' && opening.content.startsWith(PROMPT))
  assert.match(opening.content, /Summary of the steps up to here.*fixed a, b is left/s)
  assert.ok(conversationBytes(entries) < conversationBytes(many.entries) / 2)
  assert.equal(planned.toStep < 200, true)
  const asked = summaryMessages(planned.summary)
  assert.ok(Buffer.byteLength(JSON.stringify(asked)) <= planned.summary.requestBytesMax)
})

test('a second summary takes in the first one', () => {
  const first = fold(...run(Array(200).fill(900)), overflow(250_000))
  const planned = plan(first)
  assert.ok(planned.summary !== null)
  const { upToSeq } = planned.summary
  const sizes = {
    fromStep: 1,
    toStep: 9,
    droppedResults: 0,
    summaryBytes: 9,
    requestBytesBefore: 2,
    requestBytesAfter: 1,
  }
  const shorter: TestDraft = { type: 'compacted', step: 201, ...sizes, summary: { text: 'the first summary', upToSeq } }
  const more = Array.from({ length: 200 }, (_, n) => stepOf(n + 201, 900)).flat()
  const state = fold(
    ...run(Array(200).fill(900)),
    shorter,
    ...more,
    { type: 'step-start', step: 401 },
    overflow(250_000),
  )
  const again = plan(state)
  assert.ok(again.summary !== null)
  assert.match(JSON.stringify(summaryMessages(again.summary)), /EARLIER SUMMARY: the first summary/)
  const entries = afterwards(state, again, 'the second summary')
  assert.deepEqual(
    entries.filter(({ role }) => role === 'summary').map(({ text }) => '' + text),
    ['the second summary'],
  )
})

test('whatever the conversation, a plan shortens it, keeps prompts and the newest step, and keeps calls and results together', () => {
  const sizes = fc.array(fc.integer({ min: 0, max: 30_000 }), { minLength: 1, maxLength: 30 })
  fc.assert(
    fc.property(sizes, fc.integer({ min: 1, max: 300_000 }), fc.string(), (bytes, refused, said) => {
      const state = fold(...run(bytes), overflow(refused))
      const planned = planCompaction(state, REQUEST)
      if (planned === null) return
      const text = planned.summary === null ? '' : cutSummary(said.repeat(50), planned.summary)
      const entries = afterwards(state, planned, text)
      assert.ok(conversationBytes(entries) < conversationBytes(state.entries))
      assert.deepEqual(entries.slice(-2), state.entries.slice(-2))
      assert.equal(entries[0], state.entries[0])
      const calls = entries.flatMap((entry) =>
        entry.role === 'assistant' ? entry.calls.map(({ callId }) => callId) : [],
      )
      const results = entries.flatMap((entry) => (entry.role === 'tool' ? [entry.callId] : []))
      assert.deepEqual(results, calls)
    }),
    { seed: 16 },
  )
})

test('a conversation of prompts and one step cannot be shortened', () => {
  assert.equal(planCompaction(fold(...run([50_000]), overflow(50_000)), REQUEST), null)
})

test('compaction starts at 85 % of a known window, once a step, and not when the policy has no more', () => {
  const state = fold(...run(Array(10).fill(20_000)))
  const bytes = REQUEST.fixedBytes + conversationBytes(state.entries)
  const within = (tokens: number) => ({ ...REQUEST, contextTokens: tokens })
  const tokens = Math.ceil((bytes * 0.3) / 0.85)
  assert.equal(compactionDue(state, within(tokens + 10), 50), null)
  assert.notEqual(compactionDue(state, within(tokens - 10), 50), null)
  assert.equal(compactionDue(state, within(tokens - 10), 0), null)
  assert.equal(compactionDue(state, REQUEST, 50), null, 'an unknown window is never full')
  const due = { policy: POLICY_DEFAULTS, cancel: null, request: within(tokens - 10), now: 0, approvalFor: () => null }
  assert.equal(next(state, due).do, 'compact')
  const sizes = {
    fromStep: 1,
    toStep: 1,
    droppedResults: 1,
    summaryBytes: 0,
    requestBytesBefore: 2,
    requestBytesAfter: 1,
  }
  const done = fold(...run(Array(10).fill(20_000)), { type: 'compacted', step: 11, ...sizes, results: ['c1'] })
  assert.equal(next(done, due).do, 'answer')
})

test('the window is learned from what was refused: the size, and the numbers in the message', () => {
  const refusedAt = (errorRaw: string) => windowBytes(fold(...run([10]), overflow(100_000, errorRaw)), REQUEST)
  assert.equal(refusedAt('too long'), 100_000)
  assert.equal(refusedAt('prompt is too long: 25000 tokens > 20000 maximum'), 80_000, 'a quarter of a token a byte')
  assert.equal(windowBytes(fold(...run([10])), REQUEST), null)
  const another = windowBytes(fold(...run([10]), overflow(100_000)), { ...REQUEST, model: 'another' })
  assert.equal(another, null, 'what one model refuses says nothing about another')
})

test("the server's own count of tokens calibrates the estimate; an implausible one does not", () => {
  const counted = (tokens: number) => {
    const usage = {
      inputTokens: { value: tokens, quality: 'known' },
      outputTokens: { value: 1, quality: 'known' },
    } as const
    const [start, ...rest] = run([10])
    assert.ok(start)
    const drafts = rest.map((draft) => (draft.type === 'tool-call' ? { ...draft, usage, requestBytes: 10_000 } : draft))
    return windowBytes(fold(start, ...drafts), { ...REQUEST, contextTokens: 1_000 })
  }
  assert.equal(counted(5_000), 2_000)
  assert.equal(counted(10), 3_333)
})
