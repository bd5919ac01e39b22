/** Stalls: a byte clock that pings reset, a progress clock that they do not, and a clock for the headers. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { streamAnswer } from '../src/index.ts'
import { play } from './play.ts'
import {
  answer,
  finish,
  forever,
  head,
  lastChunk,
  pause,
  raw,
  role,
  silence,
  startFakeModel,
  text,
  thought,
} from './fake-model.ts'

const GOOD = answer('Hello')

test('a server that accepts and never answers is given up after the header clock', async () => {
  const got = await play([[silence], GOOD], {}, { policy: { headersMs: 60 } })
  assert.equal(got.text, 'Hello')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_stalled')
  assert.equal(got.failed[0]?.fault.phase, 'headers')
  assert.equal(got.failed[0]?.fault.reason, 'headers')
})

test('silence in the middle is ended by the liveness clock and asked for again', async () => {
  const got = await play([[head(), role, text('Hel'), silence], GOOD], {}, { policy: { livenessMs: 80 } })
  assert.equal(got.text, 'Hello')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_stalled')
  assert.equal(got.failed[0]?.fault.reason, 'liveness')
})

test('pings without output are ended by the progress clock', async () => {
  const pings = forever(raw(': OPENROUTER PROCESSING\n\n'), 20)
  const got = await play(
    [[head(), role, text('Hel'), pings], GOOD],
    {},
    { policy: { livenessMs: 5_000, progressMs: 150 } },
  )
  assert.equal(got.text, 'Hello')
  assert.equal(got.failed[0]?.fault.reason, 'progress')
})

test('pings keep a thinking model alive for longer than the liveness clock allows silence', async () => {
  const pings = Array.from({ length: 30 }, () => [raw(': ping\n\n'), pause(25)]).flat()
  const got = await play(
    [[head(), role, ...pings, text('Hello'), finish('stop'), lastChunk]],
    {},
    { policy: { livenessMs: 500 } },
  )
  assert.equal(got.text, 'Hello')
  assert.equal(got.requests.length, 1)
})

test('reasoning is progress', async () => {
  const thoughts = Array.from({ length: 30 }, () => [thought('.'), pause(25)]).flat()
  const got = await play(
    [[head(), role, ...thoughts, text('Hello'), finish('stop'), lastChunk]],
    {},
    { policy: { progressMs: 500 } },
  )
  assert.equal(got.reasoning, '.'.repeat(30))
  assert.equal(got.requests.length, 1)
})

test('a server that stalls every time ends in model_stream_stalled, with the clock named', async () => {
  const got = await play([[head(), silence]], {}, { policy: { livenessMs: 40, attemptsMax: 2 } })
  assert.equal(got.fault?.fault.category, 'model_stream_stalled')
  assert.match(got.fault?.fault.errorRaw ?? '', /liveness clock/)
  assert.equal(got.requests.length, 2)
})

test('a consumer that is slow does not make the model look stalled, and holds it back', async (t) => {
  const long = 'x'.repeat(5_000)
  const many = Array.from({ length: 3_000 }, () => text(long))
  const model = await startFakeModel([[head(), role, ...many, finish('stop'), lastChunk]])
  t.after(() => model.close())
  const request = { baseUrl: model.url, model: 'm', messages: [{ role: 'user', content: 'hi' }] } as const
  let events = 0
  let chars = 0
  let last = ''
  for await (const event of streamAnswer(request, { policy: { livenessMs: 800 } })) {
    last = event.type
    if (event.type !== 'text-delta') continue
    chars += event.text.length
    if (++events === 100) await new Promise((resolve) => setTimeout(resolve, 1_600)) // twice the clock
  }
  assert.equal(chars, 3_000 * 5_000)
  assert.equal(last, 'done')
  assert.equal(model.requests.length, 1)
})

test('text that waits for a slow consumer comes in fewer, longer events', async (t) => {
  const many = Array.from({ length: 500 }, (_, index) => text(`${index} `))
  const model = await startFakeModel([[head(), role, ...many, finish('stop'), lastChunk]])
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

test('a process that was stopped for longer than its clocks does not take bytes that are there for silence', async (t) => {
  // The server is another process: it goes on sending while this one stands still.
  const program = new URL('programs/dots-from-outside.ts', import.meta.url)
  const child = spawn(process.execPath, [fileURLToPath(program)], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => child.kill())
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const request = { baseUrl: line.toString().trim(), model: 'm', messages: [{ role: 'user', content: 'hi' }] } as const
  let held = ''
  let attempts = 0
  for await (const event of streamAnswer(request, { policy: { livenessMs: 150, progressMs: 150 } })) {
    if (event.type === 'attempt-start') attempts++
    if (event.type !== 'text-delta') continue
    if (held === '') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400)
    held += event.text
  }
  assert.equal(held, '.'.repeat(40))
  assert.equal(attempts, 1)
})
