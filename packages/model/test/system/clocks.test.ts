/** What must not look like a stall: a model that thinks for a long time, a slow consumer, and our own process after it was suspended. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { streamAnswer } from '../../src/index.ts'
import { startModelServer } from '../../../../test/kit/model-server.ts'
import { finish, role, text, thought } from '../../../../test/kit/openai-frames.ts'
import { forever, head, lastChunk, pause, silence } from '../../../../test/kit/plays.ts'
import { isKept, play } from '../play.ts'

test('pings keep a thinking model alive for longer than the liveness timeout allows silence', async () => {
  const pings = Array.from({ length: 30 }, () => [': ping\n\n', pause(25)]).flat()
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

test('a slow consumer holds the model back without making it look stalled', async (t) => {
  const long = 'x'.repeat(5_000)
  const many = Array.from({ length: 3_000 }, () => text(long))
  const model = await startModelServer([[head(), role, ...many, finish('stop'), lastChunk]])
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

test('a process that was suspended for longer than its clocks does not mistake waiting bytes for silence', async (t) => {
  // The server is another process: it keeps sending while this one is suspended.
  const program = new URL('../programs/dots-from-outside.ts', import.meta.url)
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

// As long as the client waits for what may follow a finish reason: hence both at once.
describe('after its finish reason', { concurrency: true }, () => {
  for (const [how, end] of [
    ['falls silent', silence],
    ['sends nothing but pings', forever(': ping\n\n', 100)],
  ] as const)
    test(`a stream that ${how} is a complete answer`, async () => {
      isKept(await play([[head(), role, text('Hello'), finish('stop'), end]]))
    })
})
