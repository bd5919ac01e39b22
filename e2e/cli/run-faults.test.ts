/** Whole runs with faults: fifty steps behind a seeded fault proxy, and against a server that misbehaves at random. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { diceOf } from '../../test/kit/dice.ts'
import { head, lastChunk, type Play, reset, stream } from '../../test/kit/plays.ts'
import { Desk, endedWith, ofType } from './desk.ts'
import type { Json } from '../daemon/client.ts'
import { assembled } from '../daemon/rig.ts'
import {
  ask,
  bash,
  type Call,
  cutAfter,
  cutInTool,
  endUnproven,
  inBandError,
  refuse,
  say,
  stallAfter,
} from '../answers.ts'
import { isHistory } from '../daemon/shapes.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const STEPS = 50
const CLOCKS = ['--liveness-ms', '700', '--progress-ms', '1500', '--headers-ms', '3000', '--failures-max', '200']

describe('a run of fifty steps', { ...LIMIT, concurrency: 2 }, () => {
  for (const seed of [7, 1108])
    test(`behind breakfall chaos at 20 % (seed ${seed}) ends with exactly the right result`, async () => {
      await using desk = await Desk.start()
      const plan = `seed=${seed},rate=0.2`
      const chaos = desk.start(['chaos', '--rehearsal', '--port', '0', '--json', '--plan', plan], { bare: true })
      const { url } = (await chaos.seen(({ event }) => event === 'listening')) as Json
      const args = ['--base-url', url, '--model', `rehearsal/steps-${STEPS}`, ...CLOCKS, 'go']
      const run = await desk.run(args, { bare: true })
      endedWith(run, 0, 'finished')
      isHistory(run.events)
      assert.match(run.result.text, new RegExp(`^All ${STEPS} steps ran, each once and in order`))
      assert.equal(desk.lines('steps.log').length, STEPS)
      assert.equal(new Set(desk.lines('steps.log')).size, STEPS)
      chaos.child.kill('SIGTERM')
      const summary = (await chaos.ended).json.at(-1) as Json
      assert.equal(summary.event, 'result')
      assert.ok(summary.injected >= 5, JSON.stringify(summary))
      assert.equal(run.result.faultsSurvived, summary.injected, 'each one is counted')
    })

  test('against a server that misbehaves at random ends with exactly the right result', async () => {
    const seed = 20_261_115
    await using desk = await Desk.start(Array(400).fill(misbehaving(diceOf(seed))))
    const run = await desk.run([...CLOCKS, 'go'])
    endedWith(run, 0, 'finished')
    isHistory(run.events)
    const expected = Array.from({ length: STEPS }, (_, i) => `step ${i + 1}`)
    assert.deepEqual(desk.lines('ledger'), expected, `each effect once, in order (seed ${seed})`)
    assert.equal(run.result.text, 'All fifty are done.')
    const texts = [...assembled(run.events, run.result.turnId as string).values()]
    assert.deepEqual(texts, [...expected.map((step) => `Now ${step}. `), 'All fifty are done.'])
    assert.equal(ofType(run, 'tool-result').length, STEPS)
    assert.ok(ofType(run, 'tool-result').every((event) => event['outcome'] === 'ok'))
    const more = desk.model.received('any').length - STEPS - 1
    assert.ok(more >= 5, `${more} requests more than answers`)
    assert.equal(run.result.faultsSurvived, more, 'each one is counted')
  })
})

// ---- a server that misbehaves at random ----

/** The right answer for the steps done so far or, one time in five, a failure. */
function misbehaving(roll: () => number): Play {
  return ({ messages }) => {
    const done = messages.filter(({ role }) => role === 'tool').length
    const call = bash(`echo step ${done + 1} >> ledger`)
    const text = `Now step ${done + 1}. `
    const right = done < STEPS ? ask([call], text) : say('All fifty ', 'are done.')
    const troubles = roll() < 0.2 ? trouble(text, call) : []
    return troubles[Math.floor(roll() * troubles.length)] ?? right
  }
}

const trouble = (text: string, call: Call): readonly Play[] => [
  refuse(500, { message: 'internal error' }),
  refuse(503, { message: 'overloaded' }),
  refuse(429, { message: 'slow down' }, { 'retry-after-ms': '20' }),
  refuse(529, { message: 'overloaded', type: 'overloaded_error' }),
  cutAfter(text.slice(0, 5)),
  cutAfter(text, 'and more that is void'),
  cutInTool(call),
  endUnproven(text),
  inBandError({ message: 'The server had an error', type: 'server_error' }, text),
  stallAfter(text),
  reset,
  [head(200, { 'content-type': 'text/html' }), '<html>502 Bad Gateway</html>', lastChunk],
  stream('data: {"choices":[{"del\n\n'),
  stream('data: [DONE]\n\n'),
]
