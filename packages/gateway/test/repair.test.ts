/** A gateway in front of a server that refuses broken conversations, and what its operator sees of it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { message } from '../../../test/kit/anthropic-frames.ts'
import { json } from '../../../test/kit/plays.ts'
import { problemsIn } from '../../../test/kit/valid-history.ts'
import { type GatewayLogEntry, startGateway, type WatchNote } from '../src/index.ts'
import { post, stand } from './client.ts'

const OPEN = {
  model: 'm',
  stream: true,
  messages: [
    { role: 'user', content: 'go' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }] },
    { role: 'user', content: 'and now?' },
  ],
}
const INPUT = { model: 'm', input: [{ type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' }, { role: 'user', content: 'go' }] } // prettier-ignore
const told = (words: string): object => ({ type: 'error', error: { type: 'invalid_request_error', message: words } })
const MISSING = told('messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1.')
const NO_OUTPUT = { error: { message: 'No tool output found for function call a.', param: 'input', code: null } }

test('a repair is in the response, the log, the metrics and the live view', async (t) => {
  const entries: GatewayLogEntry[] = []
  const notes: (WatchNote | undefined)[] = []
  const logger = { info: (entry: GatewayLogEntry) => entries.push(entry), warn: () => assert.fail('a warning') }
  const { gateway, model } = await stand(t, [json(400, MISSING), message('Hi'), message('Hi')], { logger })
  gateway.watch.subscribe((note) => notes.push(note))
  const first = await post(`${gateway.url}/messages`, OPEN)
  await first.text()
  const more = [...OPEN.messages, { role: 'assistant', content: 'a' }, { role: 'user', content: 'b' }]
  const second = await post(`${gateway.url}/messages`, { ...OPEN, messages: more })
  await second.text()
  for (const response of [first, second])
    assert.equal(response.headers.get('x-breakfall-repaired'), 'call_without_result; messages.1')
  assert.equal(model.requests.length, 3)
  assert.deepEqual(
    entries.map(({ repairs, attempts }) => [repairs, attempts]),
    [
      [['call_without_result messages.1'], 2],
      [['call_without_result messages.1'], 1],
    ],
  )
  const repaired = notes.flatMap((note) => (note?.kind === 'repaired' ? [note.text] : []))
  assert.deepEqual(repaired, [
    'the conversation, and sent again: call_without_result (messages.1); the agent still has it: rewind or start a new session to end this',
    'the conversation, as in an earlier request: call_without_result (messages.1); the agent still has it: rewind or start a new session to end this',
  ])
  assert.equal(gateway.stats().totals.repaired, 2)
  const metrics = await (await fetch(new URL('/metrics', gateway.url))).text()
  for (const result of ['taken', 'known'])
    assert.ok(metrics.includes(`breakfall_gateway_repairs_total{api="anthropic-messages",cause="call_without_result",result="${result}"} 1`), metrics) // prettier-ignore
})

test('a client or the operator can turn it off', async (t) => {
  const { gateway, model } = await stand(t, [json(400, MISSING)])
  const own = await post(`${gateway.url}/messages`, OPEN, { headers: { 'x-breakfall-repair': 'never' } })
  assert.deepEqual([own.status, await own.json(), model.requests.length], [400, MISSING, 1])
  const other = await stand(t, [json(400, MISSING)], { repair: 'never' })
  assert.equal((await post(`${other.gateway.url}/messages`, OPEN)).status, 400)
  assert.equal((await post(`${other.gateway.url}/messages/count_tokens`, OPEN)).status, 400)
  assert.equal(other.model.requests.length, 2)
  await assert.rejects(startGateway({ upstream: 'http://127.0.0.1:9/v1', repair: 'sometimes' as 'auto' }), /repair/)
})

for (const [path, body, refusal, api] of [
  ['messages/count_tokens?beta=true', OPEN, MISSING, 'anthropic-messages'],
  ['responses/compact', INPUT, NO_OUTPUT, 'openai-responses'],
  ['responses/input_tokens', INPUT, NO_OUTPUT, 'openai-responses'],
] as const)
  test(`/${path} carries the same conversation and is repaired, too`, async (t) => {
    const { gateway, model } = await stand(t, [json(400, refusal), json(200, { tokens: 1 }), json(200, { tokens: 2 })])
    const got = await post(`${gateway.url}/${path}`, body)
    assert.deepEqual([got.status, await got.json()], [200, { tokens: 1 }])
    assert.match(got.headers.get('x-breakfall-repaired') ?? '', /^call_without_result; (?:messages\.1|input\.0)$/)
    assert.deepEqual(problemsIn(api, model.requests[1]?.body ?? {}), [])
    const again = await post(`${gateway.url}/${path}`, body)
    assert.deepEqual([await again.json(), model.requests.length], [{ tokens: 2 }, 3])
    assert.equal(gateway.stats().totals.repaired, 2)
  })

test('where counting is refused for good, the client gets the first refusal, byte for byte', async (t) => {
  const { gateway, model } = await stand(t, [json(400, MISSING), json(400, told('no'))])
  const got = await post(`${gateway.url}/messages/count_tokens`, OPEN)
  assert.deepEqual([got.status, await got.text()], [400, JSON.stringify(MISSING)])
  assert.deepEqual([got.headers.get('x-breakfall-repair'), model.requests.length], ['failed', 2])
  const long = told(`${'x'.repeat(2 * 1024 * 1024)}`)
  const big = await stand(t, [json(400, long)])
  assert.equal(await (await post(`${big.gateway.url}/messages/count_tokens`, OPEN)).text(), JSON.stringify(long))
})

test('a compressed request is repaired, and its repaired form is not compressed', async (t) => {
  const { gateway, model } = await stand(t, [json(400, NO_OUTPUT), json(200, { ok: true }), json(400, MISSING), message('Hi')]) // prettier-ignore
  const send = (path: string, encoding: string, bytes: Uint8Array): Promise<Response> =>
    fetch(`${gateway.url}/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-encoding': encoding },
      body: new Uint8Array(bytes),
    })
  assert.deepEqual(await (await send('responses/compact', 'zstd', zstdCompressSync(JSON.stringify(INPUT)))).json(), { ok: true }) // prettier-ignore
  assert.match(await (await send('messages', 'gzip', gzipSync(JSON.stringify(OPEN)))).text(), /Hi/)
  assert.equal(model.requests.length, 4)
  for (const at of [1, 3]) assert.equal(model.requests[at]?.headers['content-encoding'], undefined)
})
