/** A conversation of megabytes is sent in chunks: what the server gets, and what happens if it does not take them. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { ChatMessage } from '../../src/index.ts'
import { ask } from '../collect.ts'
import { type ModelServerOptions, type Script, startModelServer } from '../../../../test/kit/model-server.ts'
import { answer } from '../../../../test/kit/openai-frames.ts'
import { json, reset, silence } from '../../../../test/kit/plays.ts'

const LONG: readonly ChatMessage[] = Array.from({ length: 300 }, (_, step) =>
  Object.freeze({ role: 'user' as const, content: `${step}: ${'0123456789abcdé\n'.repeat(1_250)}` }),
)

async function modelFor(t: TestContext, script: Script, options?: ModelServerOptions) {
  const model = await startModelServer(script, options)
  t.after(() => model.close())
  return model
}

test('a growing conversation arrives whole in every step and has a length', async (t) => {
  const model = await modelFor(t, [answer('ok')])
  for (const messages of [LONG.slice(0, 100), LONG.slice(0, 200), LONG]) {
    const { text, failed } = await ask(model.url, { messages })
    assert.deepEqual([text, failed], ['ok', []])
    const got = model.requests.at(-1)
    assert.deepEqual(got?.body['messages'], messages)
    assert.equal(got?.headers['transfer-encoding'], undefined)
    assert.ok(Number(got?.headers['content-length']) > messages.length * 20_000)
  }
})

test('a server that refuses before it has read the conversation is heard', async (t) => {
  const refusal = {
    error: { message: "This model's maximum context length is 8192 tokens.", code: 'context_length_exceeded' },
  }
  const model = await modelFor(t, [json(400, refusal)], { early: true })
  const { fault } = await ask(model.url, { messages: LONG })
  assert.equal(fault?.fault.category, 'model_context_overflow')
})

test('a connection that breaks while the conversation is sent is retried, and the next one gets all of it', async (t) => {
  const broken = await modelFor(t, [reset], { early: true })
  const model = await modelFor(t, [answer('ok')])
  const { text, failed } = await ask(
    broken.url,
    { messages: LONG },
    { fallback: [{ baseUrl: model.url }], policy: { attemptsMax: 2 } },
  )
  assert.equal(text, 'ok')
  assert.ok(failed.length > 0)
  assert.deepEqual(model.requests[0]?.body['messages'], LONG)
})

test('a cancel reaches a server that has stopped reading', async (t) => {
  const model = await modelFor(t, [silence], { early: true })
  const asked = new AbortController()
  const answered = ask(model.url, { messages: LONG }, { signal: asked.signal })
  await model.untilRequests(1)
  asked.abort()
  assert.equal((await answered).fault?.fault.category, 'cancelled')
})
