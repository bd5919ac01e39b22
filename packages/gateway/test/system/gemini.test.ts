/** Gemini behind the gateway, with Google's own client: streamed as events and as an array, and in one piece. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { type GenerateContentResponse, GoogleGenAI } from '@google/genai'
import { calls, chunkOf, geminiAnswer, geminiError, says, stops } from '../../../../test/kit/gemini-frames.ts'
import { fin, head, json, lastChunk, type Play, reset, silence, stream } from '../../../../test/kit/plays.ts'
import type { GatewayOptions } from '../../src/index.ts'
import { post, stand } from '../client.ts'

const TOOLS = [{ functionDeclarations: [{ name: 'run', parametersJsonSchema: { type: 'object', required: ['x'] } }] }]
const POLICY = { backoffMs: 1, attemptsMax: 4, livenessMs: 300, patienceMs: 60_000 }

type Asked = {
  readonly text: string
  readonly chunks: readonly GenerateContentResponse[]
  readonly paths: readonly string[]
}

async function ask(
  t: TestContext,
  plays: readonly Play[],
  options: Partial<GatewayOptions> = {},
  tools = true,
): Promise<Asked> {
  const { gateway, model } = await stand(t, plays, { policy: POLICY, ...options })
  const ai = new GoogleGenAI({ apiKey: 'k', httpOptions: { baseUrl: new URL(gateway.url).origin } })
  const asking = { model: 'gemini-x', contents: 'hi', ...(tools ? { config: { tools: TOOLS } } : {}) }
  const chunks: GenerateContentResponse[] = []
  for await (const chunk of await ai.models.generateContentStream(asking)) chunks.push(chunk)
  const text = chunks
    .flatMap(partsOf)
    .map((part) => part.text ?? '')
    .join('')
  return { text, chunks, paths: model.requests.map(({ path }) => path) }
}

const partsOf = (chunk: GenerateContentResponse) => chunk.candidates?.[0]?.content?.parts ?? []

const BREAKS: Readonly<Record<string, Play>> = {
  'a reset before the head': [reset],
  'a closed connection after text': [head(), says('Howdy'), fin],
  'a clean early end': [head(), says('Howdy'), lastChunk],
  'STOP on an empty first chunk, then a closed connection': [head(), stops(), says('Howdy'), fin],
  'STOP on an empty first chunk, then a clean end': [head(), stops(), says('Howdy'), lastChunk],
  'a 503 inside the stream': stream(says('Howdy'), `data: ${JSON.stringify(geminiError(503, 'UNAVAILABLE'))}\n\n`),
  'a stall': [head(), says('Howdy'), silence],
  'a malformed call': stream(says('Howdy'), chunkOf([], { finishReason: 'MALFORMED_FUNCTION_CALL' })),
  'a status 503': json(503, geminiError(503, 'UNAVAILABLE')),
}

for (const [what, play] of Object.entries(BREAKS))
  test(`@google/genai: ${what}, twice, is invisible to a client that offers tools`, async (t) => {
    const { text, paths } = await ask(t, [play, play, geminiAnswer('Hello', ' world')])
    assert.equal(text, 'Hello world')
    assert.deepEqual(
      paths,
      Array.from({ length: 3 }, () => '/v1beta/models/gemini-x:streamGenerateContent?alt=sse'),
    )
  })

test('@google/genai: after text, a break is healed by the same beginning, with the first id, and is an error otherwise', async (t) => {
  const half: Play = [head(), says('Hello', { id: 'first' }), fin]
  const healed = await ask(t, [half, geminiAnswer('Hell', 'o world')], {}, false)
  assert.equal(healed.text, 'Hello world')
  assert.deepEqual([...new Set(healed.chunks.map(({ responseId }) => responseId))], ['first'])
  await assert.rejects(ask(t, [half, geminiAnswer('Howdy')], {}, false))
})

test('@google/genai: of two calls, none is passed on before the finish reason and the end', async (t) => {
  const first = calls('run', { x: 1 })
  const whole = stream(first, calls('run', { x: 2 }), stops())
  for (const hold of ['auto', 'tools', 'answer'] as const) {
    const { chunks } = await ask(t, [[head(), first, fin], stream(first), whole], { hold })
    const args = chunks.flatMap(partsOf).flatMap(({ functionCall }) => (functionCall ? [functionCall.args] : []))
    assert.deepEqual(args, [{ x: 1 }, { x: 2 }], hold)
  }
  const { gateway } = await stand(t, [stream(first)], { policy: { attemptsMax: 2 }, hold: 'tools' })
  const url = `${new URL(gateway.url).origin}/v1beta/models/m:streamGenerateContent?alt=sse`
  const res = await post(url, { contents: [] })
  assert.equal(res.status, 502)
  assert.equal((await res.text()).includes('functionCall'), false)
})

test('a thoughtSignature and unknown fields arrive byte for byte', async (t) => {
  const odd = `data: {"candidates": [{"content":{"parts":[{"text":"Hm","thought":true},{"functionCall":{"name":"run","args":{"x":1}},"thoughtSignature":"CiQB\\u003d=/+"}],"role":"model"},"odd":1.50}]}\n\n`
  const { gateway } = await stand(t, [[head(), odd, stops(), fin], stream(odd, stops())], { policy: POLICY })
  const url = `${new URL(gateway.url).origin}/v1beta/models/m:streamGenerateContent?alt=sse`
  assert.equal(await (await post(url, { contents: [], tools: TOOLS })).text(), odd + stops())
})

test('without alt=sse the client gets one JSON array, healed', async (t) => {
  const { gateway, model } = await stand(t, [[head(), says('Howdy'), fin], geminiAnswer('Hello', ' world')], {
    policy: POLICY,
  })
  const url = `${new URL(gateway.url).origin}/v1beta/models/m:streamGenerateContent?key=k`
  const res = await post(url, { contents: [], tools: TOOLS })
  assert.match(res.headers.get('content-type') ?? '', /^application\/json/)
  const chunks = (await res.json()) as GenerateContentResponse[]
  assert.equal(
    chunks
      .flatMap(partsOf)
      .map((part) => part.text)
      .join(''),
    'Hello world',
  )
  assert.equal(model.requests[0]?.path, '/v1beta/models/m:streamGenerateContent?key=k&alt=sse')
})

test('@google/genai: generateContent is retried, and RetryInfo is obeyed', async (t) => {
  const later = geminiError(429, 'RESOURCE_EXHAUSTED', [
    { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '0.2s' },
  ])
  const good = { candidates: [{ content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }] }
  const { gateway, model } = await stand(t, [json(429, later), [reset], json(200, good)], { policy: POLICY })
  const delays: (number | undefined)[] = []
  gateway.watch.subscribe((note) => {
    if (note?.kind === 'fault') delays.push(Number(/in (\d+) ms/.exec(note.text)?.[1]))
  })
  const ai = new GoogleGenAI({ apiKey: 'k', httpOptions: { baseUrl: new URL(gateway.url).origin } })
  const { text } = await ai.models.generateContent({ model: 'gemini-x', contents: 'hi' })
  assert.equal(text, 'Hi')
  assert.equal(model.requests.length, 3)
  assert.ok((delays[0] ?? 0) >= 200, String(delays))
})

test('other paths of that API pass through, and errors have its shape', async (t) => {
  const { gateway, model } = await stand(t, [json(200, { totalTokens: 3 })])
  const { origin } = new URL(gateway.url)
  const counted = await post(`${origin}/v1beta/models/m:countTokens`, { contents: [] })
  assert.deepEqual(await counted.json(), { totalTokens: 3 })
  assert.equal(model.requests[0]?.path, '/v1beta/models/m:countTokens')
  await model.close()
  const refused = await post(
    `${origin}/v1beta/models/m:generateContent`,
    { contents: [] },
    { signal: AbortSignal.timeout(60_000) },
  )
  assert.equal(((await refused.json()) as { error: { status: string } }).error.status, 'UNAVAILABLE')
})
