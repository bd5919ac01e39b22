/** `streamAnswer` and the relay drive one machine: against the same server they make the same attempts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { AttemptRecord } from '../src/index.ts'
import { answer, role, text } from '../../../test/kit/openai-frames.ts'
import { fin, head, json, type Play, reset } from '../../../test/kit/plays.ts'
import { play } from './play.ts'
import { relayed } from './relayed.ts'

const SEED = Number(process.env['SEED'] ?? 20_261_116)
const WHOLE = 'Hello my world'

/** Ways to fail. After each of them another attempt can repeat what was sent. */
const FAILURES: Readonly<Record<string, Play>> = {
  'reset before headers': [reset],
  'closed before headers': [fin],
  overloaded: json(503, {}),
  'rate limited': json(429, {}),
  'broken after two words': [head(), role, text('Hello my '), reset],
  'broken after a word': [head(), role, text('Hello'), fin],
  'wrong request': json(400, { error: { message: 'no' } }),
}

const attempted = (ledger: readonly AttemptRecord[]): unknown =>
  ledger.map(({ attempt, fault, action, delayMs }) => ({
    attempt,
    category: fault?.category,
    max: fault?.retry?.max,
    action,
    delayMs,
  }))

for (const [how, hold] of [
  ['before anything was sent', 'answer'],
  ['after text was sent', 'none'],
] as const) {
  test(`the relay and streamAnswer make the same attempts, ${how}`, async (t) => {
    t.diagnostic(`SEED=${SEED}`)
    const names = fc.array(fc.constantFrom(...Object.keys(FAILURES)), { maxLength: 7 })
    await fc.assert(
      fc.asyncProperty(names, async (list) => {
        const script = [...list.map((name) => FAILURES[name] ?? []), answer(WHOLE)]
        const options = { policy: { attemptsMax: 5, backoffMs: 2 }, dice: () => 0.5 }
        const library = await play(script, {}, options)
        const relay = await relayed(script, { ...options, hold })
        const ledger = (library.done ?? library.fault)?.ledger ?? []
        assert.deepEqual(attempted(relay.outcome.ledger), attempted(ledger))
        assert.equal(relay.requests.length, library.requests.length)
        if (library.done !== undefined) assert.deepEqual([library.text, relay.text], [WHOLE, WHOLE])
      }),
      { numRuns: 40, seed: SEED },
    )
  })
}
