/** `up`, `runner` and `gateway`: the line with their address, what they leave behind, and how they restart. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { Desk, endedWith, modeOf, serverIsolation } from './desk.ts'
import { call, type Json } from '../daemon/client.ts'
import { refuse, say } from '../answers.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

const LOOPBACK = /^http:\/\/127\.0\.0\.1:[1-9]\d*$/

describe('up --port 0 --json', { ...LIMIT, concurrency: 2 }, () => {
  test('prints one line with its address, and runs use it from then on', async () => {
    await using desk = await Desk.start([say('from the daemon')])
    const up = desk.start(['up', '--port', '0', '--json', ...serverIsolation])
    const line = (await up.seen(({ event }) => event === 'listening')) as Json
    assert.match(line.url, LOOPBACK)
    assert.match(line.runner.url, LOOPBACK)
    assert.equal(typeof line.runner.runnerId, 'string')
    assert.equal(modeOf(line.tokenFile), '600')
    assert.ok(existsSync(`/proc/${line.pid}`))
    assert.equal((await call(line.url, 'GET', '/v1/sessions')).status, 401, 'nothing without the token')
    const run = await desk.run()
    endedWith(run, 0, 'finished')
    const token = readFileSync(line.tokenFile, 'utf8').trim().split(/\s/)[0] ?? ''
    const { json } = await call(line.url, 'GET', '/v1/sessions', { token })
    assert.deepEqual(
      json.sessions.map(({ id }: Json) => id),
      [run.events[0]?.sessionId],
    )
    assert.equal(existsSync(`/proc/${line.pid}`), true, 'a run does not end a daemon that it did not start')
    process.kill(line.pid, 'SIGTERM')
    const ended = await up.ended
    assert.equal(ended.code, 0, ended.stderr)
    assert.equal(ended.lines.length, ended.json.length, 'nothing but JSON on stdout')
  })

  test('its policy flags become the policy of its sessions', async () => {
    await using desk = await Desk.start(Array.from({ length: 9 }, () => refuse(500, { message: 'broken' })))
    const flags = ['--attempts-max', '2', '--park', 'never', '--backoff-ms', '1']
    const up = desk.start(['up', '--port', '0', '--json', ...serverIsolation, ...flags])
    const line = (await up.seen(({ event }) => event === 'listening')) as Json
    const token = readFileSync(line.tokenFile, 'utf8').trim().split(/\s/)[0] ?? ''
    const { id } = (await call(line.url, 'POST', '/v1/sessions', { token, body: {} })).json
    const { turnId } = (await call(line.url, 'POST', `/v1/sessions/${id}/turns`, { token, body: { prompt: 'go' } }))
      .json
    const turn = async (): Promise<Json> => (await call(line.url, 'GET', `/v1/turns/${turnId}`, { token })).json
    await eventually('the turn has failed', async () => (await turn()).state === 'failed')
    assert.equal(desk.model.received('any').length, 2)
  })

  test('an address other than loopback and a taken port get a clear message', async () => {
    await using desk = await Desk.start()
    const { port } = new URL(desk.model.url)
    const taken = await desk.command(['up', '--port', port, '--json', ...serverIsolation])
    assert.ok(taken.code !== 0 && taken.code !== null)
    assert.match(taken.stderr, new RegExp(port))
    assert.doesNotMatch(taken.stderr, /^\s+at /m)
  })
})

describe('runner --port 0 --json', { ...LIMIT, concurrency: 2 }, () => {
  test('prints its address, creates its token file with mode 0600, and keeps its identity across restarts', async () => {
    await using desk = await Desk.start()
    const tokenFile = join(desk.place.home, 'secrets', 'token')
    const stateDir = join(desk.place.home, 'runner state')
    const args = ['runner', '--port', '0', '--json', '--token-file', tokenFile, '--state-dir', stateDir]
    const ids: Json[] = []
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      const runner = desk.start([...args, ...serverIsolation])
      const line = (await runner.seen(({ event }) => event === 'listening')) as Json
      assert.match(line.url, LOOPBACK)
      assert.ok(['bwrap', 'process'].includes(line.isolation.level))
      assert.equal(modeOf(tokenFile), '600')
      const health = await call(line.url, 'GET', '/v1/health')
      assert.equal(health.json.runnerId, line.runnerId)
      assert.equal(health.json.bootId, line.bootId)
      assert.equal((await call(line.url, 'GET', '/v1/default/boxes')).status, 401)
      const token = readFileSync(tokenFile, 'utf8').trim().split(/\s/)[0] ?? ''
      assert.equal((await call(line.url, 'GET', '/v1/default/boxes', { token })).status, 200)
      ids.push(line)
      process.kill(line.pid, signal)
      const ended = await runner.ended
      if (signal === 'SIGTERM') assert.equal(ended.code, 0, ended.stderr)
    }
    assert.equal(ids[0].runnerId, ids[1].runnerId)
    assert.notEqual(ids[0].bootId, ids[1].bootId)
  })

  test('a token file that others can read is refused', async () => {
    await using desk = await Desk.start()
    const tokenFile = desk.write('token', 'T'.repeat(43), 0o644)
    const stateDir = join(desk.place.home, 'runner state')
    const ended = await desk.command([
      'runner',
      '--port',
      '0',
      '--json',
      '--token-file',
      tokenFile,
      '--state-dir',
      stateDir,
    ])
    assert.ok(ended.code !== 0 && ended.code !== null)
    assert.match(ended.stderr, /token/)
    assert.match(ended.stderr, /600|644|others/)
  })
})

describe('gateway --json', { ...LIMIT, concurrency: 2 }, () => {
  const chat = { model: 'any', stream: true, messages: [{ role: 'user', content: 'go' }] }
  const text = (body: string): string =>
    [...body.matchAll(/^data: (\{.*)$/gm)]
      .map(([, json]) => JSON.parse(json ?? '') as Json)
      .map((frame) => frame.choices?.[0]?.delta?.content ?? '')
      .join('')

  test('can take its upstream from the config', async () => {
    await using desk = await Desk.start([say('configured')])
    desk.config(`[gateway]\nupstream = "${desk.model.url}"\nhold = "answer"\n`)
    const running = desk.start(['gateway', '--port', '0', '--json'], { bare: true })
    const line = (await running.seen(({ event }) => event === 'listening')) as Json
    const reply = await call(line.url, 'POST', '/v1/chat/completions', { body: chat })
    assert.equal(text(reply.text), 'configured')
    running.child.kill('SIGTERM')
    assert.equal((await running.ended).code, 0)
  })
})
