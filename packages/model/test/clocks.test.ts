/** Stalls: a liveness timeout that pings reset, a progress timeout that they do not, and a timeout for the headers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { streamAnswer } from '../src/index.ts'
import { play } from './play.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { answer, finish, role, text } from '../../../test/kit/openai-frames.ts'
import { forever, head, lastChunk, silence } from '../../../test/kit/plays.ts'

const GOOD = answer('Hello')

test('a server that accepts and never answers times out by the header clock', async () => {
  const got = await play([[silence], GOOD], {}, { policy: { headersMs: 60 } })
  assert.equal(got.text, 'Hello')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_stalled')
  assert.equal(got.failed[0]?.fault.phase, 'headers')
  assert.equal(got.failed[0]?.fault.reason, 'headers')
})

test('the liveness timeout ends a silent stream, and the answer is retried', async () => {
  const got = await play([[head(), role, text('Hel'), silence], GOOD], {}, { policy: { livenessMs: 80 } })
  assert.equal(got.text, 'Hello')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_stalled')
  assert.equal(got.failed[0]?.fault.reason, 'liveness')
})

test('the progress timeout ends pings without output', async () => {
  const pings = forever(': OPENROUTER PROCESSING\n\n', 20)
  const got = await play(
    [[head(), role, text('Hel'), pings], GOOD],
    {},
    { policy: { livenessMs: 5_000, progressMs: 150 } },
  )
  assert.equal(got.text, 'Hello')
  assert.equal(got.failed[0]?.fault.reason, 'progress')
})

test('a server that stalls every time ends in model_stream_stalled, with the clock named', async () => {
  const got = await play([[head(), silence]], {}, { policy: { livenessMs: 40, attemptsMax: 2 } })
  assert.equal(got.fault?.fault.category, 'model_stream_stalled')
  assert.match(got.fault?.fault.errorRaw ?? '', /liveness timeout/)
  assert.equal(got.requests.length, 2)
})

test('a slow consumer gets fewer, longer text events', async (t) => {
  const many = Array.from({ length: 500 }, (_, index) => text(`${index} `))
  const model = await startModelServer([[head(), role, ...many, finish('stop'), lastChunk]])
  t.after(() => model.close())
  const request = { baseUrl: model.url, model: 'm', messages: [{ role: 'user', content: 'hi' }] } as const
  const texts: string[] = []
  for await (const event of streamAnswer(request)) {
    if (event.type !== 'text-delta') continue
    texts.push(event.text)
    if (texts.length === 1) await new Promise((resolve) => setTimeout(resolve, 100))
  }
  assert.equal(texts.join(''), Array.from({ length: 500 }, (_, index) => `${index} `).join(''))
  assert.ok(texts.length < 500)
})
