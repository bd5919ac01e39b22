/** Unmodified SDKs through the gateway, with an upstream that breaks at the worst moments. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { shared } from '../shared.ts'
import {
  messageDelta,
  messageStart,
  messageStartWith,
  messageStop,
  textFrames,
  toolFrames,
  messageFrames,
} from '../../test/kit/anthropic-frames.ts'
import { type Json } from '../../test/kit/json.ts'
import { callMore, callStart, done, finish, role, text, answerFrames } from '../../test/kit/openai-frames.ts'
import { cut, half, json, type Play, reset, stall, stream } from '../../test/kit/plays.ts'
import { messageItem, responseFrames } from '../../test/kit/responses-frames.ts'
import { KEY, Rig } from './rig.ts'
import { LIMIT } from '../../test/kit/wait.ts'

/** An answer that is not streamed. */
const WHOLE = {
  id: 'x',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
}

const rig = await shared(Rig.start('--attempts-max', '4'))
const openai = new OpenAI({ baseURL: rig.gateway.url, apiKey: KEY })
const anthropic = new Anthropic({ baseURL: rig.gateway.url.replace(/\/v1$/, ''), apiKey: KEY })

const call = [callStart('c1', 'add'), callMore('{"a":1,'), callMore('"b":2}')]
const user = [{ role: 'user' as const, content: 'go' }]

describe('openai', { ...LIMIT, concurrency: true }, () => {
  test('a stream that breaks three times before content', async () => {
    const model = rig.upstream.plays(reset, cut(role), json(503, 'busy'), stream(...answerFrames('All', ' of it.')))
    let held = ''
    for await (const part of await openai.chat.completions.create({ model, messages: user, stream: true }))
      held += part.choices[0]?.delta.content ?? ''
    assert.equal(held, 'All of it.')
  })
  test('a stream that breaks after content and is repeated', async () => {
    const model = rig.upstream.plays(
      cut(role, text('All ')),
      half(role, text('All of')),
      stream(...answerFrames('All of it.')),
    )
    const runner = openai.chat.completions.stream({ model, messages: user })
    assert.equal((await runner.finalChatCompletion()).choices[0]?.message.content, 'All of it.')
  })
  test('an unrecoverable stream throws and never ends silently', async () => {
    const other = stream(...answerFrames('Other.'))
    const model = rig.upstream.plays(cut(role, text('All ')), other, other, other)
    await assert.rejects(async () => {
      for await (const _ of await openai.chat.completions.create({ model, messages: user, stream: true }));
    })
  })
  test('runTools with truncated calls: the tool runs once, with complete arguments', async () => {
    const ran: unknown[] = []
    const model = rig.upstream.plays(
      cut(role, ...call.slice(0, 2)),
      stream(role, ...call.slice(0, 2), finish('length'), done),
      stream(role, ...call, finish('tool_calls'), done),
      reset,
      stream(...answerFrames('It is 3.')),
    )
    const body: Json = {
      model,
      messages: user,
      stream: true,
      tools: [
        {
          type: 'function',
          function: {
            name: 'add',
            parameters: {
              type: 'object',
              properties: { a: { type: 'number' }, b: { type: 'number' } },
              required: ['a', 'b'],
            },
            parse: (args: string): Json => JSON.parse(args),
            function: (args: Json) => {
              ran.push(args)
              return String(args.a + args.b)
            },
          },
        },
      ],
    }
    const runner = openai.chat.completions.runTools(body) as Json // its types do not accept a plain JSON schema
    assert.equal(await runner.finalContent(), 'It is 3.')
    assert.deepEqual(ran, [{ a: 1, b: 2 }])
  })
  test("used-up attempts are not multiplied by the SDK's own retries", async () => {
    const busy = json(503, { error: { message: 'busy' } })
    const model = rig.upstream.plays(...Array.from({ length: 12 }, () => busy))
    await assert.rejects(
      openai.chat.completions.create({ model, messages: user, stream: true }),
      (error: Json) => error.status === 503,
    )
    assert.equal(rig.upstream.received(model).length, 4)
  })
  test('an answer that is not streamed, and a genuine 400', async () => {
    const model = rig.upstream.plays(reset, json(200, JSON.stringify(WHOLE).slice(0, 30)), json(200, WHOLE))
    assert.equal((await openai.chat.completions.create({ model, messages: user })).choices[0]?.message.content, 'hi')
    const bad = rig.upstream.plays(
      json(400, { error: { message: 'no such field', type: 'invalid_request_error', param: 'x', code: null } }),
    )
    await assert.rejects(openai.chat.completions.create({ model: bad, messages: user }), /400 no such field/)
    assert.equal(rig.upstream.received(bad).length, 1)
  })
  test('an abort ends the upstream request', async () => {
    let gone: Promise<void> | undefined
    const hanging: Play = (exchange) => {
      gone = exchange.gone
      return stall(role, text('One'))
    }
    const model = rig.upstream.plays(hanging)
    const parts = await openai.chat.completions.create({ model, messages: user, stream: true })
    for await (const _ of parts) break
    await gone
  })
  test('models pass through', async () => {
    const name = rig.upstream.plays(json(200, { id: 'm', object: 'model', created: 1, owned_by: 'me' }))
    assert.equal((await openai.models.retrieve(name)).owned_by, 'me')
  })
  test('a broken response is repaired', async () => {
    const frames = responseFrames([messageItem(['One', ' two'])])
    const model = rig.upstream.plays(cut(...frames.slice(0, 5)), stream(...frames))
    const final = await openai.responses.stream({ model, input: 'go' }).finalResponse()
    assert.deepEqual([final.output_text, final.status], ['One two', 'completed'])
  })
})

describe('ai', { ...LIMIT, concurrency: true }, () => {
  const provider = (model: string): Json =>
    createOpenAICompatible({ name: 'x', baseURL: rig.gateway.url, apiKey: KEY, includeUsage: true })(model)
  test('streamText with broken streams and a truncated call: the tool runs once', async () => {
    const ran: unknown[] = []
    const model = rig.upstream.plays(
      cut(role, text('Let me '), ...call.slice(0, 2)),
      stream(role, text('Let me add. '), ...call, finish('tool_calls'), done),
      half(role),
      stream(...answerFrames('It is 3.')),
    )
    const result = streamText({
      model: provider(model),
      messages: user,
      stopWhen: stepCountIs(3),
      tools: {
        add: tool({
          inputSchema: jsonSchema({
            type: 'object',
            properties: { a: { type: 'number' }, b: { type: 'number' } },
            required: ['a', 'b'],
          }),
          execute: (args: Json) => {
            ran.push(args)
            return args.a + args.b
          },
        }),
      },
    })
    let held = ''
    for await (const part of result.textStream) held += part
    assert.equal(held, 'Let me add. It is 3.')
    assert.deepEqual(ran, [{ a: 1, b: 2 }])
    assert.equal(await result.finishReason, 'stop')
  })
  test('streamText reports an unrecoverable break', async () => {
    const other = stream(...answerFrames('Other.'))
    const model = rig.upstream.plays(cut(role, text('All ')), other, other, other)
    const errors: unknown[] = []
    const result = streamText({
      model: provider(model),
      messages: user,
      maxRetries: 0,
      onError: ({ error }) => void errors.push(error),
    })
    const reasons: unknown[] = []
    try {
      for await (const part of result.fullStream) if (part.type === 'finish') reasons.push(part.finishReason)
    } catch (error) {
      errors.push(error) // a closed connection is thrown
    }
    assert.ok(errors.length > 0, JSON.stringify(reasons))
    assert.equal(reasons.includes('stop'), false)
  })
  test('generateText with a reset and a cut body', async () => {
    const model = rig.upstream.plays(reset, json(200, JSON.stringify(WHOLE).slice(0, 60)), json(200, WHOLE))
    assert.equal((await generateText({ model: provider(model), messages: user, maxRetries: 0 })).text, 'hi')
  })
})

describe('@anthropic-ai/sdk', { ...LIMIT, concurrency: true }, () => {
  const ask = (model: string): Json => ({ model, max_tokens: 50, messages: user })
  test('a stream with breaks before and after content, and a truncated call', async () => {
    const block = toolFrames(1, 't1', 'add', '{"a":1,', '"b":2}')
    const model = rig.upstream.plays(
      cut(messageStartWith('msg_0')),
      cut(messageStart, ...textFrames(0, 'Let me ').slice(0, 2)),
      cut(messageStartWith('msg_2'), ...textFrames(0, 'Let me add.'), ...block.slice(0, 2)),
      stream(
        messageStartWith('msg_3'),
        ...textFrames(0, 'Let me add.'),
        ...block,
        messageDelta('tool_use'),
        messageStop,
      ),
    )
    const final = await anthropic.messages.stream(ask(model)).finalMessage()
    assert.equal(final.id, 'msg_1')
    assert.equal(final.stop_reason, 'tool_use')
    assert.deepEqual(
      final.content.map((one: Json) => one.text ?? one.input),
      ['Let me add.', { a: 1, b: 2 }],
    )
  })
  test('an unrecoverable break throws', async () => {
    const other = stream(...messageFrames(textFrames(0, 'Other')))
    const model = rig.upstream.plays(cut(messageStart, ...textFrames(0, 'Let me ').slice(0, 2)), other, other, other)
    await assert.rejects(anthropic.messages.stream(ask(model)).finalMessage())
  })
  test('used-up attempts are not multiplied', async () => {
    const play = json(529, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } })
    const model = rig.upstream.plays(...Array.from({ length: 12 }, () => play))
    await assert.rejects(anthropic.messages.create(ask(model)), (error: Json) => error.status === 529)
    assert.equal(rig.upstream.received(model).length, 4)
    assert.equal(rig.upstream.received(model)[0]?.headers['authorization'], `Bearer ${KEY}`)
  })
})
