/** The parts of a nemesis of fleets: its words, its dice and its checker. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DaemonClient } from '@breakfall/client'
import { randomSequence } from '@breakfall/chaos/internal'
import type { SessionEvent } from '@breakfall/wire'
import { aSession } from '../../packages/cli/test/samples.ts'
import { httpServer } from '../../test/kit/http-server.ts'
import { check, checkedLine, isKept } from './nemesis/check.ts'
import { lateCommand, StartHold } from './nemesis/late-command.ts'
import { nemesis, parseScript } from './nemesis/script.ts'

test('a script is a list of words, and a wrong one is named before anything starts', () => {
  assert.deepEqual(parseScript(' k1 3s m2  p 250ms'), [
    { do: 'kill', which: 1 },
    { do: 'wait', ms: 3_000 },
    { do: 'move', which: 2 },
    { do: 'restart-database' },
    { do: 'wait', ms: 250 },
  ])
  for (const wrong of ['k4', 'k', 'r3', 'x', 'p1', '3m'])
    assert.throws(() => parseScript(`k1 ${wrong}`), /is not an action/)
  assert.deepEqual(parseScript(''), [])
})

const at = '2026-01-01T00:00:00.000Z'
const envelope = (seq: number) => ({ seq, sessionId: 's', turnId: 't', at })

/** As far as the checker looks at it. */
function turn(text: string): SessionEvent[] {
  const events = [
    { ...envelope(1), type: 'step-start', step: 1, model: 'm' },
    { ...envelope(2), type: 'taken-over', epoch: 2 },
    { ...envelope(3), type: 'text-delta', step: 1, attempt: 1, part: 0, text },
    { ...envelope(4), type: 'turn-error', category: 'cancelled', fault: undefined },
  ]
  return JSON.parse(JSON.stringify(events))
}

const NOTHING = { damaged: 0, late: 0, refused: 0 }

test('the checker counts gaps, differences between daemons and turns that did not run everything once', () => {
  const good = 'All 8 steps ran, each once and in order.'
  const whole = check([[turn(good), turn(good)]], NOTHING)
  assert.deepEqual([whole.exact, whole.takeovers, whole.gaps, whole.differing, whole.events], [1, 1, 0, 0, 4])
  assert.equal(isKept(whole), false, 'the turn did not finish')
  assert.equal(check([[turn('Step 3 is wrong.')]], NOTHING).exact, 0)
  assert.equal(check([[turn(good).filter(({ seq }) => seq !== 2)]], NOTHING).gaps, 2)
  assert.equal(check([[turn(good), turn(good).slice(0, 3)]], NOTHING).differing, 1)
  assert.match(checkedLine(whole), /^0 of 1 turns finished · 1 takeovers/)
  const kept = { ...whole, finished: 1 }
  assert.equal(isKept(kept), true)
  for (const broken of [{ damaged: 1 }, { late: 2, refused: 1 }, { gaps: 1 }, { differing: 1 }, { exact: 0 }])
    assert.equal(isKept({ ...kept, ...broken }), false, JSON.stringify(broken))
  assert.match(checkedLine({ ...kept, late: 2, refused: 1 }), /1 of 2 late commands refused/)
})

test('random actions are bounded, the same for the same dice, and leave two daemons that can take over', () => {
  const diceOf = (seed: number) => randomSequence('test', seed)
  assert.equal(nemesis(diceOf(1), 50), nemesis(diceOf(1), 50))
  assert.notEqual(nemesis(diceOf(1), 50), nemesis(diceOf(2), 50))
  for (let seed = 1; seed <= 20; seed += 1) {
    const actions = parseScript(nemesis(diceOf(seed), 50))
    const acts = actions.filter((action) => action.do !== 'wait')
    assert.ok(acts.length === 50 || acts.length === 51)
    const away = new Set<string>()
    for (const action of acts) {
      if (action.do !== 'stop' && action.do !== 'cut') continue
      const what = `${action.do} ${action.which}`
      if (!away.delete(what)) away.add(what)
      assert.ok(away.size <= 1)
    }
    assert.equal(away.size, 0)
  }
})

test('a command is not held back from a daemon that no other could replace: it is delivered at once', async (t) => {
  const session = aSession({ owner: { name: 'daemon 1', since: at } })
  await using server = await httpServer((_, res) =>
    res.setHeader('content-type', 'application/json').end(JSON.stringify(session)),
  )
  const hold = new StartHold()
  const done: string[] = []
  const late = lateCommand({
    client: new DaemonClient({ url: server.url, token: 't' }),
    hold,
    isAlone: (name) => name === 'daemon 1',
    cut: (name) => Promise.reject(new Error(`cut ${done.push(name)}`)),
    signal: t.signal,
  })
  const start = { method: 'POST', path: '/v1/boxes/s/exec', body: '' }
  assert.ok(hold.wants(start) && !hold.wants({ ...start, path: '/v1/boxes/s/exec/e' }))
  hold.take({ ...start, release: () => Promise.resolve(done.push('delivered')) })
  assert.ok(!hold.wants(start), 'it takes one')
  assert.equal(await late, undefined)
  assert.deepEqual(done, ['delivered'])
})
