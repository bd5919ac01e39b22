/** Each fault, as a raw socket sees it. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type FaultProxy, type PlanInput, startFaultProxy } from '../src/index.ts'
import { dechunk, post, rawRequest } from './raw-client.ts'
import { ANTHROPIC_EVENTS, sse, startUpstream, TEXT_EVENTS, TOOL_EVENTS, type Upstream } from './sse-upstream.ts'

const CHAT = post('/v1/chat/completions', { model: 'm' })

type Fault = NonNullable<PlanInput['faults']>[number]

async function start(
  t: TestContext,
  fault: Fault,
  listener = sse(TEXT_EVENTS),
): Promise<{ proxy: FaultProxy; upstream: Upstream }> {
  const upstream = await startUpstream(listener)
  t.after(() => upstream.close())
  const proxy = await startFaultProxy({
    upstream: upstream.url,
    plan: { at: [{ request: 1, attempt: 1, fault }] },
    now: () => 1_800_000_000_000,
  })
  t.after(() => proxy.close())
  return { proxy, upstream }
}

test('reset before headers: no bytes, RST, and the upstream is never contacted', async (t) => {
  const { proxy, upstream } = await start(t, 'reset_before_headers')
  assert.deepEqual(await rawRequest(proxy.port, CHAT), { text: '', ending: 'reset', error: 'ECONNRESET' })
  assert.equal(upstream.count, 0)
  assert.equal(proxy.injected[0]?.outcome, 'injected')
})

test('close before headers: no bytes, FIN', async (t) => {
  const { proxy } = await start(t, 'fin_before_headers')
  assert.deepEqual(await rawRequest(proxy.port, CHAT), { text: '', ending: 'end', error: null })
})

for (const [kind, ending] of [
  ['reset_in_headers', 'reset'],
  ['fin_in_headers', 'end'],
] as const) {
  test(`${kind}: half of the headers, then ${ending}`, async (t) => {
    const { proxy } = await start(t, kind)
    const answer = await rawRequest(proxy.port, CHAT)
    assert.match(answer.text, /^HTTP\/1\.1 /)
    assert.ok(!answer.text.includes('\r\n\r\n'))
    assert.equal(answer.ending, ending)
  })
}

for (const [kind, ending, isWhole] of [
  ['reset', 'reset', false],
  ['fin', 'end', false],
] as const) {
  test(`${kind}: exactly the first three events, no last chunk, then ${ending}`, async (t) => {
    const { proxy } = await start(t, { kind, afterEvents: 3 })
    const answer = await rawRequest(proxy.port, CHAT)
    const parts = dechunk(answer.text)
    assert.equal(parts.body, TEXT_EVENTS.slice(0, 3).join(''))
    assert.equal(parts.isWhole, isWhole)
    assert.equal(answer.ending, ending)
    assert.deepEqual(
      proxy.injected.map(({ events, outcome, fault }) => ({ events, outcome, kind: fault.kind })),
      [{ events: 3, outcome: 'injected', kind }],
    )
  })
}

test('an early end has its last chunk but no terminal event', async (t) => {
  const { proxy } = await start(t, { kind: 'early_end', afterEvents: 5 })
  const answer = await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)
  assert.deepEqual(
    { ...dechunk(answer.text), head: '' },
    { head: '', body: TEXT_EVENTS.slice(0, 5).join(''), isWhole: true },
  )
})

test('a cut planned after the end of the answer still comes before the event that proves completion', async (t) => {
  const { proxy } = await start(t, { kind: 'early_end', afterEvents: 900 })
  const answer = await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)
  assert.equal(dechunk(answer.text).body, TEXT_EVENTS.slice(0, 10).join(''))
})

test('if only [DONE] ends an answer, the cut comes before it', async (t) => {
  const events = [...TEXT_EVENTS.slice(0, 4), 'data: [DONE]\n\n']
  const { proxy } = await start(t, { kind: 'early_end', afterEvents: 900 }, sse(events))
  const answer = await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)
  assert.equal(dechunk(answer.text).body, events.slice(0, 4).join(''))
})

test('an answer without a terminal event is cut at its end', async (t) => {
  const { proxy } = await start(t, { kind: 'reset', afterEvents: 900 }, sse(TEXT_EVENTS.slice(0, 4)))
  const answer = await rawRequest(proxy.port, CHAT)
  assert.equal(dechunk(answer.text).body, TEXT_EVENTS.slice(0, 4).join(''))
  assert.equal(answer.ending, 'reset')
})

test('a missing last chunk: the complete answer, then FIN without the last chunk', async (t) => {
  const { proxy } = await start(t, 'missing_last_chunk')
  const answer = await rawRequest(proxy.port, CHAT)
  assert.deepEqual({ ...dechunk(answer.text), head: '' }, { head: '', body: TEXT_EVENTS.join(''), isWhole: false })
  assert.equal(answer.ending, 'end')
})

test('a stall is silent, then closed', async (t) => {
  const { proxy } = await start(t, { kind: 'stall', ms: 80, afterEvents: 2 })
  const startedAt = performance.now()
  const answer = await rawRequest(proxy.port, CHAT)
  assert.ok(performance.now() - startedAt >= 79)
  assert.equal(dechunk(answer.text).body, TEXT_EVENTS.slice(0, 2).join(''))
  assert.equal(answer.ending, 'end')
})

test('a stall with pings sends comments and nothing else', async (t) => {
  const { proxy } = await start(t, { kind: 'stall_with_pings', ms: 300, pingMs: 20, afterEvents: 1 })
  const { body } = dechunk((await rawRequest(proxy.port, CHAT)).text)
  assert.ok(body.startsWith(`${TEXT_EVENTS[0]}: ping\n\n`), body)
  assert.equal(body.replaceAll(': ping\n\n', ''), TEXT_EVENTS[0])
})

test('a pause loses nothing', async (t) => {
  const { proxy } = await start(t, { kind: 'pause', ms: 30, afterEvents: 1 })
  const answer = await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)
  assert.deepEqual({ ...dechunk(answer.text), head: '' }, { head: '', body: TEXT_EVENTS.join(''), isWhole: true })
  assert.equal(proxy.injected.length, 1)
})

const argumentsIn = (body: string): string =>
  [...body.matchAll(/"arguments":"((?:[^"\\]|\\.)*)"/g)].map((match) => JSON.parse(`"${match[1]}"`) as string).join('')

test('cut tool arguments with a finish reason: cut JSON in an answer that claims to be complete', async (t) => {
  const { proxy } = await start(t, 'cut_tool_arguments', sse(TOOL_EVENTS))
  const { body, isWhole } = dechunk((await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)).text)
  assert.equal(argumentsIn(body), '{"c')
  assert.ok(body.includes('"finish_reason":"tool_calls"') && body.endsWith('data: [DONE]\n\n') && isWhole)
})

test('cut tool arguments without a finish reason: a clean end after the cut', async (t) => {
  const { proxy } = await start(t, { kind: 'cut_tool_arguments', finish: false }, sse(TOOL_EVENTS))
  const { body, isWhole } = dechunk((await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)).text)
  assert.equal(argumentsIn(body), '{"c')
  assert.ok(!body.includes('"tool_calls"}') && !body.includes('[DONE]') && isWhole)
})

test('a finish reason in the same event as the call is dropped with it', async (t) => {
  const call = { index: 0, id: 'c', type: 'function', function: { name: 'bash', arguments: '{"command":"ls"}' } }
  const choice = { index: 0, delta: { tool_calls: [call] }, finish_reason: 'tool_calls' }
  const events = [`data: ${JSON.stringify({ choices: [choice] })}\n\n`, 'data: [DONE]\n\n']
  const { proxy } = await start(t, { kind: 'cut_tool_arguments', finish: false }, sse(events))
  const { body } = dechunk((await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)).text)
  assert.equal(argumentsIn(body), '{"comman')
  assert.ok(body.includes('"finish_reason":null') && !body.includes('[DONE]'))
})

test('emptied tool arguments leave a call with nothing but its name', async (t) => {
  const { proxy } = await start(t, { kind: 'cut_tool_arguments', keep: 'none' }, sse(TOOL_EVENTS))
  const { body } = dechunk((await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)).text)
  assert.equal(argumentsIn(body), '')
  assert.ok(body.includes('"finish_reason":"tool_calls"'))
})

test('tool arguments are cut in Anthropic streams too', async (t) => {
  const { proxy } = await start(t, { kind: 'cut_tool_arguments', finish: false }, sse(ANTHROPIC_EVENTS))
  const { body } = dechunk((await rawRequest(proxy.port, post('/v1/messages', {}), /\r\n0\r\n\r\n$/)).text)
  assert.ok(body.includes('"partial_json":"{\\"comman"'), body)
  assert.ok(!body.includes('stop_reason') && !body.includes('message_stop'))
})

test('a cut of tool arguments that finds no tool call is logged as missed', async (t) => {
  const { proxy } = await start(t, 'cut_tool_arguments')
  const answer = await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)
  assert.equal(dechunk(answer.text).body, TEXT_EVENTS.join(''))
  assert.equal(proxy.injected[0]?.outcome, 'missed')
})

test('a malformed line is not JSON, and the rest follows', async (t) => {
  const { proxy } = await start(t, { kind: 'malformed_line', afterEvents: 4 })
  const { body, isWhole } = dechunk((await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)).text)
  const events = body.split('\n\n')
  assert.throws(() => JSON.parse((events[4] ?? '').replace('data: ', '')) as unknown)
  assert.equal(events.slice(5).join('\n\n'), TEXT_EVENTS.slice(5).join(''))
  assert.ok(isWhole)
})

test('an in-band error has the format of its API, and the answer ends after it', async (t) => {
  const { proxy } = await start(t, { kind: 'in_band_error', afterEvents: 1 })
  const openai = dechunk((await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)).text)
  const error = { message: 'Overloaded', type: 'overloaded_error', param: null, code: null }
  assert.equal(openai.body, `${TEXT_EVENTS[0]}data: ${JSON.stringify({ error })}\n\n`)

  proxy.use({ at: [{ request: 2, fault: { kind: 'in_band_error', afterEvents: 0 } }] })
  const anthropic = dechunk((await rawRequest(proxy.port, post('/v1/messages', {}), /\r\n0\r\n\r\n$/)).text)
  assert.equal(
    anthropic.body,
    'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
  )
})

for (const [settings, header] of [
  [{ status: 429, retryAfter: '2s' }, /\r\nretry-after: 2\r\n/],
  [{ status: 503, retryAfter: 'date:60s' }, /\r\nretry-after: Fri, 15 Jan 2027 08:01:00 GMT\r\n/],
  [{ status: 529, retryAfter: '1500ms' }, /\r\nretry-after-ms: 1500\r\n/],
  [{ status: 500 }, /^(?!.*retry-after)/s],
  [{ status: 502 }, /^(?!.*retry-after)/s],
] as const) {
  test(`a status: ${JSON.stringify(settings)}`, async (t) => {
    const { proxy, upstream } = await start(t, { kind: 'status', ...settings })
    const { text } = await rawRequest(proxy.port, CHAT, /\r\n\r\n.*\}$/)
    assert.ok(text.startsWith(`HTTP/1.1 ${settings.status} `), text)
    assert.match(text, header)
    assert.match(text, /"error":\{"message":"injected/)
    assert.equal(upstream.count, 0)
  })
}

test('slow headers come late and complete', async (t) => {
  const { proxy } = await start(t, { kind: 'slow_headers', ms: 60 })
  const startedAt = performance.now()
  const answer = await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)
  assert.ok(performance.now() - startedAt >= 59)
  assert.equal(dechunk(answer.text).body, TEXT_EVENTS.join(''))
})

test(
  'refuse resets the request, refuses connections for a while, then accepts them again',
  { timeout: 20_000 },
  async (t) => {
    const { proxy } = await start(t, { kind: 'refuse', ms: 150 })
    assert.equal((await rawRequest(proxy.port, CHAT)).ending, 'reset')
    assert.equal((await rawRequest(proxy.port, CHAT)).error, 'ECONNREFUSED')
    for (;;) {
      const answer = await rawRequest(proxy.port, CHAT, /\r\n0\r\n\r\n$/)
      if (answer.error === 'ECONNREFUSED') continue
      assert.equal(dechunk(answer.text).body, TEXT_EVENTS.join(''))
      break
    }
  },
)

test('a stale keep-alive connection serves one request and resets the second', async (t) => {
  const { proxy, upstream } = await start(t, 'stale_keepalive')
  const { connect } = await import('node:net')
  const socket = connect(proxy.port, '127.0.0.1')
  let text = ''
  const ending = new Promise<string>((resolve) => {
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
    socket.on('end', () => resolve('end'))
  })
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1')
    if (text.endsWith('0\r\n\r\n')) socket.write(CHAT)
  })
  socket.write(CHAT)
  assert.equal(await ending, 'ECONNRESET')
  assert.equal(dechunk(text).body, TEXT_EVENTS.join(''))
  assert.equal(upstream.count, 1)
  assert.equal(proxy.injected[0]?.outcome, 'injected')
})
