/** What the gateway prints while it works: readable lines in a terminal, JSON everywhere else. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hasTerminals, Place } from '../breakfall.ts'
import { type ModelServer, startModelServer } from '../../test/kit/model-server.ts'
import { json } from '../../test/kit/plays.ts'
import { LIMIT } from '../../test/kit/wait.ts'

test('without a terminal each request is a JSON line on stderr, and stdout keeps its contract', LIMIT, async () => {
  await using place = new Place()
  await using upstream = await upstreamThatFailsOnce()
  const gateway = place.start(['gateway', '--upstream', upstream.url, '--port', '0', '--json', '--backoff-ms', '1'])
  const { url } = await gateway.seen((line) => line['event'] === 'listening')
  assert.match(await ask(String(url)), /"hello"/)
  gateway.child.kill('SIGINT')
  const { code, json, stderr } = await gateway.ended
  assert.equal(code, 0)
  assert.deepEqual(
    json.map((line) => line['event']),
    ['listening', 'result'],
  )
  const entry = JSON.parse(stderr.trim().split('\n')[0] ?? '') as Record<string, unknown>
  assert.deepEqual(
    [entry['msg'], entry['attempts'], entry['faults']],
    ['answered after faults', 2, ['model_overloaded']],
  )
})

test(
  'in a terminal each retry and each request is one readable line',
  { ...LIMIT, skip: !hasTerminals && 'no "script" here' },
  async () => {
    await using place = new Place()
    await using upstream = await upstreamThatFailsOnce()
    const gateway = place.startInTerminal(['gateway', '--upstream', upstream.url, '--port', '0', '--backoff-ms', '1'])
    const [, url] = await gateway.shown(/(http:\/\/127\.0\.0\.1:\d+\/v1) {2}→/)
    assert.match(await ask(url ?? ''), /"hello"/)
    await gateway.shown(/⚡ \w{6} {2}model_overloaded: .*; retry/)
    await gateway.shown(
      /✓ \w{6} {2}POST \/v1\/chat\/completions {2}any {2}200 {2}.* 2 attempts {2}survived model_overloaded/,
    )
    gateway.press('\x03')
    assert.equal(await gateway.code, 0)
    await gateway.shown(/1 request, 2 attempts, 1 fault, 1 healed, 0 lost/)
    assert.doesNotMatch(gateway.text(), /"level":/)
  },
)

test('an upstream without a path is served, with a note that most model servers need /v1', LIMIT, async () => {
  await using place = new Place()
  const gateway = place.start(['gateway', '--upstream', 'http://127.0.0.1:9', '--port', '0'])
  await gateway.line((line) => line.includes('stop with Ctrl-C'))
  const { code, stderr } = await gateway.kill('SIGINT')
  assert.equal(code, 0)
  assert.match(stderr, /Most model servers need \/v1 at the end: http:\/\/127\.0\.0\.1:9 has no path/)
})

// ---- details ----

async function ask(url: string): Promise<string> {
  const body = JSON.stringify({ model: 'any', messages: [{ role: 'user', content: 'hi' }] })
  const response = await fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  return response.text()
}

function upstreamThatFailsOnce(): Promise<ModelServer> {
  const overloaded = { message: 'overloaded', type: 'server_error', code: 'server_is_overloaded', param: null }
  const message = { role: 'assistant', content: 'hello' }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  const answer = { id: 'x', object: 'chat.completion', created: 1, model: 'any', choices }
  return startModelServer([json(503, { error: overloaded }), json(200, answer)])
}
