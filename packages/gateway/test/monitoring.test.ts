/** What an operator sees of the gateway: logs, metrics and the live view. */
import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { test } from 'node:test'
import { pino } from 'pino'
import { answer, finish, role, text } from '../../../test/kit/openai-frames.ts'
import { head, json, lastChunk, pause, reset } from '../../../test/kit/plays.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { type GatewayLogEntry, type WatchNote } from '../src/index.ts'
import { CHAT, post, stand } from './client.ts'

test('each request is one line in the log, with its attempts and faults, and without its prompt and key', async (t) => {
  const lines: string[] = []
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString())
      done()
    },
  })
  const { gateway } = await stand(t, [[reset], answer('Hello')], { logger: pino(sink) })
  const res = await post(
    `${gateway.url}/chat/completions`,
    { ...CHAT, messages: [{ role: 'user', content: 'my secret' }] },
    {
      headers: { authorization: 'Bearer sk-key' },
    },
  )
  await res.text()
  await gateway.close()
  assert.equal(lines.length, 1)
  const line = JSON.parse(lines[0] ?? '') as Record<string, unknown>
  assert.equal(line['attempts'], 2)
  assert.deepEqual(line['faults'], ['model_stream_interrupted'])
  assert.equal(line['status'], 200)
  assert.equal(line['requestId'], res.headers.get('x-breakfall-request-id'))
  assert.equal(/my secret|sk-key/.test(lines[0] ?? ''), false)
})

test('metrics count requests, attempts, faults and heals', async (t) => {
  const { gateway } = await stand(t, [[reset], answer('Hello'), json(400, {})])
  await (await post(`${gateway.url}/chat/completions`, CHAT)).text()
  await (await post(`${gateway.url}/chat/completions`, CHAT)).text()
  const text = await (await fetch(new URL('/metrics', gateway.url))).text()
  assert.match(text, /^breakfall_gateway_requests_active 0$/m) // the request for the metrics does not count
  for (const line of [
    'breakfall_gateway_requests_total{api="openai-chat",status="200"} 1',
    'breakfall_gateway_requests_total{api="openai-chat",status="400"} 1',
    'breakfall_gateway_attempts_total{api="openai-chat"} 3',
    'breakfall_gateway_faults_total{category="model_stream_interrupted",after_content="false"} 1',
    'breakfall_gateway_healed_total{how="retry"} 1',
    'breakfall_gateway_lost_total{category="model_bad_request"} 1',
  ])
    assert.ok(text.includes(line), `${line} in\n${text}`)
})

test('a key in the URL of an upstream is in no log, metric or live view', async (t) => {
  const model = await startModelServer([[head(), role, text('Hello'), pause(50), finish('stop'), lastChunk]])
  t.after(() => model.close())
  const url = new URL(model.url)
  Object.assign(url, { username: 'me', password: 'upstream-password', search: '?key=upstream-key&v=2' })
  const entries: GatewayLogEntry[] = []
  const log = (entry: GatewayLogEntry): void => void entries.push(entry)
  const { gateway } = await stand(t, [], { upstream: url.href, logger: { info: log, warn: log } })
  const seen: string[] = []
  gateway.watch.subscribe(() => seen.push(JSON.stringify(gateway.stats())))
  await (await post(`${gateway.url}/chat/completions`, CHAT)).text()
  seen.push(JSON.stringify(entries), await (await fetch(new URL('/metrics', gateway.url))).text())
  assert.equal(model.requests[0]?.path, '/v1/chat/completions?key=upstream-key&v=2')
  assert.match(entries[0]?.upstream ?? '', /\/v1\?key=\[redacted\]&v=2$/)
  for (const text of seen) assert.doesNotMatch(text, /upstream-(?:key|password)/)
})

test('a watcher sees live streams, faults and recoveries', async (t) => {
  const looked = Promise.withResolvers<void>()
  const waits = (): Promise<void> => looked.promise
  const { gateway } = await stand(t, [[reset], [head(), role, text('Hello'), waits, finish('stop'), lastChunk]])
  const notes: WatchNote[] = []
  gateway.watch.subscribe((note) => {
    if (note !== undefined) notes.push(note)
  })
  const res = await post(`${gateway.url}/chat/completions`, CHAT)
  const [live] = gateway.stats().live
  assert.equal(live?.attempt, 2)
  assert.equal(live?.model, 'fake-1')
  assert.equal(live?.lastFault, 'model_stream_interrupted')
  looked.resolve()
  await res.text()
  assert.deepEqual(
    notes.map(({ kind }) => kind),
    ['fault', 'healed'],
  )
  assert.deepEqual(gateway.stats().totals, {
    requests: 1,
    attempts: 2,
    faults: 1,
    healed: 1,
    lost: 0,
    unhealed: 0,
    repaired: 0,
  })
  assert.equal(gateway.stats().live.length, 0)
})

test('a model request that is not healed is visible in the log, the metrics and the live view', async (t) => {
  const logged: [GatewayLogEntry, string][] = []
  const note = (entry: GatewayLogEntry, text: string): void => void logged.push([entry, text])
  const { gateway } = await stand(t, [json(200, { data: [] })], { logger: { info: note, warn: note } })
  await post(`${gateway.url}/embeddings`, { model: 'embed-1', input: 'x' })
  await post(`${gateway.url}/chat/completions`, 'not json')
  const converse = '/model/anthropic.claude-x-v1%3A0/converse-stream'
  const passed = await post(new URL(converse, gateway.url).href, { messages: [] }) // no model in the body
  assert.equal(passed.headers.get('x-breakfall-healed'), 'false')
  await fetch(`${gateway.url}/models`)
  const shown = logged.map(([{ path, model, healed }, text]) => [path, model, healed, text])
  assert.deepEqual(shown, [
    ['/v1/embeddings', 'embed-1', false, 'passed through, not healed'],
    ['/v1/chat/completions', undefined, false, 'passed through, not healed'],
    [converse, 'anthropic.claude-x-v1:0', false, 'passed through, not healed'],
    ['/v1/models', undefined, undefined, 'passed through'],
  ])
  const { recent, totals } = gateway.stats()
  assert.deepEqual([recent.map(({ kind }) => kind), totals.unhealed], [['unhealed', 'unhealed', 'unhealed'], 3])
  assert.equal(recent[0]?.text, 'status 200: POST /v1/embeddings, not healed') // what a narrow terminal cuts off comes last
  const metrics = await (await fetch(new URL('/metrics', gateway.url))).text()
  assert.match(metrics, /^breakfall_gateway_unhealed_total 3$/m)
})
