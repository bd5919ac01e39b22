/** What holds for every sequence of failures: every driver folds the same events into the same state. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, type FaultCategory } from '@breakfall/faults'
import fc from 'fast-check'
import { type Ladder, nextRung, type Rung, rungEvent } from '../src/machine/next-rung.ts'
import { type MachineEvent, reduceAnswer } from '../src/machine/reduce-answer.ts'
import { nextAttempt, nextQuestion, shownText } from '../src/machine/state.ts'
import { fold, LADDER, NOW, START } from './machine-kit.ts'

const CATEGORIES = [
  'model_stream_interrupted',
  'model_overloaded',
  'model_bad_request',
  'tool_call_truncated',
  'model_auth_failed',
] as const satisfies readonly FaultCategory[]

/** One attempt as a server could have made it: what it shows, cut into deltas, and how it fails. */
const attempts = fc.array(
  fc.record({
    deltas: fc.array(
      fc.record({
        kind: fc.constantFrom('text-delta', 'reasoning-delta'),
        said: fc.constantFrom('a ', 'bc', ' d', 'Hello '),
      }),
      { maxLength: 4 },
    ),
    hasDraft: fc.boolean(),
    category: fc.constantFrom(...CATEGORIES),
    diverged: fc.boolean(),
    dice: fc.double({ min: 0, max: 1, noNaN: true }),
  }),
  { minLength: 1, maxLength: 9 },
)
const ladders = fc.record({ canContinue: fc.boolean(), canPark: fc.boolean(), fallbacks: fc.nat(2) })

type Attempts = typeof attempts extends fc.Arbitrary<infer T> ? T : never

/** Plays the attempts through the machine. `together` folds the deltas of a part in one event, as drivers in memory do. */
function played(
  list: Attempts,
  offered: Partial<Ladder>,
  together: boolean,
): { events: MachineEvent[]; rungs: Rung[] } {
  const events: MachineEvent[] = [START]
  const rungs: Rung[] = []
  let state = fold(START)
  const take = (event: MachineEvent): void => {
    events.push(event)
    state = reduceAnswer(state, event)
  }
  for (const { deltas, hasDraft, category, diverged, dice } of list) {
    const attempt = nextAttempt(state)
    const parts = new Map<string, MachineEvent & { text: string }>()
    for (const [index, { kind, said }] of deltas.entries()) {
      const type = kind === 'text-delta' ? 'text-delta' : 'reasoning-delta'
      const part = `${type}-${deltas.findLastIndex((other, at) => at <= index && deltas[at - 1]?.kind !== other.kind)}`
      const delta = { type, attempt, part, text: said } as const
      if (together) parts.set(part, { ...delta, text: (parts.get(part)?.text ?? '') + said })
      else take(delta)
    }
    for (const delta of parts.values()) take(delta)
    if (hasDraft) take({ type: 'tool-draft', attempt, part: 'tool' })
    const fallbacks = Math.max(0, (offered.fallbacks ?? 0) - state.target)
    const rung = nextRung(
      state,
      { attempt, fault: faultAt(category), diverged, contentStarted: deltas.length > 0 || hasDraft },
      { ...LADDER, ...offered, dice, fallbacks },
      NOW,
    )
    rungs.push(rung)
    for (const { attempt: from, part } of rung.discards) take({ type: 'part-discarded', attempt: from, part })
    take(rungEvent(rung, NOW))
    if (rung.action === 'stop') break
    if (rung.action === 'park') take({ type: 'resumed', at: new Date(NOW).toISOString() })
  }
  return { events, rungs }
}

const faultAt = (category: FaultCategory): Fault => new Fault(category, { at: new Date(NOW).toISOString() })

test('however the text is cut into deltas, the rungs, the numbers and the budget are the same', () => {
  fc.assert(
    fc.property(attempts, ladders, (list, offered) => {
      const [fine, coarse] = [played(list, offered, false), played(list, offered, true)]
      assert.deepEqual(coarse.rungs, fine.rungs)
      assert.deepEqual(fold(...coarse.events), fold(...fine.events))
    }),
  )
})

test('folding the events after a cut at any of them gives the same state, so the same next rung', () => {
  fc.assert(
    fc.property(attempts, ladders, fc.nat(60), (list, offered, at) => {
      const { events } = played(list, offered, false)
      const cut = at % events.length
      const before = structuredClone(events.slice(0, cut))
      const restored = fold(...before)
      assert.deepEqual(events.slice(cut).reduce(reduceAnswer, restored), fold(...events))
      const ladder = { ...LADDER, ...offered }
      const same = [restored, fold(...events.slice(0, cut))].map((state) =>
        nextRung(
          state,
          { attempt: nextAttempt(state), fault: faultAt('model_overloaded'), diverged: false, contentStarted: false },
          ladder,
          NOW,
        ),
      )
      assert.deepEqual(same[0], same[1])
    }),
  )
})

test('what is shown after any sequence of failures is empty or kept to be continued; nothing is shown after the end', () => {
  fc.assert(
    fc.property(attempts, ladders, (list, offered) => {
      const { events, rungs } = played(list, offered, true)
      const state = fold(...events)
      const last = rungs.at(-1)
      if (last?.action === 'resume') assert.equal(nextQuestion(state).how, 'continue')
      else assert.equal(shownText(state), '')
      for (const [index, rung] of rungs.entries()) assert.ok(rung.attempt <= rung.max && rung.attempt === index + 1)
    }),
  )
})
