/** The model library against the contract: its events end exactly once, for any input. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { streamAnswer } from '@breakfall/model'
import { shared } from '../shared.ts'
import { textFrames, toolFrames, messageFrames } from '../../test/kit/anthropic-frames.ts'
import { type Json } from '../../test/kit/json.ts'
import { startModelServer } from '../../test/kit/model-server.ts'
import { callMore, callStart, done, finish, role, text, answerFrames } from '../../test/kit/openai-frames.ts'
import { cut, half, json, type Play, reset, silence, stall, stream } from '../../test/kit/plays.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const upstream = await shared(startModelServer())

const user = [{ role: 'user' as const, content: 'go' }]
const policy = { attemptsMax: 3, backoffMs: 1, livenessMs: 1_000 }
const ask = (request: Json, options: Json = {}): AsyncIterable<Json> =>
  streamAnswer(request, { policy, ...options }) as AsyncIterable<Json>
const request = (...plays: readonly Play[]): Json => ({
  baseUrl: upstream.url,
  model: upstream.plays(...plays),
  messages: user,
})

/** Collects all events and checks the rules for every stream. */
async function events(source: AsyncIterable<Json>): Promise<{ all: Json[]; last: Json; text: string; calls: Json[] }> {
  const all: Json[] = []
  for await (const event of source) all.push(event)
  const terminal = all.filter(({ type }) => type === 'done' || type === 'fault')
  assert.equal(terminal.length, 1, JSON.stringify(all))
  assert.equal(all.at(-1), terminal[0])
  const parts = new Map<string, string>()
  for (const event of all) {
    if (event.type === 'text-delta') parts.set(event.part, (parts.get(event.part) ?? '') + event.text)
    if (event.type === 'part-discarded') parts.delete(event.part)
  }
  return {
    all,
    last: all.at(-1),
    text: [...parts.values()].join(''),
    calls: all.filter(({ type }) => type === 'tool-call'),
  }
}

describe('streamAnswer with invalid input', { ...LIMIT, concurrency: true }, () => {
  const nonsense: Record<string, () => Json> = {
    nothing: () => undefined,
    null: () => null,
    'an empty object': () => ({}),
    'no base URL': () => ({ model: 'm', messages: user }),
    'an empty base URL': () => ({ baseUrl: '', model: 'm', messages: user }),
    'a base URL that is none': () => ({ baseUrl: 'not a url', model: 'm', messages: user }),
    'a base URL of another kind': () => ({ baseUrl: 'file:///etc/passwd', model: 'm', messages: user }),
    'a number as base URL': () => ({ baseUrl: 7, model: 'm', messages: user }),
    'no messages': () => ({
      baseUrl: upstream.url,
      model: upstream.plays(json(400, { error: { message: 'empty' } })),
    }),
    'messages that are not a list': () => ({ ...request(json(400, {})), messages: 'go' }),
    'a message that is null': () => ({ ...request(json(400, {})), messages: [null] }),
    'tools that are not a list': () => ({ ...request(json(400, {})), tools: 'bash' }),
    'a tool that is null': () => ({ ...request(json(400, {})), tools: [null] }),
    'a circle in the body': () => {
      const circle: Json = {}
      circle.self = circle
      return { ...request(json(400, {})), extra: { circle } }
    },
    'a BigInt in the body': () => ({ ...request(json(400, {})), extra: { big: 1n } }),
    'an unknown API': () => ({ ...request(json(400, {})), api: 'smoke-signals' }),
    'an unknown profile': () => ({ ...request(json(400, {})), profile: 'nobody' }),
    'a key with a line end': () => ({ ...request(json(400, {})), apiKey: 'a\r\nb: c' }),
  }
  for (const [what, make] of Object.entries(nonsense))
    for (const api of [undefined, 'anthropic-messages'])
      test(`${what}${api === undefined ? '' : ` (${api})`}: one fault, no exception`, async () => {
        const made = make()
        const { last } = await events(
          ask(
            api === undefined || made === null || typeof made !== 'object' || 'api' in made ? made : { ...made, api },
          ),
        )
        assert.equal(last.type, 'fault')
        assert.equal(typeof last.fault.category, 'string')
        assert.notEqual(last.fault.category, 'other', JSON.stringify(last.fault))
        assert.notEqual(last.fault.error, '')
      })
  const policies: Json[] = [
    { attemptsMax: Number.NaN },
    { attemptsMax: -1 },
    { attemptsMax: 0 },
    { backoffMs: Number.NaN },
    { backoffMs: -5 },
    { livenessMs: Number.NaN },
    { livenessMs: 0 },
    { headersMs: Number.POSITIVE_INFINITY },
    { connectMs: '10' },
    { unknownName: 1 },
  ]
  for (const odd of policies)
    test(`a policy of ${Object.entries(odd).join()} ends in an answer or a fault`, async () => {
      const { last } = await events(
        ask(request(reset, reset, stream(...answerFrames('hi'))), { policy: { backoffMs: 1, ...odd } }),
      )
      assert.ok(last.type === 'done' || last.fault.category !== 'other', JSON.stringify(last))
    })
  for (const parameters of [
    null,
    true,
    7,
    {},
    { type: 'string' },
    { required: 'a' },
    { required: [7] },
    { properties: null, required: ['__proto__'] },
  ])
    test(`a tool whose schema is ${JSON.stringify(parameters)}`, async () => {
      const made = {
        ...request(stream(role, callStart('c', 'f', '{"a":1}'), finish('tool_calls'), done)),
        tools: [{ type: 'function', function: { name: 'f', parameters } }],
      }
      const { last, calls } = await events(ask(made))
      if (last.type === 'done') assert.deepEqual(calls[0].arguments, { a: 1 })
      else assert.notEqual(last.fault.category, 'other', JSON.stringify(last))
    })
})

describe('streamAnswer and its consumer', { ...LIMIT, concurrency: true }, () => {
  test('an already aborted signal: cancelled, and no request', async () => {
    const made = request(stream(...answerFrames('hi')))
    const { last } = await events(ask(made, { signal: AbortSignal.abort() }))
    assert.equal(last.fault.class, 'cancelled')
    assert.equal(upstream.received(made.model).length, 0)
  })
  for (const [what, play] of Object.entries({ 'before the head': silence, 'in the text': stall(role, text('One')) }))
    test(`an abort ${what}: cancelled, the shown part discarded, the upstream connection closed`, async () => {
      const control = new AbortController()
      const made = request(play)
      void upstream.arrived(made.model).then(() => setTimeout(() => control.abort(), 30))
      const result = await events(ask(made, { signal: control.signal, policy: { ...policy, livenessMs: 60_000 } }))
      assert.equal(result.last.fault.category, 'cancelled')
      assert.equal(result.text, '')
      await upstream.received(made.model)[0]?.gone
    })
  test('an abort during a backoff takes effect immediately', async () => {
    const control = new AbortController()
    const source = ask(request(reset), { signal: control.signal, policy: { attemptsMax: 3, backoffMs: 30_000 } })
    const seen: string[] = []
    for await (const event of source) {
      seen.push(event.type)
      if (event.type === 'attempt-failed') control.abort()
    }
    assert.equal(seen.at(-1), 'fault')
  })
  test('breaking out of the loop closes the connection', async () => {
    const made = request(stall(role, text('One')))
    for await (const event of ask(made, { policy: { ...policy, livenessMs: 60_000 } }))
      if (event.type === 'text-delta') break
    await upstream.received(made.model)[0]?.gone
  })
  test('return() before the first next() sends no request', async () => {
    const made = request(stream(...answerFrames('hi')))
    const iterator = ask(made)[Symbol.asyncIterator]()
    await iterator.return?.()
    assert.equal((await iterator.next()).done, true)
    assert.equal(upstream.received(made.model).length, 0)
  })
  test('next() after the end returns the end again', async () => {
    const iterator = ask(request(stream(...answerFrames('hi'))))[Symbol.asyncIterator]()
    while ((await iterator.next()).done !== true);
    assert.deepEqual(await iterator.next(), { done: true, value: undefined })
  })
  test('two consumers of one answer share its events, and neither hangs nor throws', async () => {
    const source = ask(request(stream(...answerFrames('a', 'b', 'c'))))
    const seen: Json[] = []
    const take = async (): Promise<void> => {
      for await (const event of source) seen.push(event)
    }
    await Promise.all([take(), take()])
    assert.equal(seen.filter(({ type }) => type === 'done').length, 1)
    assert.equal(seen.flatMap((event) => (event.type === 'text-delta' ? [event.text] : [])).join(''), 'abc')
  })
  test('concurrent next() calls are answered in order', async () => {
    const iterator = ask(request(stream(...answerFrames('a'))))[Symbol.asyncIterator]()
    const types = (await Promise.all(Array.from({ length: 30 }, () => iterator.next()))).flatMap(
      ({ value }) => value?.type ?? [],
    )
    assert.equal(types[0], 'attempt-start')
    assert.equal(types.at(-1), 'done')
    assert.equal(types.filter((type) => type === 'done').length, 1)
  })
})

describe('streamAnswer with broken streams', { ...LIMIT, concurrency: true }, () => {
  const breaks: Record<string, Play> = {
    reset,
    'a cut text': cut(role, text('Ha')),
    'an end without proof': stream(role, text('Ha')),
    'a stall': stall(role, text('Ha')),
    'half a frame': half(role, 'data: {"choices":['),
    'a 503': json(503, ''),
    'a cut call': stream(role, callStart('c', 'f', '{"a"'), finish('length'), done),
  }
  for (const [what, play] of Object.entries(breaks))
    test(`${what}, twice: exactly the answer, with each attempt in the ledger`, async () => {
      const { last, text: held } = await events(ask(request(play, play, stream(...answerFrames('All', ' of it.')))))
      assert.equal(last.type, 'done', JSON.stringify(last))
      assert.equal(held, 'All of it.')
      assert.equal(last.ledger.length, 3)
    })
  test("messages over Anthropic's API", async () => {
    const made = {
      ...request(
        reset,
        cut(...messageFrames(textFrames(0, 'x')).slice(0, 4)),
        stream(...messageFrames(textFrames(0, 'Hi'), toolFrames(1, 't', 'f', '{"a"', ':1}'))),
      ),
      api: 'anthropic-messages',
    }
    const { last, text: held, calls } = await events(ask(made))
    assert.equal(last.type, 'done', JSON.stringify(last))
    assert.equal(held, 'Hi')
    assert.deepEqual(
      calls.map((call) => call.arguments),
      [{ a: 1 }],
    )
  })
  test('a missing required argument means a truncated call', async () => {
    const tools = [
      {
        type: 'function',
        function: { name: 'f', parameters: { type: 'object', required: ['a'], properties: { a: {} } } },
      },
    ]
    const call = (args: string): Play => stream(role, callStart('c', 'f'), callMore(args), finish('tool_calls'), done)
    const { last, calls } = await events(ask({ ...request(call('{}'), call('{"a":null}')), tools }))
    assert.equal(last.type, 'done', JSON.stringify(last))
    assert.deepEqual(calls[0].arguments, { a: null })
  })
})
