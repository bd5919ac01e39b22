/** Real clients of the Responses API, unchanged, through the gateway: each fault before content and after it. */
import { untyped } from '../../../../test/kit/json.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOpenAI } from '@ai-sdk/openai'
import { ChatOpenAI } from '@langchain/openai'
import { Agent, OpenAIResponsesModel, Runner, setTracingDisabled } from '@openai/agents'
import { jsonSchema, stepCountIs, streamText, tool as aiTool } from 'ai'
import OpenAI from 'openai'
import { type Exchange } from '../../../../test/kit/exchange.ts'
import { fin, head, json, lastChunk, type Play, reset, silence } from '../../../../test/kit/plays.ts'
import {
  callItem,
  failedEvent,
  flatError,
  messageItem,
  nestedError,
  responded,
  responding,
  responseFrames,
  unnumbered,
  upToDelta,
} from '../../../../test/kit/responses-frames.ts'
import { stand } from '../client.ts'
import { listWithAgents, PARAMETERS } from '../lister.ts'

setTracingDisabled(true)

const POLICY = { livenessMs: 400, headersMs: 400 }

const CALL = callItem('bash', '{"command":"ls"}')
const THE_CALL = responseFrames([CALL])

/** The first step asks for a tool; the step with its result answers. */
const agentStep = (request: Exchange): Play =>
  JSON.stringify(request.body['input']).includes('README')
    ? responded('The only file ', 'is README')
    : responding([CALL])

/** Breaks the first attempt at each step, then answers correctly. */
function breakingOnce(broken: Play): (request: Exchange) => Play {
  const seen = new Set<string>()
  return (request) => {
    if (seen.has(request.text)) return agentStep(request)
    seen.add(request.text)
    return broken
  }
}

const begun = THE_CALL.slice(0, 2)
const FAULTS: readonly (readonly [string, Play])[] = [
  ['a reset before the headers', [reset]],
  ['a server that never answers', [silence]],
  ['a break after response.created', [head(), ...begun, reset]],
  ['a clean early end', [head(), ...begun, lastChunk]],
  ['a stall', [head(), ...begun, silence]],
  ['status 500', json(500, {})],
  ['status 429 with a wait', json(429, {}, { 'retry-after-ms': '1' })],
  ['a flat error', [head(), ...begun, flatError('server_error'), lastChunk]],
  [
    'a nested error and response.failed',
    [head(), ...begun, nestedError('server_error'), failedEvent('server_error'), lastChunk],
  ],
  ['response.failed alone', [head(), ...begun, failedEvent('rate_limit_exceeded'), lastChunk]],
  ['a malformed line', [head(), ...begun, 'data: {"type":"resp\n\n', silence]],
  ['a break inside a call', [head(), ...upToDelta(THE_CALL, 1), fin]],
  ['a break between a finished call and the terminal event', [head(), ...THE_CALL.slice(0, -1), reset]],
  ['a completed answer whose call is cut', responding([callItem('bash', '{"comm')])],
  ['a completed answer with nothing in it', responding([])],
]

const openai = (baseURL: string): OpenAI => new OpenAI({ baseURL, apiKey: 'k', maxRetries: 0 })

async function openAiRun(baseURL: string): Promise<string> {
  const ran: string[] = []
  const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: 'which files?' }]
  for (let step = 0; step < 4; step++) {
    const tools = [{ type: 'function' as const, name: 'bash', parameters: untyped(PARAMETERS), strict: true }]
    const final = await openai(baseURL)
      .responses.stream(untyped({ model: 'm', input, tools }))
      .finalResponse()
    const call = final.output.find((item) => item.type === 'function_call')
    if (call === undefined) {
      assert.deepEqual(ran, ['{"command":"ls"}'])
      return final.output_text
    }
    ran.push(call.arguments)
    input.push(untyped(call), { type: 'function_call_output', call_id: call.call_id, output: 'README' })
  }
  return assert.fail('it never ended')
}

async function aiRun(baseURL: string): Promise<string> {
  const ran: string[] = []
  const result = streamText({
    model: createOpenAI({ baseURL, apiKey: 'k' }).responses('m'),
    prompt: 'which files?',
    maxRetries: 0,
    stopWhen: stepCountIs(4),
    tools: {
      bash: aiTool({
        inputSchema: jsonSchema<{ command: string }>(untyped(PARAMETERS)),
        execute: ({ command }) => {
          ran.push(command)
          return 'README'
        },
      }),
    },
  })
  const answered = await result.text
  assert.deepEqual(ran, ['ls'])
  return answered
}

const agentsRun = (baseURL: string): Promise<string> =>
  listWithAgents(new OpenAIResponsesModel(untyped(openai(baseURL)), 'm'))

for (const [client, run] of [
  ['openai responses.stream', openAiRun],
  ['ai', aiRun],
  ['@openai/agents', agentsRun],
] as const) {
  for (const [what, broken] of FAULTS) {
    test(`${client}: ${what} at every step is invisible to the client, and the tool runs once`, async (t) => {
      const { gateway, model } = await stand(t, breakingOnce(broken), { policy: POLICY })
      assert.equal(await run(gateway.url), 'The only file is README')
      assert.equal(model.requests.length, 4)
    })
  }
}

// ---- after content ----

const TEXTS = ['Hel', 'lo', ' wor', 'ld']
const HALF = upToDelta(responseFrames([messageItem(TEXTS)]), 3)

/** What each client holds of a streamed answer; rejects if the client reports a failure. */
const CLIENTS: Readonly<Record<string, (baseURL: string) => Promise<string>>> = {
  'openai create': async (baseURL) => {
    const stream = await openai(baseURL).responses.create({ model: 'm', input: 'hi', stream: true })
    let held = ''
    for await (const event of stream) if (event.type === 'response.output_text.delta') held += event.delta
    return held
  },
  'openai .stream()': async (baseURL) =>
    (await openai(baseURL).responses.stream({ model: 'm', input: 'hi' }).finalResponse()).output_text,
  ai: async (baseURL) => {
    const model = createOpenAI({ baseURL, apiKey: 'k' }).responses('m')
    const result = streamText({ model, prompt: 'hi', maxRetries: 0, onError: () => undefined })
    let held = ''
    for await (const part of result.fullStream) {
      if (part.type === 'error') throw part.error
      if (part.type === 'text-delta') held += part.text
    }
    return held
  },
  '@openai/agents': async (baseURL) => {
    const model = new OpenAIResponsesModel(untyped(openai(baseURL)), 'm')
    const result = await new Runner({ tracingDisabled: true }).run(new Agent({ name: 'a', model }), 'hi', {
      stream: true,
    })
    await result.completed
    return String(result.finalOutput)
  },
  '@langchain/openai': async (baseURL) => {
    const chat = new ChatOpenAI({
      model: 'm',
      apiKey: 'k',
      useResponsesApi: true,
      maxRetries: 0,
      configuration: { baseURL },
    })
    let held = ''
    for await (const chunk of await chat.stream('hi')) held += chunk.text
    return held
  },
}

for (const [name, ask] of Object.entries(CLIENTS)) {
  test(`${name}: a break after content is healed by an answer with the same start`, async (t) => {
    const { gateway } = await stand(t, [[head(), ...HALF, reset], responded('Hello ', 'world')], { policy: POLICY })
    assert.equal(await ask(gateway.url), 'Hello world')
  })

  test(`${name}: a break that cannot be healed is a failure, never a short answer`, async (t) => {
    const { gateway } = await stand(t, [[head(), ...HALF, lastChunk], responded('Howdy')], { policy: POLICY })
    await assert.rejects(ask(gateway.url))
  })

  test(`${name}: a stream without numbers and indexes works`, async (t) => {
    const play = [head(), ...unnumbered(responseFrames([messageItem(TEXTS)])), lastChunk]
    const { gateway } = await stand(t, [play], { policy: POLICY })
    assert.equal(await ask(gateway.url), 'Hello world')
  })
}
