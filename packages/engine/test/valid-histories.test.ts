/** Whatever happened to a session, every request that follows holds a conversation that strict servers of all three APIs take. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import { Fault } from '@breakfall/faults'
import type { SessionEvent } from '@breakfall/wire'
import { problemsIn } from '../../../test/kit/valid-history.ts'
import { anthropicBody } from '../../model/src/dialects/anthropic-body.ts'
import { openAiBody } from '../../model/src/dialects/openai-body.ts'
import { responsesBody } from '../../model/src/dialects/responses-body.ts'
import { chooseProfile } from '../../model/src/contract/profiles.ts'
import { toMessages } from '../src/turn/messages.ts'
import { reduce } from '../src/turn/reduce.ts'
import { EMPTY_FOLD, NO_USAGE, type SessionFold } from '../src/turn/state.ts'
import { eventsOf, type TestDraft, turnError } from './support/events.ts'

const PROFILE = chooseProfile('generic', 'http://127.0.0.1/v1')

/** What the strictest server of each API would say about the next request. */
function problemsOf({ entries }: SessionFold): readonly string[] {
  const request = {
    baseUrl: 'http://127.0.0.1/v1',
    model: 'm',
    messages: toMessages(entries, 'sys'),
    promptCache: true,
  }
  // As they go over the wire: without what JSON leaves out.
  const sent = (body: object): Record<string, unknown> => JSON.parse(JSON.stringify(body)) as Record<string, unknown>
  return [
    ...problemsIn('openai-chat', sent(openAiBody(request, PROFILE))),
    ...problemsIn('openai-responses', sent(responsesBody(request, PROFILE))),
    ...problemsIn('anthropic-messages', sent(anthropicBody(request))),
  ]
}

const later = (fold: SessionFold, drafts: readonly TestDraft[]): SessionFold =>
  eventsOf(drafts)
    .map((event) => ({ ...event, turnId: 't-next', seq: 1_000_000 + event.seq }))
    .reduce(reduce, fold)

/** The model is asked now, or after the turn was given up here and another prompt came. */
function check(fold: SessionFold, where: string): void {
  if (fold.turn?.answer.isAnswering === true) assert.deepEqual(problemsOf(fold), [], where)
  const ended = fold.turn === null ? fold : reduce(fold, { ...eventsOf([turnError('shutting_down')])[0], seq: 999_999, turnId: fold.turn.id } as SessionEvent) // prettier-ignore
  const asked = later(ended, [
    { type: 'turn-start', prompt: 'go on' },
    { type: 'step-start', step: 1 },
  ])
  assert.deepEqual(problemsOf(asked), [], `${where}, given up and asked again`)
}

test('every prefix of every recorded journal', () => {
  const file = new URL('../../../fixtures/journals/bundles.jsonl.gz', import.meta.url)
  let [session, fold, prefixes] = ['', EMPTY_FOLD, 0]
  for (const line of gunzipSync(readFileSync(file)).toString().trimEnd().split('\n')) {
    const event = JSON.parse(line) as SessionEvent | { event: 'bundle'; name: string }
    if ('event' in event) [session, fold] = [event.name, EMPTY_FOLD]
    else {
      fold = reduce(fold, event)
      check(fold, `${session} ${event.seq}`)
      prefixes++
    }
  }
  assert.ok(prefixes > 200, String(prefixes))
})

const cut = new Fault('tool_call_truncated', { reason: 'output_limit' }).report
const text = fc.constantFrom('', ' ', 'words', '\n')

/** What may happen to a session. The numbers of calls and steps are filled in. */
const HAPPENS = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('calls' as const), text, count: fc.integer({ min: 1, max: 3 }), answered: fc.integer({ min: 0, max: 3 }) }) }, // prettier-ignore
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('says' as const), text }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('cut' as const) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('error' as const, 'partial' as const), text }) },
  ),
  { maxLength: 12 },
)

test('every prefix of any journal', () => {
  fc.assert(
    fc.property(HAPPENS, text, (happens, prompt) => {
      const drafts: TestDraft[] = []
      let [step, ids] = [0, 0]
      const begin = (): void => {
        if (step === 0) drafts.push({ type: 'turn-start', prompt: prompt.trim() === '' ? 'do it' : prompt })
        drafts.push({ type: 'step-start', step: ++step })
      }
      const said = (words: string): unknown =>
        words === '' ? 0 : drafts.push({ type: 'text-delta', step, attempt: 1, part: 'p1', text: words })
      for (const one of happens) {
        begin()
        switch (one.kind) {
          case 'calls': {
            said(one.text)
            const own = Array.from({ length: one.count }, () => `c${++ids}`)
            for (const callId of own) drafts.push({ type: 'tool-call', step, callId, tool: 'bash', arguments: {}, execId: `e${callId}` }) // prettier-ignore
            for (const callId of own.slice(0, one.answered)) drafts.push({ type: 'tool-result', callId, outcome: 'ok', text: '' }) // prettier-ignore
            if (one.answered >= one.count) break
            drafts.push(turnError('shutting_down'))
            step = 0
            break
          }
          case 'cut':
            drafts.push({ type: 'retry', step, attempt: 1, fault: cut, action: 'retry', delayMs: 0, nextAt: '2026-11-15T12:00:00.000Z', max: 6, told: { tool: 'write', text: 'Not run.' } }) // prettier-ignore
            drafts.push(turnError('shutting_down'))
            step = 0
            break
          case 'partial':
          case 'error':
            if (one.kind === 'partial') said(one.text)
            drafts.push(turnError('model_overloaded'))
            step = 0
            break
          case 'says':
            said(one.text)
            drafts.push({ type: 'turn-end', text: one.text, usage: NO_USAGE, steps: step, faultsSurvived: 0 })
            step = 0
        }
      }
      let fold = EMPTY_FOLD
      for (const event of eventsOf(drafts)) {
        fold = reduce(fold, event)
        check(fold, `${event.seq} ${event.type}`)
      }
    }),
    { numRuns: 300 },
  )
})
