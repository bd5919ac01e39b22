/** `up`, `runner` and `gateway`: the line with their address, what they leave behind, and how they restart. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { Desk, endedWith, gone, modeOf, serverIsolation } from './desk.ts'
import { call, type Json } from '../daemon/client.ts'
import { ask, bash, byProgress, cutAfter, cutInTool, refuse, say } from '../answers.ts'
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

  test('continues its work after a restart on the same state folder, with the same runner', async () => {
    await using desk = await Desk.start(
      byProgress([
        ask([bash('echo one >> ledger; sleep 1; echo did')]),
        ask([bash('echo two >> ledger')]),
        say('both'),
      ]),
    )
    const args = ['up', '--port', '0', '--json', '--state-dir', join(desk.place.home, 'own state')]
    const begin = async (): Promise<Json> => {
      const running = desk.start([...args, '--allow-workspace', desk.folder, ...serverIsolation])
      return running.seen(({ event }) => event === 'listening')
    }
    const first = await begin()
    const token = readFileSync(first.tokenFile, 'utf8').trim().split(/\s/)[0] ?? ''
    const body = { box: { workspace: desk.folder } }
    const { id } = (await call(first.url, 'POST', '/v1/sessions', { token, body })).json
    const asked = await call(first.url, 'POST', `/v1/sessions/${id}/turns`, { token, body: { prompt: 'go' } })
    assert.equal(asked.status, 202, asked.text)
    await eventually('the first tool runs', () => desk.lines('ledger').length === 1)
    process.kill(first.pid, 'SIGTERM')
    await gone(first.pid)
    const second = await begin()
    assert.equal(second.runner.runnerId, first.runner.runnerId)
    assert.equal(readFileSync(second.tokenFile, 'utf8').trim().split(/\s/)[0], token, 'clients keep their token')
    const turn = async (): Promise<Json> =>
      (await call(second.url, 'GET', `/v1/turns/${asked.json.turnId}`, { token })).json
    await eventually('the turn is finished', async () => (await turn()).state === 'finished')
    assert.equal((await turn()).result.text, 'both')
    assert.deepEqual(desk.lines('ledger'), ['one', 'two'])
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

  test('listens on an address other than loopback only with --host, and always with a token', async () => {
    await using desk = await Desk.start()
    const stateDir = join(desk.place.home, 'runner state')
    const runner = desk.start(['runner', '--port', '0', '--json', '--state-dir', stateDir, ...serverIsolation])
    const line = (await runner.seen(({ event }) => event === 'listening')) as Json
    assert.equal((await call(line.url, 'GET', '/v1/config')).status, 401)
    const strange = await call(line.url, 'GET', '/v1/health', { headers: { host: 'evil.example' } })
    assert.equal(strange.status, 403)
  })
})

describe('gateway --json', { ...LIMIT, concurrency: 2 }, () => {
  const chat = { model: 'any', stream: true, messages: [{ role: 'user', content: 'go' }] }
  const listening = async (desk: Desk, ...more: string[]): Promise<string> => {
    const args = ['gateway', '--upstream', desk.model.url, '--port', '0', '--json', '--backoff-ms', '1', ...more]
    const line = (await desk.start(args, { bare: true }).seen(({ event }) => event === 'listening')) as Json
    assert.match(line.url, /^http:\/\/127\.0\.0\.1:[1-9]\d*\/v1$/)
    return line.url
  }
  const text = (body: string): string =>
    [...body.matchAll(/^data: (\{.*)$/gm)]
      .map(([, json]) => JSON.parse(json ?? '') as Json)
      .map((frame) => frame.choices?.[0]?.delta?.content ?? '')
      .join('')

  test('recovers from a cut before and after content, and forwards the key', async () => {
    await using desk = await Desk.start([refuse(503, { message: 'busy' }), cutAfter('One, '), say('One, ', 'two.')])
    const url = await listening(desk)
    const headers = { authorization: 'Bearer of-the-agent' }
    const reply = await call(url, 'POST', '/v1/chat/completions', { body: chat, headers })
    assert.equal(reply.status, 200)
    assert.equal(text(reply.text), 'One, two.')
    assert.match(reply.text, /data: \[DONE\]\n\n$/)
    assert.equal(desk.model.received('any').length, 3)
    for (const { headers } of desk.model.received('any')) assert.equal(headers.authorization, 'Bearer of-the-agent')
  })

  test('returns the upstream’s status and body when no attempts are left, and tells SDKs not to retry', async () => {
    await using desk = await Desk.start(
      Array.from({ length: 9 }, () => refuse(503, { message: 'no room' }, { 'x-request-id': 'up-1' })),
    )
    const url = await listening(desk, '--attempts-max', '2')
    const reply = await call(url, 'POST', '/v1/chat/completions', { body: chat })
    assert.equal(reply.status, 503)
    assert.equal(reply.json.error.message, 'no room')
    assert.equal(reply.headers['x-should-retry'], 'false')
    assert.match(String(reply.headers['x-breakfall-category']), /^model_/)
    assert.equal(reply.headers['x-request-id'], 'up-1')
    assert.ok(reply.headers['x-breakfall-request-id'])
    assert.equal(desk.model.received('any').length, 2)
    assert.equal((await call(url, 'GET', '/elsewhere')).status, 404)
  })

  test('holds tools by default and the whole answer on request', async () => {
    const cut = cutInTool(bash('echo a whole command'))
    await using desk = await Desk.start([cut, ask([bash('echo whole')]), cutAfter('Some'), say('Another answer.')])
    const tools = await listening(desk)
    const called = await call(tools, 'POST', '/v1/chat/completions', { body: chat })
    assert.match(called.text, /echo whole/)
    assert.doesNotMatch(called.text, /a whole/, 'nothing of the cut call')
    const whole = await listening(desk, '--hold', 'answer')
    const answered = await call(whole, 'POST', '/v1/chat/completions', { body: chat })
    assert.equal(text(answered.text), 'Another answer.')
  })

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
