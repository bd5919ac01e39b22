/** Several upstreams, servers that can continue text, tokens, limits and timeouts: the rest of the gateway's documentation. */
import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  blockDelta,
  blockStart,
  blockStop,
  messageStart,
  textFrames,
  messageFrames,
} from '../../test/kit/anthropic-frames.ts'
import { startModelServer } from '../../test/kit/model-server.ts'
import { choice, done, finish, role, text, answerFrames } from '../../test/kit/openai-frames.ts'
import { chunk, cut, half, head, json, type Play, send, stream } from '../../test/kit/plays.ts'
import { assembledChat, assembledMessage } from './assembled.ts'
import { isCutOff, Gateway, Rig } from './rig.ts'
import { LIMIT } from '../../test/kit/wait.ts'

describe('several upstreams', { ...LIMIT, concurrency: true }, () => {
  test('the next upstream is used when one has no attempts left, also after text', async () => {
    await using first = await startModelServer()
    await using second = await startModelServer()
    await using gateway = await Gateway.start([first, second], '--attempts-max', '2')
    const busy = json(503, 'busy')
    const name = first.plays(busy, busy, cut(role, text('One ')), busy)
    second.plays(stream(...answerFrames('from the second')), stream(...answerFrames('One two')))
    assert.equal(assembledChat((await gateway.chat(name)).frames).content, 'from the second')
    assert.equal(first.received(name).length, 2)
    assert.equal(assembledChat((await gateway.chat(name)).frames).content, 'One two')
  })
})

describe('a server that can continue text', { ...LIMIT, concurrency: true }, () => {
  test('is asked to continue if its profile is set', async () => {
    await using rig = await Rig.start('--profile', 'vllm', '--attempts-max', '3')
    const reply = await rig.chat([
      cut(role, text('One '), text('two three four five six ')),
      stream(role, text(' two three four'), text(' five six seven.'), finish(), done),
    ])
    assert.equal(assembledChat(reply.frames).content, 'One two three four five six seven.', reply.text)
    const asked = JSON.parse(rig.upstream.received('play-1')[1]?.text ?? '{}')
    assert.deepEqual(asked.messages.at(-1), { role: 'assistant', content: 'One' })
  })
  test('one choice instead of two is still the answer once its end is proven', async () => {
    await using rig = await Rig.start('--profile', 'vllm', '--attempts-max', '2')
    const reply = await rig.chat([stream(...answerFrames('hi'))], { n: 2 })
    assert.equal(assembledChat(reply.frames).content, 'hi', reply.text)
    assert.equal(
      reply.frames.some(({ json }) => json?.error),
      false,
      reply.text,
    )
    assert.equal(reply.tries, 1)
  })
})

describe('one gateway', { ...LIMIT, concurrency: true }, () => {
  let rig: Rig
  before(async () => {
    rig = await Rig.start('--attempts-max', '3', '--progress-ms', '400', '--token-file', 'token')
  })
  after(async () => {
    await rig[Symbol.asyncDispose]()
  })
  const token = (): string => readFileSync(join(rig.gateway.place.folder, 'token'), 'utf8').trim().split(/\s/)[0] ?? ''

  test('creates a token file that only its owner can read, and requires its token', async () => {
    assert.equal(statSync(join(rig.gateway.place.folder, 'token')).mode & 0o777, 0o600)
    const name = rig.upstream.plays(stream(...answerFrames('hi')))
    for (const headers of [{}, { 'x-breakfall-token': 'wrong' }, { 'x-breakfall-token': '' }]) {
      const refused = await rig.gateway.chat(name, {}, headers as Record<string, string>)
      assert.equal(refused.status, 401)
      assert.equal(rig.upstream.received(name).length, 0)
    }
    const reply = await rig.gateway.chat(name, {}, { 'x-breakfall-token': token() })
    assert.equal(assembledChat(reply.frames).content, 'hi')
    assert.equal(rig.upstream.received(name)[0]?.rawHead.includes(token()), false)
    assert.equal((await rig.gateway.ask('/metrics')).status, 401)
    assert.equal(rig.gateway.stderr.includes(token()), false)
  })
  test('keep-alive signals without output time out by the progress limit', async () => {
    const alive: Play = [
      head(),
      async ({ socket }) => {
        for (let sign = 0; sign < 100 && !socket.destroyed; sign++) {
          await send(socket, chunk(sign % 2 === 0 ? ': PROCESSING\n\n' : role))
          await new Promise((resolve) => setTimeout(resolve, 50))
        }
      },
    ]
    const name = rig.upstream.plays(alive, stream(...answerFrames('hi')))
    const reply = await rig.gateway.chat(name, {}, { 'x-breakfall-token': token() })
    assert.equal(assembledChat(reply.frames).content, 'hi')
    assert.equal(rig.upstream.received(name).length, 2)
  })
  test('headers that the client lists in Connection are not forwarded', async () => {
    const name = rig.upstream.plays(stream(...answerFrames('hi')))
    await rig.gateway.chat(name, {}, { 'x-breakfall-token': token(), connection: 'close, x-mine', 'x-mine': '1' })
    assert.equal(rig.upstream.received(name)[0]?.headers['x-mine'], undefined)
  })
})

test('--hold answer: a break beyond the held 16 MiB is reported, not hidden', LIMIT, async () => {
  await using rig = await Rig.start('--hold', 'answer', '--attempts-max', '2')
  const pieces = Array.from({ length: 18 }, () => text('y'.repeat(1024 * 1024)))
  const reply = await rig.chat([half(role, ...pieces), stream(...answerFrames('short'))])
  assert.equal(reply.text.includes('short'), false)
  assert.ok(isCutOff(reply))
})

describe('content that cannot be compared is never sent twice', { ...LIMIT, concurrency: true }, () => {
  let rig: Rig
  before(async () => {
    rig = await Rig.start('--attempts-max', '2')
  })
  after(async () => {
    await rig[Symbol.asyncDispose]()
  })
  test('a signature', async () => {
    const thinks = (signature: string): string[] => [
      blockStart(0, { type: 'thinking', thinking: '', signature: '' }),
      blockDelta(0, { type: 'thinking_delta', thinking: 'Hm.' }),
      blockDelta(0, { type: 'signature_delta', signature }),
      blockStop(0),
    ]
    const reply = await rig.messages([
      cut(messageStart, ...thinks('one').slice(0, 3)),
      stream(...messageFrames(thinks('two'), textFrames(1, 'So.'))),
    ])
    assert.equal(assembledMessage(reply.frames)[0].signature, 'one', reply.text)
  })
  test('the rest of a closed block', async () => {
    const thinks = (thoughts: string): string[] => [
      blockStart(0, { type: 'thinking', thinking: '', signature: '' }),
      blockDelta(0, { type: 'thinking_delta', thinking: thoughts }),
      blockDelta(0, { type: 'signature_delta', signature: `of ${thoughts}` }),
      blockStop(0),
    ]
    const other = stream(...messageFrames(thinks('Hm, no.'), textFrames(1, 'So.')))
    const reply = await rig.messages([cut(messageStart, ...thinks('Hm')), other])
    assert.deepEqual(
      assembledMessage(reply.frames).map(({ thinking, signature }) => [thinking, signature]),
      [['Hm', 'of Hm']],
      reply.text,
    )
    assert.ok(isCutOff(reply), reply.text)
    const longer = stream(...messageFrames(textFrames(0, 'One', ' two')))
    const text = await rig.messages([cut(messageStart, ...textFrames(0, 'One')), longer])
    assert.deepEqual(
      assembledMessage(text.frames).map((block) => block.text),
      ['One'],
      text.text,
    )
    assert.ok(isCutOff(text), text.text)
  })
  test('a citation', async () => {
    const cited = [
      blockStart(0, { type: 'text', text: '' }),
      blockDelta(0, { type: 'text_delta', text: 'Said.' }),
      blockDelta(0, { type: 'citations_delta', citation: { cited_text: 'x' } }),
      blockStop(0),
    ]
    const reply = await rig.messages([cut(messageStart, ...cited.slice(0, 3)), stream(...messageFrames(cited))])
    assert.equal(reply.frames.filter(({ json }) => json?.delta?.type === 'citations_delta').length, 1, reply.text)
  })
  test('a refusal', async () => {
    const refuses = (said: string): string => choice({ refusal: said })
    const reply = await rig.chat([cut(role, refuses('I ca')), stream(role, refuses('I cannot.'), finish(), done)])
    const said = reply.frames.flatMap(({ json }) => json?.choices?.[0]?.delta?.refusal ?? []).join('')
    assert.deepEqual([said, assembledChat(reply.frames).content], ['I cannot.', ''], reply.text)
  })
  test('an annotation', async () => {
    const noted = choice({ annotations: [{ url: 'u' }] })
    const reply = await rig.chat([
      cut(role, text('One'), noted),
      stream(role, text('One'), noted, text(' two'), finish(), done),
    ])
    assert.equal(reply.frames.filter(({ json }) => json?.choices?.[0]?.delta?.annotations).length, 1, reply.text)
  })
  test('a log probability', async () => {
    const likely = (said: string): string =>
      choice({ content: said }, { logprobs: { content: [{ token: said, logprob: -1 }] } })
    const reply = await rig.chat([
      cut(role, likely('One ')),
      stream(role, likely('One '), likely('two'), finish(), done),
    ])
    const tokens = reply.frames.flatMap(
      ({ json }) => json?.choices?.[0]?.logprobs?.content?.map((one: { token: string }) => one.token) ?? [],
    )
    assert.equal(tokens.join(''), assembledChat(reply.frames).content, reply.text)
  })
  test('a whole answer in one frame', async () => {
    const reply = await rig.chat([
      cut(role, text('One')),
      json(200, {
        id: 'y',
        choices: [{ index: 0, message: { role: 'assistant', content: 'One two' }, finish_reason: 'stop' }],
      }),
    ])
    assert.equal(assembledChat(reply.frames).content, 'One two', reply.text)
  })
})
