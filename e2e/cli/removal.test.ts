/** `rm` and `prune`, with a daemon and without, and what they leave alone. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMIT } from '../../test/kit/wait.ts'
import { say } from '../answers.ts'
import { Desk, REFUSING_URL, serverIsolation } from './desk.ts'

test(
  'rm and prune delete sessions that have ended, without a daemon and with one, and name what they cannot',
  LIMIT,
  async () => {
    await using desk = await Desk.start([say('one'), say('two'), say('three')])
    const ids: string[] = []
    for (const prompt of ['one', 'two', 'three']) ids.push((await desk.run([prompt])).result.sessionId)
    const waits = ['wait', '--park-wait-ms', '0', '--patience-ms', '0', '--attempts-max', '1']
    const parked = await desk.run(waits, { env: { BREAKFALL_MODEL_BASE_URL: `${REFUSING_URL}/v1` } })
    assert.equal(parked.result.outcome, 'parked')
    const [first = '', second = '', third = ''] = ids

    const left = async (): Promise<unknown[]> =>
      (await desk.command(['sessions', '--json'])).json.flatMap(({ id }) => (id === undefined ? [] : [id]))
    const refused = await desk.command(['rm', first, parked.result.sessionId])
    assert.equal(refused.code, 1, refused.stderr)
    assert.match(refused.stderr, /1 session before it was deleted.*breakfall rm --force/)
    const again = await desk.command(['rm', second, first])
    assert.equal(again.code, 1)
    assert.match(again.stderr, new RegExp(`No session has the id ${first}; nothing was deleted`))
    const dry = await desk.command(['prune', '--older-than', '0d', '--dry-run', '--json'])
    assert.deepEqual([dry.json.at(-1)?.['sessions'], dry.json.at(-1)?.['dryRun']], [2, true])
    const young = await desk.command(['prune'])
    assert.match(young.lines.join('\n'), /no session to delete/, 'without a flag, only those older than 30 days')

    const daemon = desk.start(['up', '--json', '--port', '0', '--resume', 'none', ...serverIsolation])
    await daemon.listening()
    const kept = await desk.command(['prune', '--keep', '1', '--json'])
    assert.equal(kept.json.at(-1)?.['sessions'], 1, kept.stderr)
    assert.deepEqual(new Set(await left()), new Set([third, parked.result.sessionId]))
    const forced = await desk.command(['rm', '--force', parked.result.sessionId])
    assert.equal(forced.code, 0, forced.stderr)
    assert.deepEqual(await left(), [third])
    await daemon.kill('SIGTERM')
  },
)
