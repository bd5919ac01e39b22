/** `breakfall demo`: everything that its buttons break heals, and nothing is left of it afterwards. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { DaemonClient } from '@breakfall/client'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { isolation, Place } from '../breakfall.ts'

test(
  'every button of the demo breaks something, the turn survives it, and Ctrl-C leaves nothing behind',
  LIMIT,
  async () => {
    await using place = new Place()
    const demo = place.start(['demo', '--json', '--print', ...isolation], { TMPDIR: place.home })
    const url = String((await demo.listening())['url'])
    const opened = await demo.seen(({ event }) => event === 'console')
    const [, ticket = ''] = /#ticket=([\w-]+)&to=%2Fdemo$/.exec(String(opened['url'])) ?? []
    const post = async (path: string, body: object, token = '', method = 'POST') => {
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` }
      const response = await fetch(url + path, { method, headers, body: JSON.stringify(body) })
      return { status: response.status, json: (await response.json()) as Record<string, unknown> }
    }
    const [scratch = ''] = readdirSync(place.home).filter((name) => name.startsWith('breakfall-demo-'))
    const again = await place.run(['open', '--print', '--state-dir', join(place.home, scratch, 'state')])
    assert.match(again.lines.join('\n'), /^http:\S+&to=%2Fdemo$/, 'the address alone; a demo is opened at its own page')
    const token = String((await post('/v1/console/tokens', { ticket })).json['token'])
    const client = new DaemonClient({ url, token })
    const session = await client.createSession({ title: 'demo' })
    assert.equal((await post('/v1/chaos/next', { fault: 'reset:4' }, token)).status, 202)
    const runnerUrl = async () => {
      const response = await fetch(`${url}/v1/system`, { headers: { authorization: `Bearer ${token}` } })
      return ((await response.json()) as { runner: { url?: string } }).runner.url
    }
    const firstUrl = await runnerUrl()
    const { turnId, seq } = await client.prompt(session.id, 'Write 50 lines, one per step, each exactly once.')
    const seen: string[] = []
    const acts = ['daemon', 'runner', 'move-runner']
    let results = 0
    for await (const event of client.events(session.id, { after: seq - 1 })) {
      if (event.type === 'retry') seen.push(event.action)
      if (event.type === 'taken-over') seen.push(event.type)
      if (event.type === 'tool-result' && ++results % 3 === 0 && acts.length > 0)
        assert.equal((await post('/v1/chaos/kill', { what: acts.shift() }, token)).status, 202)
      if (event.type === 'turn-error') assert.fail(event.error)
      if (results >= 12 && acts.length === 0) break
    }
    assert.ok(seen.includes('retry') && seen.includes('taken-over'), seen.join())
    assert.ok(firstUrl !== undefined && (await runnerUrl()) !== firstUrl, 'the runner was found where it moved to')
    const bad = await post('/v1/chaos/plan', { plan: 'rate=often' }, token, 'PUT')
    assert.deepEqual([bad.status, bad.json['category']], [400, 'invalid_request'])
    const { json } = await post('/v1/chaos/plan', { plan: 'seed=7,rate=0.5,faults=status:503' }, token, 'PUT')
    assert.ok(Array.isArray(json['injections']) && json['injections'].length > 0)
    assert.equal((await client.turn(turnId)).endedAt, null, 'it is still at work when the demo ends')
    const ended = await demo.kill('SIGTERM') // however long that takes on a busy machine
    assert.equal(ended.code, 0, ended.stderr)
    await eventually('nothing is left', () => place.leftovers().length === 0)
  },
)
