/** Points at which a connection or a stream can break, and what the consumer holds afterwards. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { test } from 'node:test'
import { ask } from './collect.ts'
import { GOOD, play } from './play.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { answer, callMore, callStart, role, text, thought } from '../../../test/kit/openai-frames.ts'
import { bytes, fin, head, json, lastChunk, type Play, reset, silence } from '../../../test/kit/plays.ts'

// ---- before the first byte ----

const EARLY: readonly (readonly [string, Play, string])[] = [
  ['reset before its headers', [reset], 'model_stream_interrupted'],
  ['closed before its headers', [fin], 'model_stream_interrupted'],
  ['closed inside its headers', [bytes('HTTP/1.1 200 OK\r\ncontent-ty'), fin], 'model_stream_interrupted'],
  ['reset after its headers and before its first byte', [head(), reset], 'model_stream_interrupted'],
  ['closed after its headers and before its first byte', [head(), fin], 'model_stream_interrupted'],
]

for (const [what, broken, category] of EARLY) {
  test(`a connection ${what} is retried`, async () => {
    const got = await play([broken, GOOD])
    assert.equal(got.text, 'Hello world')
    assert.equal(got.failed.length, 1)
    assert.equal(got.failed[0]?.fault.category, category)
    assert.equal(got.types.includes('part-discarded'), false)
  })
}

test('a raw connection reset before any stream byte does not end the session', async () => {
  const got = await play([[reset], [reset], GOOD])
  assert.equal(got.text, 'Hello world')
  assert.match(got.failed[0]?.fault.errorRaw ?? '', /ECONNRESET/)
})

test('a refused connection is model_unreachable, is retried, and is never blamed on the runner', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  const got = await ask(`http://127.0.0.1:${port}/v1`, {}, { policy: { attemptsMax: 3 } })
  assert.equal(got.failed.length, 3)
  assert.equal(got.fault?.fault.category, 'model_unreachable')
  assert.equal(got.fault?.fault.boundary, 'model')
  assert.equal(got.fault?.fault.stopped, 'attempts_spent')
  assert.deepEqual(got.fault?.fault.retry, { attempt: 3, max: 3, nextAt: null })
  assert.equal(got.fault?.ledger[0]?.phase, 'connect')
  assert.deepEqual(got.fault?.ledger[0]?.usage.inputTokens, { value: 0, quality: 'known' })
})

test('a connection that breaks while a large request is being sent (EPIPE) is retried', async (t) => {
  let connections = 0
  const model = await startModelServer([GOOD])
  const door = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    if (++connections === 1) {
      socket.once('data', () => socket.resetAndDestroy())
      return
    }
    const through = connect(model.port, '127.0.0.1')
    through.on('error', () => socket.destroy())
    socket.pipe(through).pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(door, 'listening')
  t.after(async () => {
    door.close()
    await model.close()
  })
  const { port } = door.address() as { port: number }
  const messages = [{ role: 'user', content: 'x'.repeat(3_000_000) }] as const
  const got = await ask(`http://127.0.0.1:${port}/v1`, { messages })
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_interrupted')
})

test('a retry sends the same request: no message twice, nothing from the failed attempt', async () => {
  const model = await startModelServer([[reset], [head(), role, text('half'), reset], json(503, {}), GOOD])
  await ask(model.url)
  await model.close()
  assert.equal(model.requests.length, 4)
  assert.equal(new Set(model.requests.map((request) => request.text)).size, 1)
})

test('attempts are bounded: a model that always breaks is asked six times by default, and the fault says so', async () => {
  const got = await play([[head(), role, text('half'), reset]])
  assert.equal(got.requests.length, 6)
  assert.equal(got.fault?.fault.category, 'model_stream_interrupted')
  assert.equal(got.fault?.fault.stopped, 'attempts_spent')
  assert.match(got.fault?.fault.error ?? '', /Breakfall stopped after 6 attempts\./)
})

test('a server that does not speak HTTP is retried', async () => {
  const got = await play([[bytes('SSH-2.0-OpenSSH_9.2\r\n'), fin], GOOD])
  assert.equal(got.text, 'Hello world')
})

// ---- in the middle ----

const HALF: readonly (readonly [string, Play])[] = [
  ['its text', [head(), role, text('Hello wo')]],
  ['its reasoning', [head(), role, thought('hm, let me')]],
  ['its text after reasoning', [head(), role, thought('hm'), text('Hel')]],
  ['a tool call', [head(), role, text('Let me'), callStart('c1', 'bash'), callMore('{"comm')]],
  ['an SSE event', [head(), role, text('Hel'), 'data: {"choices":[{"delta":{"con']],
  ['a character', [head(), role, text('Hel'), 'data: {"choices":[{"index":0,"delta":{"content":"\xc3']],
]
const ENDS: readonly (readonly [string, Play])[] = [
  ['reset', reset],
  ['closed', fin],
  ['ended cleanly', lastChunk],
]

for (const [where, half] of HALF) {
  for (const [how, end] of ENDS) {
    test(`a stream ${how} in the middle of ${where} is retried, and the answer is held once`, async () => {
      const got = await play([[half, end], answer('Hello', ' world')])
      assert.equal(got.text, 'Hello world')
      assert.equal(got.reasoning, '')
      assert.equal(got.requests.length, 2)
      assert.equal(got.calls.length, 0)
      assert.ok(
        ['model_stream_interrupted', 'model_stream_incomplete'].includes(got.failed[0]?.fault.category ?? ''),
        got.failed[0]?.fault.category,
      )
    })
  }
}

test('a reset of a chunked answer with connection: close is a break, although the parser calls it bad HTTP', async () => {
  const got = await play([[head(200, { connection: 'close' }), role, text('Hel'), reset], GOOD])
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_interrupted')
})

test('an answer without a length that is cut by a reset looks like a clean end and is still not accepted', async () => {
  const open = head(200, { 'transfer-encoding': '', connection: 'close' })
  const cut = bytes('data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n')
  const got = await play([[open, cut, reset], GOOD])
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed.length, 1)
})

test('a bad chunk size in the middle is a break', async () => {
  const got = await play([[head(), role, text('Hel'), bytes('zz\r\nnonsense\r\n'), silence], GOOD])
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_interrupted')
})

test('a dropped stream at turn 50 costs one retry, not the run', async () => {
  let index = 0
  const model = await startModelServer(() =>
    ++index % 5 === 0 ? [head(), role, text('half'), fin] : answer(`step ${index}`),
  )
  try {
    for (let turn = 0; turn < 50; turn++) assert.match((await ask(model.url)).text, /^step \d+$/)
  } finally {
    await model.close()
  }
})
