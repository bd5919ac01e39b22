/** A relay in front of a server that refuses a broken conversation. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { message } from '../../../test/kit/anthropic-frames.ts'
import { answer } from '../../../test/kit/openai-frames.ts'
import { bytes, head, json, lastChunk, pause, type Play } from '../../../test/kit/plays.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { Conversations } from '../src/internal.ts'
import { relayed } from './relayed.ts'

const OPEN = {
  messages: [
    { role: 'user', content: 'go' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }] },
    { role: 'user', content: 'and now?' },
  ],
}
const WHOLE = { messages: [{ role: 'user', content: 'go' }] }
const told = (words: string): object => ({ type: 'error', error: { type: 'invalid_request_error', message: words } })
const MISSING = told('messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1.')
const UNBOUND = told('messages.1.content.0: Invalid `signature`. The block is bound to a different conversation.')
const API = { api: 'anthropic-messages', body: OPEN } as const
const HAPPY = message('Hi')

test('a refused conversation is repaired and sent once more, at once, and the client reads why', async () => {
  const got = await relayed([json(400, MISSING), HAPPY], API)
  assert.deepEqual([got.status, got.text, got.requests.length], [200, 'Hi', 2])
  assert.equal(got.headers['x-breakfall-repaired'], 'call_without_result; messages.1')
  assert.match(got.requests[1]?.text ?? '', /Whether it ran, and its result, are unknown/)
  assert.deepEqual(got.outcome.repairs, [
    { cause: 'call_without_result', place: 'messages.1', isKnown: false, isTaken: true },
  ])
  const [first] = got.outcome.ledger
  assert.deepEqual([first?.action, first?.delayMs, first?.fault?.reason], ['repair', 0, 'call_without_result'])
  assert.deepEqual(
    got.events.map((event) => event.type),
    ['attempt-start', 'attempt-failed', 'repaired', 'attempt-start', 'healed'],
  )
})

test('a repair costs no attempt', async () => {
  const got = await relayed([json(400, MISSING), json(503, {}), HAPPY], { ...API, policy: { attemptsMax: 2 } })
  assert.deepEqual([got.status, got.text, got.requests.length], [200, 'Hi', 3])
  assert.equal(got.requests[2]?.text, got.requests[1]?.text, 'the repaired one is retried')
})

test('a server that refuses a valid conversation gets one request, and the client its words', async () => {
  const got = await relayed([json(400, MISSING), HAPPY], { ...API, body: WHOLE })
  assert.deepEqual([got.status, got.requests.length, JSON.parse(got.body)], [400, 1, MISSING])
  assert.deepEqual([got.headers['x-breakfall-category'], got.headers['x-breakfall-repair']], ['model_history_invalid', undefined]) // prettier-ignore
})

test('if the repaired request is refused, the client gets the first refusal unchanged', async () => {
  const other = told('messages.2: something else')
  const got = await relayed([json(400, MISSING, { 'x-refusal': 'first' }), json(400, other), HAPPY], API)
  assert.deepEqual([got.status, got.requests.length, JSON.parse(got.body)], [400, 2, MISSING])
  assert.deepEqual([got.headers['x-breakfall-repair'], got.headers['x-refusal']], ['failed', 'first'])
  assert.equal(got.outcome.repairs[0]?.isTaken, false)
  const tooLong = told('prompt is too long: 213462 tokens > 200000 maximum')
  const compact = await relayed([json(400, MISSING), json(400, tooLong)], API)
  assert.deepEqual(JSON.parse(compact.body), tooLong, 'that it is too long is news, and agents compact then')
})

test('results first, thoughts only if the server then says that they do not fit', async () => {
  const thought = { type: 'thinking', thinking: '', signature: 's' }
  const [user, { content }, more] = OPEN.messages as [object, { content: object[] }, object]
  const body = { messages: [user, { role: 'assistant', content: [thought, ...content] }, more] }
  const got = await relayed([json(400, MISSING), json(400, UNBOUND), HAPPY], { ...API, body })
  assert.equal(got.text, 'Hi')
  assert.deepEqual(
    got.requests.map(({ text }) => text.includes('"thinking"')),
    [true, true, false],
  )
  assert.equal(got.headers['x-breakfall-repaired'], 'call_without_result; messages.1, thinking_unbound; messages.1')
})

test('a refusal as the first event of a stream is repaired as well', async () => {
  const inBand: Play = [head(), `event: error\ndata: ${JSON.stringify(MISSING)}\n\n`, lastChunk]
  const got = await relayed([inBand, HAPPY], API)
  assert.deepEqual([got.text, got.requests.length], ['Hi', 2])
})

test('so is one of an answer in one piece, with status 200 and without', async () => {
  const whole = { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'Hi' }], stop_reason: 'end_turn' }
  for (const status of [200, 400]) {
    const got = await relayed([json(status, MISSING), json(200, whole)], { ...API, body: { ...OPEN, stream: false } })
    assert.deepEqual([got.status, got.requests.length, JSON.parse(got.body).content[0].text], [200, 2, 'Hi'])
    assert.equal(got.headers['x-breakfall-repaired'], 'call_without_result; messages.1')
  }
})

test('after the head went out with a ping, a comment says what was repaired', async () => {
  const got = await relayed([[pause(150), ...json(400, MISSING)], HAPPY], { ...API, pingMs: 50 })
  assert.equal(got.text, 'Hi')
  assert.ok(got.comments.includes('breakfall repaired call_without_result messages.1'))
})

test('nothing is repaired if it is turned off', async () => {
  const got = await relayed([json(400, MISSING), HAPPY], { ...API, repair: 'never' })
  assert.deepEqual([got.status, got.requests.length], [400, 1])
})

test('another upstream gets the client’s own bytes', async (t) => {
  const spare = await startModelServer([json(400, MISSING), HAPPY])
  t.after(() => spare.close())
  const fallback = [{ baseUrl: spare.url }]
  const got = await relayed([json(400, MISSING), json(400, UNBOUND)], { ...API, fallback })
  assert.equal(got.text, 'Hi')
  assert.equal(spare.requests[0]?.text, got.requests[0]?.text)
  assert.notEqual(spare.requests[1]?.text, got.requests[0]?.text)
})

test('the model of an upstream is in the repaired request, too', async (t) => {
  const spare = await startModelServer([json(400, MISSING), HAPPY])
  t.after(() => spare.close())
  const got = await relayed([json(503, {})], {
    ...API,
    policy: { attemptsMax: 1 },
    fallback: [{ baseUrl: spare.url, model: 'other' }],
  })
  assert.equal(got.text, 'Hi')
  assert.deepEqual(
    spare.requests.map(({ body }) => body['model']),
    ['other', 'other'],
  )
})

test('llama.cpp says with status 500 that arguments do not parse: repaired if so, else retried as a failure of the server', async () => {
  const words = 'Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at line 1'
  const refusal = json(500, { error: { code: 500, message: words, type: 'server_error' } })
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{' } }
  const messages = [{ role: 'user', content: 'go' }, { role: 'assistant', tool_calls: [call] }, { role: 'tool', tool_call_id: 'a', content: '' }] // prettier-ignore
  const got = await relayed([refusal, answer('Hi')], { body: { messages } })
  assert.deepEqual([got.text, got.requests.length], ['Hi', 2])
  assert.equal(got.requests[1]?.body['messages'][1].tool_calls[0].function.arguments, '{"_unparsed":"{"}')
  const valid = await relayed([refusal, answer('Hi')])
  assert.deepEqual([valid.text, valid.outcome.ledger[0]?.fault?.category], ['Hi', 'model_server_error'])
})

test('the next request of the conversation needs no refusal; if it is refused, the client’s bytes are judged', async () => {
  const conversations = new Conversations(() => 1)
  await withServer(async (url, script) => {
    const ask = (messages: readonly object[], ...plays: readonly Play[]) => script(messages, plays, conversations, url)
    const later = [
      { role: 'assistant', content: 'a' },
      { role: 'user', content: 'b' },
    ]
    assert.equal((await ask(OPEN.messages, json(400, MISSING), HAPPY)).requests, 2)
    const next = await ask([...OPEN.messages, ...later], HAPPY)
    assert.deepEqual([next.requests, next.repaired], [1, 'call_without_result; messages.1'])
    const refused = await ask([...OPEN.messages, ...later], json(400, UNBOUND), json(400, MISSING), HAPPY)
    assert.deepEqual([refused.requests, refused.repaired], [3, 'call_without_result; messages.1'])
    const edited = await ask([{ role: 'user', content: 'other' }, ...OPEN.messages.slice(1), ...later], HAPPY)
    assert.deepEqual([edited.requests, edited.repaired], [1, undefined])
  })
})

// ---- details ----

type Asked = { readonly requests: number; readonly repaired: unknown }

/** Several requests to one server. */
async function withServer(
  work: (
    url: string,
    script: (
      messages: readonly object[],
      plays: readonly Play[],
      conversations: Conversations,
      url: string,
    ) => Promise<Asked>,
  ) => Promise<void>,
): Promise<void> {
  await using server = await startModelServer()
  await work(server.url, async (messages, plays, conversations, url) => {
    const name = server.plays(...plays)
    // The first of several targets: the fake server that `relayed` starts is not reached.
    const got = await relayed([bytes('HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n')], {
      api: 'anthropic-messages',
      body: { messages: messages as object[], metadata: { user_id: name } },
      conversations,
      policy: { attemptsMax: 1 },
      fallback: [{ baseUrl: url }],
    })
    return { requests: server.received(name).length, repaired: got.headers['x-breakfall-repaired'] }
  })
}
