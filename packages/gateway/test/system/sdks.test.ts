/** Real clients, unchanged, through the gateway: each fault alone, before content and after it. */
import { untyped } from '../../../../test/kit/json.ts'
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { OpenAIChatCompletionsModel, setTracingDisabled } from '@openai/agents'
import { jsonSchema, stepCountIs, streamText, tool as aiTool } from 'ai'
import OpenAI from 'openai'
import {
  blockJson,
  blockStart,
  blockText,
  errorEvent,
  message,
  messageDelta,
  messageStart,
  messageStop,
  textBlock,
  toolMessage,
} from '../../../../test/kit/anthropic-frames.ts'
import { type Exchange } from '../../../../test/kit/exchange.ts'
import {
  answer,
  callMore,
  callStart,
  done,
  finish,
  frame,
  role,
  text,
  toolAnswer,
} from '../../../../test/kit/openai-frames.ts'
import { fin, head, json, lastChunk, type Play, reset, silence } from '../../../../test/kit/plays.ts'
import { stand } from '../client.ts'
import { listWithAgents, PARAMETERS } from '../lister.ts'

setTracingDisabled(true)

const POLICY = { livenessMs: 400, headersMs: 400 }

/** The first step asks for a tool; the step with its result answers. */
const agentStep = (request: Exchange): Play =>
  JSON.stringify(request.body['messages']).includes('README')
    ? answer('The only file ', 'is README')
    : toolAnswer('bash', '{"command":"ls"}', [text('Let me look. ')])

/** Breaks the first attempt at each step, then answers correctly. */
const breakingOnce = (broken: Play, proper: (request: Exchange) => Play) =>
  (() => {
    const seen = new Set<string>()
    return (request: Exchange): Play => {
      if (seen.has(request.text)) return proper(request)
      seen.add(request.text)
      return broken
    }
  })()

const openingCall: readonly Play[] = [head(), role, callStart('call_1', 'bash'), callMore('{"comm')]
const FAULTS: readonly (readonly [string, Play])[] = [
  ['a reset before the headers', [reset]],
  ['a close before the headers', [fin]],
  ['a server that never answers', [silence]],
  ['a break after the role', [head(), role, reset]],
  ['a clean early end', [head(), role, lastChunk]],
  ['a stall', [head(), role, silence]],
  ['status 500', json(500, {})],
  ['status 429 with a wait', json(429, {}, { 'retry-after-ms': '1' })],
  ['an error inside the stream', [head(), role, frame({ error: { message: 'x', type: 'server_error' } }), lastChunk]],
  ['a malformed line', [head(), role, frame('{"choices":[oops'), silence]],
  ['cut arguments with a finish reason', [...openingCall, finish('tool_calls'), done, lastChunk]],
  ['arguments cut by the length limit', [...openingCall, finish('length'), done, lastChunk]],
  ['a call by name only', [head(), role, callStart('call_1', 'bash'), finish('tool_calls'), done, lastChunk]],
  ['a break inside a call', [...openingCall, reset]],
]

const prompt = [{ role: 'user' as const, content: 'which files?' }]

async function openAiRun(baseURL: string): Promise<string> {
  const ran: string[] = []
  const runner = new OpenAI({ baseURL, apiKey: 'k', maxRetries: 0 }).chat.completions.runTools({
    model: 'fake-1',
    stream: true,
    messages: prompt,
    tools: [
      {
        type: 'function',
        function: {
          name: 'bash',
          description: 'runs a command',
          parameters: untyped(PARAMETERS),
          parse: JSON.parse,
          function: ({ command }: { command: string }) => {
            ran.push(command)
            return 'README'
          },
        },
      },
    ],
  })
  const content = await runner.finalContent()
  assert.deepEqual(ran, ['ls'])
  return content ?? ''
}

async function aiRun(baseURL: string): Promise<string> {
  const ran: string[] = []
  const result = streamText({
    model: createOpenAICompatible({ name: 'fake', baseURL }).chatModel('fake-1'),
    messages: prompt,
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

const agentsRun = (baseURL: string): Promise<string> => {
  const client = new OpenAI({ baseURL, apiKey: 'k', maxRetries: 0 })
  return listWithAgents(new OpenAIChatCompletionsModel(untyped(client), 'fake-1'))
}

for (const [client, run] of [
  ['openai runTools', openAiRun],
  ['ai', aiRun],
  ['@openai/agents', agentsRun],
] as const) {
  for (const [what, broken] of FAULTS) {
    test(`${client}: ${what} at every step is invisible to the client, and the tool runs once`, async (t) => {
      const { gateway, model } = await stand(t, breakingOnce(broken, agentStep), { policy: POLICY })
      assert.equal(await run(gateway.url), 'The only file is README')
      assert.equal(model.requests.length, 4)
    })
  }
}

// ---- after content ----

const AFTER: readonly (readonly [string, readonly Play[]])[] = [
  ['a reset', [reset]],
  ['a close', [fin]],
  ['a clean early end', [lastChunk]],
  ['a stall', [silence]],
  ['an error inside the stream', [frame({ error: { message: 'x', type: 'overloaded_error' } }), lastChunk]],
  ['a malformed line', [frame('{oops'), silence]],
]

const openai = (baseURL: string): OpenAI => new OpenAI({ baseURL, apiKey: 'k', maxRetries: 0 })

async function created(t: TestContext, plays: readonly Play[], hold?: 'answer'): Promise<string> {
  const { gateway } = await stand(t, plays, { policy: POLICY, ...(hold === undefined ? {} : { hold }) })
  const stream = await openai(gateway.url).chat.completions.create({ model: 'm', messages: prompt, stream: true })
  let held = ''
  for await (const chunk of stream) held += chunk.choices[0]?.delta.content ?? ''
  return held
}

for (const [what, acts] of AFTER) {
  const half: Play = [head(), role, text('Hello'), text(' wo'), ...acts]
  test(`openai create: ${what} after content is healed by an answer with the same start`, async (t) => {
    assert.equal(await created(t, [half, answer('Hell', 'o world')]), 'Hello world')
  })
  test(`openai create: ${what} after content, followed by a different answer, is an error and never doubled text`, async (t) => {
    await assert.rejects(created(t, [half, answer('Howdy')]))
  })
  test(`openai create: ${what} after content is healed by any answer, with hold answer`, async (t) => {
    assert.equal(await created(t, [half, answer('Howdy')], 'answer'), 'Howdy')
  })
}

// ---- Anthropic ----

const anthropicStep = (request: Exchange): Play =>
  JSON.stringify(request.body['messages']).includes('README')
    ? message('The only file ', 'is README')
    : toolMessage('bash', '{"command":"ls"}')
const openingUse: readonly Play[] = [
  head(),
  messageStart,
  blockStart(0, { type: 'tool_use', id: 't', name: 'bash', input: {} }),
  blockJson(0, '{"comm'),
]

const ANTHROPIC_FAULTS: readonly (readonly [string, Play])[] = [
  ['a reset before the headers', [reset]],
  ['a break after message_start', [head(), messageStart, reset]],
  ['a clean early end', [head(), messageStart, textBlock(0), lastChunk]],
  ['a stall', [head(), messageStart, silence]],
  ['status 529', json(529, { type: 'error', error: { type: 'overloaded_error', message: 'x' } })],
  ['an overloaded error inside the stream', [head(), messageStart, errorEvent('overloaded_error', 'x'), lastChunk]],
  ['a break inside a tool_use', [...openingUse, reset]],
  ['a tool_use cut by max_tokens', [...openingUse, messageDelta('max_tokens'), messageStop, lastChunk]],
]

async function anthropicRun(url: string): Promise<string> {
  const client = new Anthropic({ baseURL: url.replace(/\/v1$/, ''), apiKey: 'k', maxRetries: 0 })
  const messages: Anthropic.MessageParam[] = [...prompt]
  const ran: unknown[] = []
  for (let step = 0; step < 4; step++) {
    const tools = [{ name: 'bash', input_schema: { ...PARAMETERS, required: ['command'] } }]
    const final = await client.messages.stream({ model: 'm', max_tokens: 99, messages, tools }).finalMessage()
    const use = final.content.find((block) => block.type === 'tool_use')
    if (use === undefined) {
      assert.deepEqual(ran, [{ command: 'ls' }])
      return final.content.map((block) => (block.type === 'text' ? block.text : '')).join('')
    }
    ran.push(use.input)
    messages.push({ role: 'assistant', content: final.content })
    messages.push({ role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'README' }] })
  }
  return assert.fail('it never ended')
}

for (const [what, broken] of ANTHROPIC_FAULTS) {
  test(`@anthropic-ai/sdk: ${what} at every step is invisible to the client, and the tool runs once`, async (t) => {
    const { gateway } = await stand(t, breakingOnce(broken, anthropicStep), { policy: POLICY })
    assert.equal(await anthropicRun(gateway.url), 'The only file is README')
  })
}

test('@anthropic-ai/sdk: a break after content is healed in the same block, or is an error', async (t) => {
  const half: Play = [head(), messageStart, textBlock(0), blockText(0, 'Hel'), reset]
  const healed = await stand(t, [half, message('Hello')], { policy: POLICY })
  const ask = (url: string) =>
    new Anthropic({ baseURL: url.replace(/\/v1$/, ''), apiKey: 'k', maxRetries: 0 }).messages
      .stream({ model: 'm', max_tokens: 9, messages: prompt })
      .finalMessage()
  assert.deepEqual(
    (await ask(healed.gateway.url)).content.map((block) => block.type === 'text' && block.text),
    ['Hello'],
  )
  const lost = await stand(t, [half, message('Howdy')], { policy: POLICY })
  await assert.rejects(ask(lost.gateway.url), Anthropic.AnthropicError)
})

// ---- only one side retries ----

test('clients with their own retries do not repeat attempts that the gateway has used up', async (t) => {
  const { gateway, model } = await stand(t, [json(500, {})])
  await assert.rejects(
    new OpenAI({ baseURL: gateway.url, apiKey: 'k' }).chat.completions.create({ model: 'm', messages: prompt }),
    { status: 500 },
  )
  assert.equal(model.requests.length, 3)
  const other = await stand(t, [json(529, {})])
  const client = new Anthropic({ baseURL: other.gateway.url.replace(/\/v1$/, ''), apiKey: 'k' })
  await assert.rejects(client.messages.create({ model: 'm', max_tokens: 9, messages: prompt }), { status: 529 })
  assert.equal(other.model.requests.length, 3)
})

test('openai lists models through the gateway', async (t) => {
  const { gateway } = await stand(t, [json(200, { object: 'list', data: [{ id: 'fake-1' }] })])
  assert.equal((await openai(gateway.url).models.list()).data[0]?.id, 'fake-1')
})
