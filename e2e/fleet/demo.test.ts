/** `breakfall fleet` without a person: acceptance cases 47 and 48. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { Member } from '../../packages/cli/src/fleet/member.ts'
import { LIMIT } from '../../test/kit/wait.ts'
import { hasSandbox, Place } from '../breakfall.ts'

const level = hasSandbox ? [] : ['--isolation', 'process']

/**
 * This seed has every kind of failure. The whole of case 47: FLEET_SEEDS=3,7,11 FLEET_ACTIONS=25 node --test e2e/fleet/demo.test.ts
 */
const { FLEET_SEEDS = '1219', FLEET_ACTIONS = '8' } = process.env
const TURNS = 3
const STEPS = 8

// They mostly wait for leases.
describe('side by side', { concurrency: true }, () => {
  test(
    '48: a scripted fleet loses a daemon, a runner and its database, and its checker finds nothing wrong',
    LIMIT,
    async () => {
      await using place = new Place()
      const { code, json, stderr } = await place.run([
        'fleet',
        '--json',
        '--turns',
        '4',
        '--script',
        'k1 m2 p s3 s3',
        ...level,
      ])
      assert.equal(code, 0, stderr)
      const result = json.at(-1) ?? {}
      assert.deepEqual(
        ['event', 'outcome', 'turns', 'finished', 'effects', 'exact', 'gaps', 'differing'].map(
          (field) => result[field],
        ),
        ['result', 'finished', 4, 4, 32, 4, 0, 0],
      )
      assert.deepEqual(
        json.filter(({ event }) => event === 'action').map(({ action }) => action),
        ['kill daemon 1', 'move runner 2', 'restart-database', 'stop daemon 3', 'stop daemon 3'],
      )
      assert.deepEqual(place.leftovers(), [])
    },
  )

  for (const seed of FLEET_SEEDS.split(','))
    test(
      `47: random failures (seed ${seed}), also a command that arrives late: the checker finds nothing wrong`,
      LIMIT,
      async () => {
        await using place = new Place()
        const flags = ['--seed', seed, '--actions', FLEET_ACTIONS, '--turns', String(TURNS)]
        const { code, json, stderr } = await place.run(['fleet', '--json', ...flags, ...level])
        const { script } = json.find(({ event }) => event === 'seed') ?? {}
        const words = String(script).split(' ')
        const all = TURNS + words.filter((word) => word === 'h' || word === 'n').length
        const { takeovers, events, late, refused, ...result } = json.at(-1) ?? {}
        assert.equal(code, 0, `${String(script)}: ${JSON.stringify(json.at(-1))} ${stderr}`)
        const exact = { turns: all, finished: all, effects: all * STEPS, exact: all, gaps: 0, differing: 0, damaged: 0 }
        assert.deepEqual(result, { event: 'result', outcome: 'finished', ...exact })
        if (words[0] === 'h') assert.ok(Number(late) > 0, 'a command was held back until after the takeover')
        assert.equal(refused, late, 'the runner refused what came late')
        assert.ok(Number(takeovers) >= 1 && Number(events) > 0)
        assert.deepEqual(place.leftovers(), [])
      },
    )

  test('stop and continue are a pair, whether or not the daemon was there for both', LIMIT, async () => {
    await using place = new Place()
    const args = [
      'runner',
      '--json',
      '--port',
      '0',
      '--state-dir',
      join(place.home, 'runner'),
      '--idle-exit-ms',
      '60000',
    ]
    const member = new Member('runner 1', () => args, { PATH: process.env['PATH'], HOME: place.home })
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

  test(
    'Ctrl-C at the terminal ends the fleet as q does: its daemons and its database stay until the turns have ended',
    LIMIT,
    async () => {
      await using place = new Place({}, undefined, { ownGroup: true })
      const fleet = place.start(['fleet', '--json', '--turns', '1', '--script', '600s', ...level])
      await fleet.listening()
      process.kill(-fleet.pid, 'SIGINT')
      const { code, json, stderr } = await fleet.ended
      assert.equal(code, 0, stderr)
      const { outcome, finished, gaps } = json.at(-1) ?? {}
      assert.deepEqual([outcome, finished, gaps], ['finished', 1, 0])
      assert.deepEqual(place.leftovers(), [])
    },
  )

  test('a script with a wrong word starts nothing', LIMIT, async () => {
    await using place = new Place()
    const { code, stderr } = await place.run(['fleet', '--script', 'k1 k9', ...level])
    assert.equal(code, 2)
    assert.match(stderr, /"k9" is not an action/)
  })
})
