/** Chat completions with streams broken at every point: what the client gets is never wrong. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { shared } from '../shared.ts'
import {
  callMore,
  callStart,
  CHAT,
  choice,
  done,
  errorFrame,
  finish,
  role,
  roleWith,
  text,
  usage,
  answerFrames,
} from '../../test/kit/openai-frames.ts'
import { bytes, cut, fin, half, json, type Play, reset, stall, stream } from '../../test/kit/plays.ts'
import { assembledChat } from './assembled.ts'
import { isCutOff, type Reply, Rig } from './rig.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const flags = ['--attempts-max', '3', '--liveness-ms', '1000']
const [tools, whole, none] = await Promise.all([
  shared(Rig.start(...flags)),
  shared(Rig.start(...flags, '--hold', 'answer')),
  shared(Rig.start(...flags, '--hold', 'none')),
])

/** Checks for one clean answer: proven, ended, and without any trace of the failure. */
function isClean(reply: Reply, content: string): void {
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.whole, true, 'the connection was cut')
  const held = assembledChat(reply.frames)
  assert.equal(held.content, content, reply.text)
  assert.equal(held.finish, 'stop')
  assert.ok(held.roles <= 1, 'the role came twice')
  assert.equal(reply.frames.at(-1)?.data, '[DONE]')
  assert.equal(reply.frames.filter(({ data }) => data === '[DONE]').length, 1)
  assert.equal(
    reply.frames.some(({ json }) => json?.error !== undefined),
    false,
  )
  assert.equal(new Set(reply.frames.flatMap(({ json }) => json?.id ?? [])).size, 1, 'more than one id')
  assert.equal(new Set(reply.frames.flatMap(({ json }) => json?.model ?? [])).size, 1, 'more than one model')
}

/** Checks for a broken end that no client takes for a complete answer. */
function isBroken(reply: Reply, content: string): void {
  assert.equal(reply.status, 200)
  assert.equal(assembledChat(reply.frames).content, content)
  assert.equal(assembledChat(reply.frames).finish, null, 'a broken answer was reported as finished')
  assert.ok(isCutOff(reply), reply.text)
  assert.equal(reply.text.includes('[DONE]'), false)
}

const beforeContent: Record<string, Play> = {
  'a reset before the head': reset,
  'an end before the head': fin,
  'a reset inside the head': [bytes('HTTP/1.1 200 OK\r\ncontent-ty'), reset],
  'a reset after the head': cut(),
  'a reset after the role': cut(role),
  'an end without the last chunk after the role': half(role),
  'a clean end without proof': stream(role),
  'a clean end of nothing': stream(),
  'a stall after the head': stall(),
  'a stall after the role': stall(role),
  'an overload told inside': stream(role, errorFrame({ message: 'overloaded', type: 'overloaded_error', code: 503 })),
  'a server error told inside': stream(errorFrame({ message: 'boom', type: 'server_error', code: null }), done),
  'a 503': json(503, 'busy'),
  'a 429 without a time': json(429, {}),
  'a frame cut in the middle of its JSON': half(role, 'data: {"id":"chatcmpl-1","choices":[{"ind'),
  'a frame that is not JSON': stream(role, 'data: {nope\n\n', done),
  'a page of HTML with status 200': json(200, '<html>Bad gateway</html>', { 'content-type': 'text/html' }),
  'an empty text, then a reset': cut(role, text('')),
}

for (const hold of ['tools', 'answer', 'none'] as const)
  describe(`a break before content is invisible (--hold ${hold})`, { ...LIMIT, concurrency: true }, () => {
    for (const [what, play] of Object.entries(beforeContent))
      test(what, async () => {
        const rig = { tools, answer: whole, none }[hold]
        const reply = await rig.chat([play, play, stream(...answerFrames('All', ' of it.'))])
        isClean(reply, 'All of it.')
        assert.equal(reply.tries, 3)
        assert.deepEqual(reply.comments, [])
      })
  })

const afterContent: Record<string, Play> = {
  'a reset': cut(role, text('One '), text('two ')),
  'an end without the last chunk': half(role, text('One '), text('two ')),
  'a clean end without proof': stream(role, text('One '), text('two ')),
  'a stall': stall(role, text('One '), text('two ')),
  'an overload told inside': stream(role, text('One two '), errorFrame({ message: 'x', type: 'overloaded_error' })),
  'half a frame': half(role, text('One two '), 'data: {"choices":[{"delta":{"content":"thr'),
}
describe('a break after content', { ...LIMIT, concurrency: true }, () => {
  for (const [what, play] of Object.entries(afterContent)) {
    test(`${what}: continues if the new answer starts with the same text`, async () => {
      const again = [
        roleWith({ id: 'chatcmpl-2', model: 'other' }),
        ...['One tw', 'o thr', 'ee.'].map((piece) => text(piece, { id: 'chatcmpl-2', model: 'other' })),
        finish('stop', { id: 'chatcmpl-2', model: 'other' }),
        done,
      ]
      const reply = await tools.chat([play, stream(...again)])
      isClean(reply, 'One two three.')
      assert.equal(reply.frames[0]?.json.id, CHAT.id)
      assert.equal(reply.frames[0]?.json.model, CHAT.model)
      assert.equal(reply.tries, 2)
    })
    test(`${what}: ends as the upstream did if every new answer differs, but never cleanly`, async () => {
      const other = stream(...answerFrames('One TWO three.'))
      const reply = await tools.chat([play, other, other])
      if (what !== 'an overload told inside') return isBroken(reply, 'One two ')
      assert.deepEqual(reply.frames.at(-2)?.json.error, { message: 'x', type: 'overloaded_error' })
      assert.equal(reply.frames.at(-1)?.data, '[DONE]')
      return assert.equal(assembledChat(reply.frames).content, 'One two ')
    })
    test(`${what}: --hold answer recovers, even with a different answer`, async () => {
      const reply = await whole.chat([play, stream(...answerFrames('Quite another.'))])
      isClean(reply, 'Quite another.')
      assert.deepEqual(
        reply.comments.filter((line) => !line.startsWith(': breakfall') && line !== ':'),
        [],
      )
    })
  }
  test('a new answer that is shorter than what was forwarded is not a continuation', async () => {
    const short = stream(...answerFrames('One'))
    isBroken(await tools.chat([cut(role, text('One two')), short, short]), 'One two')
  })
  test('a new answer that equals the forwarded text completes it', async () => {
    isClean(await tools.chat([cut(role, text('One two')), stream(...answerFrames('One two'))]), 'One two')
  })
  test('a break in the continuation is recovered too', async () => {
    const reply = await tools.chat([
      cut(role, text('One ')),
      cut(role, text('One two ')),
      stream(...answerFrames('One two three')),
    ])
    isClean(reply, 'One two three')
  })
  test('surrogate pairs split between frames stay whole across a recovery', async () => {
    const reply = await tools.chat([cut(role, text('a😀'.slice(0, 2))), stream(...answerFrames('a', '😀b'))])
    isClean(reply, 'a😀b')
  })
  test('retries appear as comments once the head is sent', async () => {
    const reply = await tools.chat([cut(role, text('One ')), stream(...answerFrames('One two'))])
    assert.equal(reply.comments.length, 1, reply.text)
    assert.match(reply.comments[0] ?? '', /^: breakfall retry 2\/3 model_stream_interrupted in \d+ ms$/)
  })
  test('a permanent in-band error is forwarded unchanged, after one request', async () => {
    const error = {
      message: 'flagged',
      type: 'invalid_request_error',
      param: 'x',
      code: 'content_policy_violation',
      extra: 1,
    }
    const reply = await tools.chat([
      stream(role, text('One'), errorFrame(error), done),
      stream(...answerFrames('One two')),
    ])
    assert.equal(reply.tries, 1)
    assert.deepEqual(reply.frames.find(({ json }) => json?.error)?.json, { error })
    assert.equal(assembledChat(reply.frames).content, 'One')
  })
  test('frames after [DONE] are ignored', async () => {
    isClean(await tools.chat([stream(...answerFrames('hi'), text('more'), done)]), 'hi')
  })
  test('a socket left open after the last frame does not hold up the client', async () => {
    isClean(await tools.chat([stall(...answerFrames('hi'))]), 'hi')
  })
})

describe('tool calls', { ...LIMIT, concurrency: true }, () => {
  const call = [role, callStart('c1', 'bash'), callMore('{"command":'), callMore('"ls"}')]
  const calls = [{ id: 'c1', name: 'bash', arguments: '{"command":"ls"}' }]
  const cuts: Record<string, Play> = {
    'a reset': cut(...call.slice(0, 3)),
    'a clean end': stream(...call.slice(0, 3)),
    'finish_reason tool_calls with half the arguments': stream(...call.slice(0, 3), finish('tool_calls'), done),
    'finish_reason length with half the arguments': stream(...call.slice(0, 3), finish('length'), done),
    'finish_reason stop with half the arguments': stream(...call.slice(0, 3), finish('stop'), done),
    'a name alone, then a reset': cut(...call.slice(0, 2)),
    'a whole call without proof': stream(...call),
    'a stall': stall(...call.slice(0, 3)),
  }
  for (const [what, play] of Object.entries(cuts)) {
    for (const before of [[], [text('Let me look. ')]])
      test(`${what}${before.length > 0 ? ' after text' : ''}: the client gets one complete call`, async () => {
        const again = stream(role, ...before, ...call.slice(1), finish('tool_calls'), done)
        const first = before.length > 0 ? withText(what, before[0] as string) : play
        const reply = await tools.chat([first, again])
        const held = assembledChat(reply.frames)
        assert.deepEqual(held.calls, calls, reply.text)
        assert.equal(held.finish, 'tool_calls')
        assert.equal(held.content, before.length > 0 ? 'Let me look. ' : '')
        assert.equal(reply.frames.at(-1)?.data, '[DONE]')
        assert.equal(reply.tries, 2)
      })
    test(`${what}, every time: never a truncated call`, async () => {
      const reply = await tools.chat([play, play, play])
      assert.deepEqual(assembledChat(reply.frames).calls, [], reply.text)
      assert.ok(reply.status >= 500 || reply.frames.at(-2)?.json.error !== undefined, reply.text)
      assert.equal(reply.headers['x-should-retry'], 'false')
      assert.equal(reply.tries, 3)
    })
    test(`${what}, --hold none: forwarded parts end broken and are never reported as finished`, async () => {
      const reply = await none.chat([play, play, play])
      const held = assembledChat(reply.frames)
      if (what === 'a whole call without proof') assert.deepEqual(held.calls, calls)
      assert.equal(held.finish, null, reply.text)
      assert.ok(isCutOff(reply), reply.text)
    })
  }

  function withText(what: string, before: string): Play {
    const frames = [role, before, ...call.slice(1)]
    const half = frames.slice(0, -1)
    if (what === 'a reset') return cut(...half)
    if (what === 'a clean end') return stream(...half)
    if (what === 'a stall') return stall(...half)
    if (what.startsWith('a name')) return cut(...frames.slice(0, -2))
    if (what.startsWith('a whole')) return stream(...frames)
    return stream(...half, finish(/finish_reason (\w+)/.exec(what)?.[1] ?? ''), done)
  }

  test('parallel, interleaved calls arrive complete and in order', async () => {
    const frames = [
      role,
      callStart('c1', 'a'),
      callStart('c2', 'b', '', 1),
      callMore('{"y"', 1),
      callMore('{"x":1}'),
      callMore(':2}', 1),
    ]
    const reply = await tools.chat([cut(...frames.slice(0, -1)), stream(...frames, finish('tool_calls'), done)])
    assert.deepEqual(assembledChat(reply.frames).calls, [
      { id: 'c1', name: 'a', arguments: '{"x":1}' },
      { id: 'c2', name: 'b', arguments: '{"y":2}' },
    ])
  })
  test('empty arguments are complete for a tool without parameters', async () => {
    const reply = await tools.chat([stream(role, callStart('c1', 'now'), finish('tool_calls'), done)], {
      tools: [{ type: 'function', function: { name: 'now', parameters: { type: 'object', properties: {} } } }],
    })
    assert.equal(reply.tries, 1, reply.text)
    assert.equal(assembledChat(reply.frames).calls[0].name, 'now')
  })
  test('a legacy function_call is never truncated', async () => {
    const frames = [
      role,
      choice({ function_call: { name: 'f', arguments: '{"a"' } }),
      choice({ function_call: { arguments: ':1}' } }),
    ]
    const reply = await tools.chat([cut(...frames.slice(0, 2)), stream(...frames, finish('function_call'), done)])
    const pieces = reply.frames.flatMap(({ json }) => json?.choices?.[0]?.delta?.function_call?.arguments ?? [])
    assert.equal(pieces.join(''), '{"a":1}', reply.text)
    assert.equal(reply.frames.filter(({ json }) => json?.choices?.[0]?.delta?.function_call?.name === 'f').length, 1)
  })
  test('text with finish_reason length is the answer', async () => {
    const reply = await tools.chat([stream(role, text('Half an'), finish('length'), done)])
    assert.equal(reply.tries, 1)
    assert.equal(assembledChat(reply.frames).finish, 'length')
  })
  test('text keeps flowing while a call is held back', async () => {
    const reply = await tools.chat([stream(role, text('a'), ...call.slice(1), text('b'), finish('tool_calls'), done)])
    assert.equal(assembledChat(reply.frames).content, 'ab')
    assert.deepEqual(assembledChat(reply.frames).calls, calls)
  })
})

describe('other content of frames', { ...LIMIT, concurrency: true }, () => {
  test('a good answer passes unchanged: unknown fields, logprobs, usage, fingerprints', async () => {
    const frames = [
      roleWith({ system_fingerprint: 'fp', service_tier: 'x', odd: { deep: [1] } }),
      choice({ content: 'hi', annotations: [1] }, { logprobs: { content: [{ token: 'hi', logprob: -0.1 }] } }),
      choice({ refusal: null }),
      finish(),
      usage(),
      done,
    ]
    for (const rig of [tools, none, whole]) {
      const reply = await rig.chat([stream(...frames)])
      assert.deepEqual(
        reply.frames.map(({ data }) => data),
        frames.map((frame) => frame.slice(6, -2)),
        reply.text,
      )
    }
  })
  test('reasoning is forwarded, and compared like text during recovery', async () => {
    const thinks = [role, choice({ reasoning_content: 'Hm. ' })]
    const reply = await tools.chat([cut(...thinks), stream(...thinks, text('So.'), finish(), done)])
    isClean(reply, 'So.')
    assert.equal(assembledChat(reply.frames).reasoning, 'Hm. ')
    const other = stream(role, choice({ reasoning_content: 'Other' }), text('So.'), finish(), done)
    const lost = await tools.chat([cut(...thinks), other, other])
    assert.equal(assembledChat(lost.frames).content, '')
    assert.ok(isCutOff(lost), lost.text)
  })
  describe('several choices: the answer is incomplete until every choice is finished', () => {
    const one = (index: number, delta: object, reason: string | null = null): string =>
      choice(delta, { index, finish_reason: reason })
    const good = [
      one(0, { content: 'a' }),
      one(1, { content: 'b' }),
      one(0, {}, 'stop'),
      one(1, { content: 'c' }),
      one(1, {}, 'stop'),
      done,
    ]
    const held = (reply: Reply): unknown =>
      [0, 1].map((index) => assembledChat(reply.frames, index)).map(({ content, finish }) => [content, finish])
    test('they pass unchanged', async () => {
      const reply = await tools.chat([stream(...good)], { n: 2 })
      assert.deepEqual(held(reply), [
        ['a', 'stop'],
        ['bc', 'stop'],
      ])
      assert.equal(reply.tries, 1)
    })
    test('--hold answer recovers them', async () => {
      for (const play of [cut(...good.slice(0, 4)), stream(...good.slice(0, 4))]) {
        const reply = await whole.chat([play, stream(...good)], { n: 2 })
        assert.deepEqual(
          held(reply),
          [
            ['a', 'stop'],
            ['bc', 'stop'],
          ],
          reply.text,
        )
      }
    })
    test('broken after content they continue or end in an error, and are never reported as complete', async () => {
      const reply = await tools.chat([cut(...good.slice(0, 3)), stream(...good)], { n: 2 })
      const told = isCutOff(reply)
      assert.deepEqual(
        held(reply),
        told
          ? [
              ['a', 'stop'],
              ['b', null],
            ]
          : [
              ['a', 'stop'],
              ['bc', 'stop'],
            ],
        reply.text,
      )
    })
  })
  test('usage appears once after a recovery', async () => {
    const reply = await tools.chat([cut(role, text('One ')), stream(role, text('One two'), finish(), usage(), done)])
    isClean(reply, 'One two')
    assert.equal(reply.frames.filter(({ json }) => json?.usage).length, 1)
  })
})
