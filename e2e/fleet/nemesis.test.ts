/** Scripted and random failures of a whole fleet. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { LIMIT } from '../../test/kit/wait.ts'
import { hasSandbox, Place } from '../breakfall.ts'
import { isKept } from './nemesis/check.ts'
import { Member } from './nemesis/member.ts'
import { play, randomScript } from './nemesis/play.ts'

const isolation = hasSandbox ? 'bwrap' : 'process'

/** This seed has every kind of failure. For as long as you like: `npm run fleet -- --actions 100`. */
const SEED = 1219
const ACTIONS = 8
const TURNS = 3
const STEPS = 8

// They mostly wait for leases.
describe('side by side', { concurrency: true }, () => {
  test(
    'a scripted fleet loses a daemon, a runner and its database, and its checker finds nothing wrong',
    LIMIT,
    async () => {
      const actions: string[] = []
      const checked = await play('k1 m2 p s3 s3', {
        isolation,
        turns: 4,
        onAction: (action) => void actions.push(action),
      })
      assert.ok(isKept(checked), JSON.stringify(checked))
      assert.deepEqual([checked.turns, checked.finished, checked.effects, checked.exact], [4, 4, 32, 4])
      assert.deepEqual(actions, ['kill 1', 'move 2', 'restart-database', 'stop 3', 'stop 3'])
    },
  )

  test('random failures, also a command that arrives late: the checker finds nothing wrong', LIMIT, async () => {
    const script = randomScript(SEED, ACTIONS)
    const words = script.split(' ')
    const all = TURNS + words.filter((word) => word === 'h' || word === 'n').length
    const checked = await play(script, { isolation, turns: TURNS })
    const { takeovers, events, late, refused, ...result } = checked
    const exact = { turns: all, finished: all, effects: all * STEPS, exact: all, gaps: 0, differing: 0, damaged: 0 }
    assert.deepEqual(result, exact, script)
    if (words[0] === 'h') assert.ok(late > 0, 'a command was held back until after the takeover')
    assert.equal(refused, late, 'the runner refused what came late')
    assert.ok(takeovers >= 1 && events > 0)
  })

  test('stop and continue are a pair, whether or not the daemon was there for both', LIMIT, async () => {
    await using place = new Place()
    const flags = ['--port', '0', '--state-dir', join(place.home, 'runner'), '--idle-exit-ms', '60000']
    const member = new Member('runner 1', async () => {
      const program = place.start(['runner', '--json', ...flags])
      return { program, url: String((await program.listening()).url) }
    })
    try {
      member.stopOrContinue()
      await member.start()
      member.stopOrContinue()
      assert.equal(member.isFrozen, false, 'it was gone at the first')
      member.stopOrContinue()
      assert.equal(member.isFrozen, true)
      await member.kill()
      await member.start()
      member.stopOrContinue()
      assert.equal(member.isFrozen, false, 'it was killed and started again meanwhile')
    } finally {
      await member.stop()
    }
  })
})
