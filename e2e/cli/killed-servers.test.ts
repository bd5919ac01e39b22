/** kill -9 of the daemon, the runner or both during a run: the run continues, and nothing happens twice. */
import type { Program } from '../../test/kit/program.ts'
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { checked, Desk, endedWith, gone, ofType, whole } from './desk.ts'
import type { Play } from '../../test/kit/plays.ts'
import { ask, bash, byProgress, say, sayWhen } from '../answers.ts'
import { isolation } from '../breakfall.ts'
import { isHistory } from '../daemon/shapes.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

const STEPS = 9
const step = (n: number): string => `echo begin ${n} >> ledger; sleep 0.3; echo end ${n} >> ledger; echo did ${n}`
const script: readonly Play[] = byProgress([
  ...Array.from({ length: STEPS }, (_, i) => ask([bash(step(i + 1))], `Step ${i + 1}. `)),
  say('All ', 'of it ', 'is done.'),
])
const LEDGER = Array.from({ length: STEPS }, (_, i) => [`begin ${i + 1}`, `end ${i + 1}`]).flat()

/** Points at which something is killed: after a line of the given kind for the given step. */
type Point = { readonly type: 'tool-call' | 'tool-output' | 'tool-result'; readonly nth: number }
const POINTS: readonly Point[] = [
  { type: 'tool-call', nth: 3 },
  { type: 'tool-output', nth: 5 },
  { type: 'tool-result', nth: 7 },
]

async function reached(running: Program, { type, nth }: Point): Promise<void> {
  let seen = 0
  const lines = new Set<unknown>()
  await running.seen((line) => {
    if (line['type'] !== type || lines.has(line['seq'])) return false
    lines.add(line['seq'])
    return ++seen === nth
  })
}

async function finishes(desk: Desk, running: Program): Promise<void> {
  const run = checked(await whole(running))
  endedWith(run, 0, 'finished')
  isHistory(run.events)
  assert.equal(run.result.text, 'All of it is done.')
  const results = ofType(run, 'tool-result')
  assert.deepEqual(
    results.filter(({ outcome }) => outcome !== 'ok'),
    [],
    'every call is ok',
  )
  assert.deepEqual(desk.lines('ledger'), LEDGER, 'each effect once, in order')
  assert.equal(results.length, STEPS)
  for (const [i, result] of results.entries()) assert.match(result['text'], new RegExp(`did ${i + 1}\\b`))
}

test('a run names the processes of its daemon and its runner', LIMIT, async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  await using desk = await Desk.start(byProgress([ask([bash('echo x')]), sayWhen(promise, 'wait ', 'done')]))
  const running = desk.start(['run', 'go', ...isolation])
  await eventually('the runner', () => /^runner: pid \d+$/m.test(running.stderr))
  assert.match(running.stderr, new RegExp(`^runner: pid ${desk.runnerPid()}$`, 'm'))
  assert.match(running.stderr, new RegExp(`^daemon: pid ${desk.daemon().pid}, for this run$`, 'm'))
  resolve()
  assert.equal((await running.ended).code, 0)
})

describe('kill -9 during a run', { ...LIMIT, concurrency: 2 }, () => {
  test('of its daemon and its runner at once, at several points: each effect once, in order', async () => {
    await using desk = await Desk.start(script)
    const running = desk.begin()
    for (const point of POINTS) {
      await reached(running, point)
      const pids = [desk.daemon().pid, desk.runnerPid()]
      for (const pid of pids) process.kill(pid, 'SIGKILL')
    }
    await finishes(desk, running)
    assert.deepEqual(desk.place.leftovers(), [])
  })

  test('of the run itself: the turn still ends or is resumed, and nothing runs twice', async () => {
    await using desk = await Desk.start(script)
    const running = desk.begin()
    await reached(running, { type: 'tool-call', nth: 3 })
    const { pid } = desk.daemon()
    running.child.kill('SIGKILL')
    await running.ended
    await gone(pid) // it finishes its work, then exits
    assert.deepEqual(desk.lines('ledger'), LEDGER)
    await eventually('nothing is left behind', () => desk.place.leftovers().length === 0)
    assert.equal(desk.model.received('any').length, STEPS + 1)
  })
})
