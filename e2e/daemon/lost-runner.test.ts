/** A runner that is dead, comes back, has moved, or was replaced by another one. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { type HttpServer, httpServer } from '../../test/kit/http-server.ts'
import { closedPort } from '../../test/kit/tcp-server.ts'
import { type Json, present } from './client.ts'
import { isolation, Rig } from './rig.ts'
import { ask, bash, byProgress, say } from '../answers.ts'
import { isHistory, isProblem, isTurn } from './shapes.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

const hello = byProgress([ask([bash('echo HELLO | tee -a ledger')]), say('done')])
const ledger = (rig: Rig): string => {
  const file = join(rig.place.folder, 'ledger')
  return existsSync(file) ? readFileSync(file, 'utf8') : ''
}

describe('a runner endpoint that refuses connections', { ...LIMIT, concurrency: 2 }, () => {
  test('an unbound runner with parking off ends in a turn-error of its category, over SSE and WebSocket', async () => {
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
