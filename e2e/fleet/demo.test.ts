/** `breakfall fleet` without a person: acceptance case 48. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMIT } from '../../test/kit/wait.ts'
import { hasSandbox, Place } from '../breakfall.ts'
import { shared } from '../shared.ts'

const place = await shared(Promise.resolve(new Place()))
const level = hasSandbox ? [] : ['--isolation', 'process']

test(
  '48: a scripted fleet loses a daemon, a runner and its database, and its checker finds nothing wrong',
  LIMIT,
  async () => {
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
      ['event', 'outcome', 'turns', 'finished', 'effects', 'exact', 'gaps', 'differing'].map((field) => result[field]),
      ['result', 'finished', 4, 4, 32, 4, 0, 0],
    )
    assert.deepEqual(
      json.filter(({ event }) => event === 'action').map(({ action }) => action),
      ['kill daemon 1', 'move runner 2', 'restart-database', 'stop daemon 3', 'stop daemon 3'],
    )
    assert.deepEqual(place.leftovers(), [])
  },
)

test('a script with a wrong word starts nothing', LIMIT, async () => {
  const { code, stderr } = await place.run(['fleet', '--script', 'k1 k9', ...level])
  assert.equal(code, 2)
  assert.match(stderr, /"k9" is not an action/)
})
