/** A runner that is dead, comes back, has moved, or was replaced by another one. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { type HttpServer, httpServer } from '../../test/kit/http-server.ts'
import { closedPort } from '../../test/kit/tcp-server.ts'
import { call, type Json, present } from './client.ts'
import { isolation, Rig } from './rig.ts'
import { ask, bash, byProgress, say } from '../answers.ts'
import { isFault, isHistory, isProblem, isTurn } from './shapes.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

const hello = byProgress([ask([bash('echo HELLO | tee -a ledger')]), say('done')])
const ledger = (rig: Rig): string => {
  const file = join(rig.place.folder, 'ledger')
  return existsSync(file) ? readFileSync(file, 'utf8') : ''
}

describe('a runner endpoint that refuses connections', { ...LIMIT, concurrency: 3 }, () => {
  test('with parking off ends the turn in a turn-error of its category, over the event stream and the WebSocket', async () => {
    const port = await closedPort()
    await using rig = await Rig.start({ up: false })
    rig.config(`[remote_runner]\nendpoint = "http://127.0.0.1:${port}"\n`)
    await rig.up(['--park', 'never'])
    const { id } = await rig.session(hello, { box: { workspace: rig.place.folder } })
    const socket = await rig.socket()
    await socket.call('subscribe', { sessionId: id, after: 0 })
    const { turnId } = (await socket.call('prompt', { sessionId: id, prompt: 'Use the Bash tool to run: echo HELLO' }))
      .result
    const stream = await rig.events(id)
    const last = await stream.ended(turnId)
    isHistory(stream.events)
    assert.equal(last.type, 'turn-error')
    assert.equal(last['category'], 'runner_unreachable')
    assert.match(last['error'], /^the tool runner is not reachable yet — .*retry in a few seconds\.$/)
    assert.ok(last['errorRaw'].includes(`connect ECONNREFUSED 127.0.0.1:${port}`), last['errorRaw'])
    assert.equal(last['class'], 'transient')
    assert.equal(last['sideEffects'], 'none')
    assert.equal(last['boundary'], 'runner')
    assert.equal(last.turnId, turnId)
    assert.deepEqual(await socket.until(({ type }) => type === 'turn-error'), last)
    const retries = stream.events.filter(({ type }) => type === 'retry')
    assert.ok(retries.length > 0, 'the retries are visible')
    assert.deepEqual(
      retries.map((event) => event['attempt']),
      retries.map((_, i) => i + 1),
    )
    for (const retry of retries) {
      assert.equal(retry['fault'].category, 'runner_unreachable')
      assert.equal(retry['action'], 'resolve')
    }
    assert.equal(ledger(rig), '', 'it never falls back to local execution')
    assert.equal(existsSync(join(rig.stateDir, 'runner', 'runner.json')), false, 'it does not start its own runner')
    isTurn((await rig.call('GET', `/v1/turns/${turnId}`)).json, 'failed')
    assert.equal((await rig.call('GET', `/v1/sessions/${id}`)).json.state, 'idle', 'the session is free')
  })

  test('parks the turn, which resumes automatically when the runner answers', async () => {
    const port = await closedPort()
    await using rig = await Rig.start({ up: false })
    const tokenFile = join(rig.place.home, 'runner.token')
    writeFileSync(tokenFile, 'a-token-for-the-runner\n', { mode: 0o600 })
    await rig.up(['--runner', `http://127.0.0.1:${port}`, '--runner-token-file', tokenFile])
    const { id, model } = await rig.session(hello, { box: { workspace: rig.place.folder } })
    const { turnId, events } = await rig.turn(id)
    const parked = await events.type('parked')
    isFault(parked['fault'], 'runner_unreachable')
    assert.ok(events.events.some(({ type }) => type === 'retry'))
    const turn = (await rig.call('GET', `/v1/turns/${turnId}`)).json
    isTurn(turn, 'parked')
    assert.equal(turn.parked.category, 'runner_unreachable')
    await startRunner(rig, 'runner-a', { port, tokenFile })
    const last = await events.ended(turnId)
    isHistory(events.events)
    assert.equal(last['text'], 'done', JSON.stringify(last))
    assert.notEqual((await events.type('resumed'))['because'], 'person')
    assert.equal(ledger(rig), 'HELLO\n')
    assert.equal(rig.model.received(model).length, 2, 'the model was not asked twice for the same step')
  })

  test('can be cancelled while waiting for the endpoint and while parked', async () => {
    const port = await closedPort()
    await using rig = await Rig.start({ up: false })
    rig.config(`[runner]\nurl = "http://127.0.0.1:${port}"\n`)
    await rig.up()
    for (const [event, policy] of [
      ['retry', { backoffMs: 10_000 }],
      ['parked', { backoffMs: 1 }],
    ] as const) {
      const { id } = await rig.session(hello, { box: { workspace: rig.place.folder }, policy })
      const { turnId, events } = await rig.turn(id)
      await events.type(event)
      const first = await rig.call('POST', `/v1/turns/${turnId}/cancel`, { body: { reason: event } })
      assert.ok([200, 202].includes(first.status), first.text)
      const last = await events.ended(turnId)
      isHistory(events.events)
      assert.equal(last['category'], 'cancelled')
      assert.equal(last['actor'], 'user')
      assert.equal(last['reason'], event)
      const result = events.events.find(({ type }) => type === 'tool-result')
      if (result !== undefined) assert.equal(result['outcome'], 'cancelled')
    }
  })

  test('leaves the daemon healthy but not ready, and a turn without tools needs no runner', async () => {
    const port = await closedPort()
    await using rig = await Rig.start({ up: false })
    rig.config(`[runner]\nurl = "http://127.0.0.1:${port}"\n`)
    await rig.up()
    assert.equal((await rig.call('GET', '/v1/health')).status, 200)
    const { id } = await rig.session([say('no tools needed')])
    assert.equal((await rig.wholeTurn(id)).last['text'], 'no tools needed')
    const ready = await rig.call('GET', '/v1/ready')
    if (ready.status !== 200) isProblem(ready, 503, 'runner_unreachable')
  })
})

describe('a runner that has moved', { ...LIMIT, concurrency: 3 }, () => {
  for (const way of ['resolveUrl', 'resolveCommand', 'config'] as const) {
    test(`is resolved again within the call (${way})`, async () => {
      await using rig = await Rig.start({ up: false })
      const tokenFile = join(rig.place.home, 'runner.token')
      const place = join(rig.place.home, 'where')
      const first = await startRunner(rig, 'runner-a', { tokenFile })
      let url = first.url
      await using resolver = await answering(() => JSON.stringify({ url }))
      const common = `[runner]\ntokenFile = ${JSON.stringify(tokenFile)}\n`
      const configs: Record<typeof way, () => string> = {
        resolveUrl: () => `${common}url = "${first.url}"\nresolveUrl = "${resolver.url}"\n`,
        resolveCommand: () => `${common}url = "${first.url}"\nresolveCommand = ["cat", ${JSON.stringify(place)}]\n`,
        config: () => `${common}url = "${url}"\n`,
      }
      writeFileSync(place, url)
      rig.config(configs[way]())
      await rig.up()
      assert.equal(rig.listening.runner.runnerId, first.runnerId)
      const { id } = await rig.session(
        byProgress([ask([bash('echo one >> ledger')]), ask([bash('echo two >> ledger')]), say('done')]),
        { box: { workspace: rig.place.folder } },
      )
      const warm = await rig.session([ask([bash('true')]), say('warm')], { box: { workspace: rig.place.folder } })
      assert.equal((await rig.wholeTurn(warm.id)).last.type, 'turn-end')
      await first.stop()
      const second = await startRunner(rig, 'runner-a', { tokenFile })
      assert.equal(second.runnerId, first.runnerId)
      assert.notEqual(second.url, first.url)
      url = second.url
      writeFileSync(place, url)
      if (way === 'config') rig.config(configs[way]())
      const { events, last } = await rig.wholeTurn(id)
      isHistory(events)
      assert.equal(last.type, 'turn-end', JSON.stringify(last))
      assert.equal(ledger(rig), 'one\ntwo\n')
      assert.ok(!events.some(({ type }) => type === 'parked'))
    })
  }

  test('while its tool runs: the daemon reattaches to the exec at the new address, and it ran once', async () => {
    await using rig = await Rig.start({ up: false })
    const tokenFile = join(rig.place.home, 'runner.token')
    const first = await startRunner(rig, 'runner-a', { tokenFile })
    let url = first.url
    await using resolver = await answering(() => url)
    rig.config(
      `[runner]\nurl = "${first.url}"\ntokenFile = ${JSON.stringify(tokenFile)}\nresolveUrl = "${resolver.url}"\n`,
    )
    await rig.up()
    const { id } = await rig.session(
      byProgress([ask([bash('echo begin >> ledger; sleep 2; echo end >> ledger; echo finished')]), say('done')]),
      {
        box: { workspace: rig.place.folder },
      },
    )
    const { turnId, events } = await rig.turn(id)
    await eventually('the tool has started', () => ledger(rig) === 'begin\n')
    await first.kill9()
    url = (await startRunner(rig, 'runner-a', { tokenFile })).url
    const last = await events.ended(turnId)
    isHistory(events.events)
    assert.equal(last['text'], 'done')
    const result = present(events.events.find(({ type }) => type === 'tool-result'))
    assert.equal(result['outcome'], 'ok', JSON.stringify(result))
    assert.match(result['text'], /finished/)
    assert.equal(ledger(rig), 'begin\nend\n')
  })

  test('another runner on the old port is never used', async () => {
    await using rig = await Rig.start({ up: false })
    const tokenFile = join(rig.place.home, 'runner.token')
    const first = await startRunner(rig, 'runner-a', { tokenFile })
    rig.config(`[runner]\nurl = "${first.url}"\ntokenFile = ${JSON.stringify(tokenFile)}\n`)
    await rig.up(['--park', 'never'])
    const { id } = await rig.session(
      byProgress([ask([bash('echo one >> ledger')]), ask([bash('echo two >> ledger')]), say('done')]),
      {
        box: { workspace: rig.place.folder },
      },
    )
    const stranger = await rig.session([ask([bash('true')]), say('done'), ask([bash('true')]), say('no')])
    assert.equal((await rig.wholeTurn(stranger.id)).last.type, 'turn-end')
    await first.stop()
    const other = await startRunner(rig, 'runner-b', { port: Number(new URL(first.url).port), tokenFile })
    assert.notEqual(other.runnerId, first.runnerId)
    const { events, last } = await rig.wholeTurn(id)
    isHistory(events)
    assert.equal(last.type, 'turn-error', JSON.stringify(last))
    assert.ok(['runner_unreachable', 'runner_identity_mismatch'].includes(last['category']), last['category'])
    assert.equal(last['sideEffects'], 'none')
    assert.equal(ledger(rig), '')
    const again = await rig.wholeTurn(stranger.id)
    assert.equal(again.last.type, 'turn-error', 'a session with a box on the first runner stays with it')
    const token = present(readFileSync(tokenFile, 'utf8').trim().split(/\s/)[0])
    const boxes = await call(other.url, 'GET', '/v1/default/boxes', { token })
    assert.deepEqual(boxes.json, { boxes: [] }, 'nothing was created there')
  })

  test('a wrong token parks the turn as runner_auth_failed', async () => {
    await using rig = await Rig.start({ up: false })
    const tokenFile = join(rig.place.home, 'runner.token')
    const wrong = join(rig.place.home, 'wrong.token')
    writeFileSync(wrong, 'not-the-right-token\n', { mode: 0o600 })
    const runner = await startRunner(rig, 'runner-a', { tokenFile })
    await rig.up(['--runner', runner.url, '--runner-token-file', wrong])
    const { id } = await rig.session(hello, { box: { workspace: rig.place.folder } })
    const { events } = await rig.turn(id)
    isFault((await events.type('parked'))['fault'], 'runner_auth_failed')
    assert.ok(!JSON.stringify(events.frames).includes('not-the-right-token'))
  })
})

type Runner = { url: string; runnerId: string; stop(): Promise<void>; kill9(): Promise<void> }

async function startRunner(
  rig: Rig,
  state: string,
  { port = 0, tokenFile }: { port?: number; tokenFile: string },
): Promise<Runner> {
  const args = [
    'runner',
    '--port',
    String(port),
    '--json',
    '--token-file',
    tokenFile,
    '--state-dir',
    join(rig.place.home, state),
  ]
  const running = rig.place.start([...args, '--allow-workspace', rig.place.folder, ...isolation])
  const listening = (await running.seen((line) => line['event'] === 'listening')) as Json
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    running.child.kill(signal)
    await running.ended
  }
  return { url: listening.url, runnerId: listening.runnerId, stop: () => end('SIGTERM'), kill9: () => end('SIGKILL') }
}

const answering = (body: () => string): Promise<HttpServer> => httpServer((_req, res) => void res.end(body()))
