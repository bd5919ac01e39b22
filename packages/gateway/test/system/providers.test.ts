/** Providers with other paths or framings, behind the gateway: healed, with every cut, in the form that their clients read. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { EventStreamReader, eventStreamFrame, framed } from '../../../model/src/lib/event-stream.ts'
import { message, messageFrames, textFrames, toolFrames } from '../../../../test/kit/anthropic-frames.ts'
import { geminiAnswer } from '../../../../test/kit/gemini-frames.ts'
import { bytes, fin, head, json, lastChunk, type Play, reset } from '../../../../test/kit/plays.ts'
import { answer } from '../../../../test/kit/openai-frames.ts'
import { framesIn } from '../../../../test/kit/sse.ts'
import { startGateway } from '../../src/index.ts'
import { post, stand } from '../client.ts'

const POLICY = { backoffMs: 1, attemptsMax: 4, livenessMs: 300 }
const at = (url: string, path: string): string => new URL(path, url).href

// ---- Bedrock ----

const INVOKE = '/model/anthropic.claude-x-v1%3A0/invoke-with-response-stream'
const CLAUDE = { anthropic_version: 'bedrock-2023-05-31', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] }
const TOOLS = { tools: [{ name: 'ls', input_schema: { type: 'object', required: ['path'] } }] }
const AWS = { 'content-type': 'application/vnd.amazon.eventstream' }

/** The events of a message as Bedrock frames them, padded as it pads them. */
const chunks = (events: readonly string[]): readonly Buffer[] =>
  events.map((event, place) => {
    const data = /^data: (.*)$/m.exec(event)?.[1] ?? ''
    return eventStreamFrame({ event: `chunk ${'abcdefghijklmno'.slice(0, 1 + (place % 15))}`, data })
  })
const TEXT = chunks(messageFrames(textFrames(0, 'Hel', 'lo ', 'wor', 'ld')))
const CALL = chunks(messageFrames(textFrames(0, 'So'), toolFrames(1, 'tu_1', 'ls', '{"pa', 'th":"."}')))
const exception = (type: string, text: string): Buffer =>
  framed(
    { ':exception-type': type, ':content-type': 'application/json', ':message-type': 'exception' },
    JSON.stringify({ message: text }),
  )

/** What a client of Bedrock reads: strict about every frame. */
function readBedrock(body: Buffer): {
  readonly text: string
  readonly call: string
  readonly types: readonly string[]
} {
  const reader = new EventStreamReader()
  const { frames } = framesIn(reader.push(body) + reader.end())
  const events = frames.map(({ data }) => JSON.parse(data) as { type: string; delta?: Record<string, string> })
  const all = (key: string): string => events.map(({ delta }) => delta?.[key] ?? '').join('')
  return { text: all('text'), call: all('partial_json'), types: events.map(({ type }) => type) }
}

async function invoke(t: TestContext, plays: readonly Play[], body: object = CLAUDE) {
  const { gateway, model } = await stand(t, plays, { policy: POLICY })
  const res = await post(at(gateway.url, INVOKE), body, { headers: { authorization: 'Bearer bedrock-api-key' } })
  const read = res.arrayBuffer().then((got) => Buffer.from(got))
  return { res, body: await read.catch((error: unknown) => error), requests: model.requests }
}

test('Bedrock: an unbroken stream arrives byte for byte, with its path, key and framing', async (t) => {
  for (const frames of [TEXT, CALL]) {
    const { res, body, requests } = await invoke(t, [[head(200, AWS), ...frames, lastChunk]], { ...CLAUDE, ...TOOLS })
    assert.equal(res.headers.get('content-type'), AWS['content-type'])
    assert.deepEqual(body, Buffer.concat(frames))
    assert.equal(requests[0]?.path, INVOKE)
    assert.equal(requests[0]?.headers['authorization'], 'Bearer bedrock-api-key')
  }
})

test('Bedrock: a stream that is cut after any frame, or inside one, is healed', async (t) => {
  for (const [frames, tools] of [
    [TEXT, {}],
    [CALL, TOOLS],
  ] as const)
    for (let cut = 0; cut < frames.length; cut++) {
      const before = frames.slice(0, cut)
      const half = frames[cut]?.subarray(0, cut % 2 === 0 ? 0 : 17) ?? Buffer.alloc(0)
      for (const end of [fin, lastChunk]) {
        const broken: Play = [head(200, AWS), ...before, ...(half.length === 0 ? [] : [half]), end]
        const { body, requests } = await invoke(t, [broken, [head(200, AWS), ...frames, lastChunk]], {
          ...CLAUDE,
          ...tools,
        })
        assert.ok(Buffer.isBuffer(body), `cut after ${cut}: ${String(body)}`)
        const got = readBedrock(body)
        const [text, call] = frames === TEXT ? ['Hello world', ''] : ['So', '{"path":"."}']
        assert.deepEqual([got.text, got.call, got.types.at(-1)], [text, call, 'message_stop'], `cut after ${cut}`)
        assert.equal(got.types.filter((type) => type === 'message_start').length, 1)
        assert.ok(requests.length <= 2)
      }
    }
})

test('Bedrock: a wrong checksum and an exception are failures like any other, before and after text', async (t) => {
  for (const place of [1, 4]) {
    const wrong = Buffer.from(TEXT[place] ?? [])
    wrong.writeUInt8(wrong.readUInt8(wrong.length - 6) ^ 1, wrong.length - 6)
    for (const bad of [
      wrong,
      exception('modelStreamErrorException', 'try again'),
      exception('throttlingException', 'slow down'),
    ]) {
      const { body, requests } = await invoke(t, [
        [head(200, AWS), ...TEXT.slice(0, place), bad, lastChunk],
        [head(200, AWS), ...TEXT, lastChunk],
      ])
      assert.ok(Buffer.isBuffer(body))
      assert.equal(readBedrock(body).text, 'Hello world')
      assert.equal(requests.length, 2)
    }
  }
})

test('Bedrock: an exception that stays is passed on unchanged, and before any text with the status that it means', async (t) => {
  const last = exception('validationException', 'the input is too long')
  const early = await invoke(t, [[head(200, AWS), last, lastChunk]])
  assert.equal(early.res.status, 400)
  assert.deepEqual(JSON.parse(String(early.body)), { message: 'the input is too long' })
  const late = await invoke(t, [[head(200, AWS), ...TEXT.slice(0, 4), last, lastChunk]])
  assert.deepEqual(late.body, Buffer.concat([...TEXT.slice(0, 4), last]))
})

test('Bedrock: an answer in one piece, a refusal of AWS, and an upstream that is away are in its own form', async (t) => {
  const whole = { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'hi' }], stop_reason: 'end_turn' }
  const { gateway, model } = await stand(t, [
    json(503, { message: 'busy' }),
    json(200, whole),
    json(400, { message: 'Malformed' }),
  ])
  const url = at(gateway.url, '/model/m/invoke')
  assert.deepEqual(await (await post(url, CLAUDE)).json(), whole)
  const refused = await post(url, CLAUDE)
  assert.deepEqual([refused.status, await refused.json()], [400, { message: 'Malformed' }])
  await model.close()
  const away = await post(url, CLAUDE)
  assert.equal(away.status, 503)
  assert.match(((await away.json()) as { message: string }).message, /Breakfall/)
})

test('Bedrock: another model’s body passes with a mark; so does Converse', async (t) => {
  const { gateway } = await stand(t, [json(200, { ok: true })])
  for (const [path, body] of [
    [INVOKE, { inputText: 'hi' }],
    ['/model/amazon.nova/converse-stream', { messages: [] }],
  ] as const) {
    const res = await post(at(gateway.url, path), body)
    assert.deepEqual([res.headers.get('x-breakfall-healed'), await res.json()], ['false', { ok: true }])
  }
  assert.equal(gateway.stats().totals.unhealed, 2)
})

test('a request that is signed for the gateway is refused with advice, unless the upstream has its own key', async (t) => {
  const { gateway, model } = await stand(t, [[head(200, AWS), ...TEXT, lastChunk]])
  const signed = {
    authorization: 'AWS4-HMAC-SHA256 Credential=AKIA/20261120/eu/bedrock/aws4_request, SignedHeaders=host, Signature=0',
  }
  const res = await post(at(gateway.url, INVOKE), CLAUDE, { headers: signed })
  assert.equal(res.status, 400)
  assert.match(
    ((await res.json()) as { message: string }).message,
    /signed for 127\.0\.0\.1:\d+, so AWS would refuse it\. .*AWS_BEARER_TOKEN_BEDROCK/,
  )
  assert.equal(model.requests.length, 0)
  const own = await startGateway({
    upstream: { url: model.url, headers: { Authorization: 'Bearer own' } },
    logger: false,
    limits: { closeMs: 50 },
  })
  t.after(() => own.close())
  assert.equal((await post(at(own.url, INVOKE), CLAUDE, { headers: signed })).status, 200)
  assert.equal(model.requests[0]?.headers['authorization'], 'Bearer own')
})

// ---- Vertex AI, Azure ----

test('Vertex AI: Claude and Gemini are healed under their own paths, and counting their tokens is no answer', async (t) => {
  const claude = '/v1/projects/p/locations/l/publishers/anthropic/models/claude@1'
  const gemini = '/v1/projects/p/locations/l/publishers/google/models/g'
  const { gateway, model } = await stand(t, (request, index) => {
    if (request.path.includes('count')) return json(200, { input_tokens: 5 })
    if (index % 2 === 0) return [reset]
    return request.path.includes('google') ? geminiAnswer('Hi') : message('Hi')
  })
  const body = { anthropic_version: 'vertex-2023-10-16', max_tokens: 9, stream: true, messages: CLAUDE.messages }
  assert.match(await (await post(at(gateway.url, `${claude}:streamRawPredict`), body)).text(), /message_stop/)
  const said = await post(at(gateway.url, `${gemini}:streamGenerateContent?alt=sse`), { contents: [] })
  assert.match(await said.text(), /"text":"Hi"/)
  const counted = await post(at(gateway.url, claude.replace('claude@1', 'count-tokens:rawPredict')), body)
  assert.deepEqual(await counted.json(), { input_tokens: 5 })
  const paths = [`${claude}:streamRawPredict`, `${gemini}:streamGenerateContent?alt=sse`]
  assert.deepEqual(
    model.requests.map(({ path }) => path),
    [...paths.flatMap((path) => [path, path]), claude.replace('claude@1', 'count-tokens:rawPredict')],
  )
  assert.equal(gateway.stats().totals.healed, 2)
})

test('Azure: a deployment is healed at its own path, with its version and key', async (t) => {
  const path = '/openai/deployments/gpt-5/chat/completions?api-version=2026-01-01'
  const { gateway, model } = await stand(t, (_, index) => (index === 0 ? [reset] : answer('Hi')))
  const body = { messages: [{ role: 'user', content: 'hi' }], stream: true }
  const res = await post(at(gateway.url, path), body, { headers: { 'api-key': 'mine' } })
  assert.match(await res.text(), /Hi[^]*\[DONE\]/)
  assert.deepEqual(
    model.requests.map((request) => [request.path, request.headers['api-key']]),
    [path, path].map((asked) => [asked, 'mine']),
  )
})

// ---- Ollama ----

const NDJSON = { 'content-type': 'application/x-ndjson' }
const stamp = { model: 'q', created_at: '2026-11-20T00:00:00.123456789Z' }
const lineOf = (json: object): string => `${JSON.stringify({ ...stamp, ...json })}\n`
const says = (content: string, more: object = {}): string =>
  lineOf({ message: { role: 'assistant', content, ...more }, done: false })
const done = (reason = 'stop'): string =>
  lineOf({
    message: { role: 'assistant', content: '' },
    done: true,
    done_reason: reason,
    eval_count: 3,
    total_duration: 123456,
  })
const OLLAMA = { model: 'q', messages: [{ role: 'user', content: 'hi' }] }
const CALLS = { tool_calls: [{ function: { name: 'ls', arguments: { path: '.' } } }] }
const LINES = [
  says('', { thinking: 'Hm' }),
  says('', { thinking: 'm.' }),
  says('Hel'),
  says('lö 😀'),
  says('', CALLS),
  done(),
]

const linesIn = (text: string) =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map(
      (line) =>
        JSON.parse(line) as { message: { content: string; thinking?: string; tool_calls?: object[] }; done: boolean },
    )

test('Ollama: an unbroken stream arrives byte for byte, as lines', async (t) => {
  const { gateway, model } = await stand(t, [[head(200, NDJSON), ...LINES, lastChunk]])
  const res = await post(at(gateway.url, '/api/chat'), OLLAMA)
  assert.equal(res.headers.get('content-type'), 'application/x-ndjson')
  assert.equal(await res.text(), LINES.join(''))
  assert.equal(model.requests[0]?.path, '/api/chat')
})

test('Ollama: a stream that is cut at any byte, inside a character or a line, is healed', async (t) => {
  const all = Buffer.from(LINES.join(''))
  const { gateway, model } = await stand(t, (_, index) =>
    index % 2 === 1
      ? [head(200, NDJSON), ...LINES, lastChunk]
      : [head(200, NDJSON), all.subarray(0, index * 4), index % 4 === 0 ? fin : lastChunk],
  )
  for (let cut = 0; model.requests.length * 4 < all.length; cut++) {
    const text = await (await post(at(gateway.url, '/api/chat'), OLLAMA)).text()
    const lines = linesIn(text)
    const joined = (key: 'content' | 'thinking'): string => lines.map(({ message: said }) => said[key] ?? '').join('')
    assert.deepEqual([joined('thinking'), joined('content')], ['Hmm.', 'Hellö 😀'], `request ${cut}`)
    assert.deepEqual(
      lines.flatMap(({ message: said }) => said.tool_calls ?? []),
      CALLS.tool_calls,
    )
    assert.deepEqual([lines.at(-1)?.done, lines.filter((line) => line.done).length], [true, 1])
  }
})

test('Ollama: an error in the stream, an empty answer, and an answer that only loads the model', async (t) => {
  const { gateway, model } = await stand(t, [
    [head(200, NDJSON), '{"error":"model runner has unexpectedly stopped"}\n', lastChunk],
    [head(200, NDJSON), done(), lastChunk],
    [head(200, NDJSON), says('Hi'), done(), lastChunk],
    [head(200, NDJSON), done('load'), lastChunk],
    json(200, { ...stamp, response: 'whole', done: true, done_reason: 'stop' }),
    json(404, { error: 'model "q" not found' }),
  ])
  const url = at(gateway.url, '/api/chat')
  assert.equal(await (await post(url, OLLAMA)).text(), says('Hi') + done())
  assert.equal(model.requests.length, 3)
  assert.equal(await (await post(url, OLLAMA)).text(), done('load'))
  const whole = await post(at(gateway.url, '/api/generate'), { model: 'q', prompt: 'hi', stream: false })
  assert.deepEqual(await whole.json(), { ...stamp, response: 'whole', done: true, done_reason: 'stop' })
  const missing = await post(url, OLLAMA)
  assert.deepEqual([missing.status, await missing.json()], [404, { error: 'model "q" not found' }])
})

test('Ollama: /api/generate is healed in the middle of its text', async (t) => {
  const says = (response: string): string => lineOf({ response, done: false })
  const last = lineOf({ response: '', done: true, done_reason: 'stop', context: [1, 2] })
  const { gateway } = await stand(
    t,
    [
      [head(200, NDJSON), says('Hel'), bytes('8\r\n{"model"\r\n'), fin],
      [head(200, NDJSON), says('H'), says('ello'), last, lastChunk],
    ],
    { hold: 'none' },
  )
  const text = await (await post(at(gateway.url, '/api/generate'), { model: 'q', prompt: 'hi' })).text()
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { response: string })
  assert.equal(lines.map(({ response }) => response).join(''), 'Hello')
  assert.ok(text.endsWith(last))
})
