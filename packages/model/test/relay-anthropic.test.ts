/** The relay in Anthropic's dialect: one message_start, continuous block numbers, nothing opened or closed twice. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Frame } from '../../../test/kit/sse.ts'
import {
  blockStart,
  blockStop,
  blockText,
  blockThought,
  errorEvent,
  event,
  message,
  messageDelta,
  messageStart,
  messageStop,
  ping,
  textBlock,
  toolMessage,
} from '../../../test/kit/anthropic-frames.ts'
import { fin, head, json, lastChunk, pause, type Play, reset } from '../../../test/kit/plays.ts'
import { HOLDS } from '../src/index.ts'
import { relayed as relay, type RelayedOptions } from './relayed.ts'

const relayed = (plays: readonly Play[], options: RelayedOptions = {}) =>
  relay(plays, { api: 'anthropic-messages', ...options })

const order = (frames: readonly Frame[]): string[] =>
  frames.map(({ data }) => {
    const { type, index } = JSON.parse(data) as { type: string; index?: number }
    return index === undefined ? type : `${type.replace('content_block_', '')} ${index}`
  })

const END: readonly Play[] = [messageDelta('end_turn'), messageStop, lastChunk]
const thinkingBlock = (index: number): Play => blockStart(index, { type: 'thinking', thinking: '' })
const signature = (index: number): Play =>
  event('content_block_delta', { index, delta: { type: 'signature_delta', signature: 's' } })

test('a proper message passes through event by event', async () => {
  const got = await relayed([message('Hello', ' world')])
  assert.equal(got.text, 'Hello world')
  assert.deepEqual(order(got.frames), [
    'message_start',
    'start 0',
    'delta 0',
    'delta 0',
    'stop 0',
    'message_delta',
    'message_stop',
  ])
})

for (const [what, broken] of [
  ['a break after message_start', [head(), messageStart, reset]],
  ['a break after an empty block', [head(), messageStart, textBlock(0), ping, reset]],
  ['overloaded before content', [head(), messageStart, errorEvent('overloaded_error', 'Overloaded'), lastChunk]],
  ['status 529', json(529, { type: 'error', error: { type: 'overloaded_error', message: 'x' } })],
  ['a tool_use that broke off', [...toolMessage('bash', '{"command":"ls"}').slice(0, 5), reset]],
] as const) {
  test(`${what} is healed without the client noticing, with one message_start`, async () => {
    const got = await relayed([broken, message('Hello')])
    assert.equal(got.text, 'Hello')
    assert.deepEqual(order(got.frames), [
      'message_start',
      'start 0',
      'delta 0',
      'stop 0',
      'message_delta',
      'message_stop',
    ])
  })
}

test('after content, an identical beginning lets the answer continue in the open block', async () => {
  const got = await relayed([
    [head(), messageStart, textBlock(0), blockText(0, 'Hel'), reset],
    message('He', 'llo', ' world'),
  ])
  assert.equal(got.text, 'Hello world')
  assert.deepEqual(order(got.frames), [
    'message_start',
    'start 0',
    'delta 0',
    'delta 0',
    'delta 0',
    'stop 0',
    'message_delta',
    'message_stop',
  ])
})

test('text in the event that begins a block is compared like any other', async () => {
  const begun = (text: string): Play => blockStart(0, { type: 'text', text })
  const half: Play = [head(), messageStart, textBlock(0), blockText(0, 'Hello '), blockText(0, 'wor'), reset]
  for (const start of ['Hel', 'Hello wor', 'Hello world']) {
    const rest = 'Hello world!'.slice(start.length)
    const got = await relayed([half, [head(), messageStart, begun(start), blockText(0, rest), blockStop(0), ...END]])
    assert.deepEqual([got.text, got.error], ['Hello world!', undefined], start)
    assert.equal(order(got.frames).filter((line) => line.startsWith('start')).length, 1)
  }
})

test('a message in one piece heals one that was streamed, with its citations, signature and calls', async () => {
  const thoughts = { type: 'thinking', thinking: 'hm', signature: 'SIG' }
  const cited = { type: 'text', text: 'Hello', citations: [{ cited_text: 'CITED' }] }
  const call = { type: 'tool_use', id: 't1', name: 'bash', input: { command: 'ls' } }
  const whole = { id: 'm2', type: 'message', content: [thoughts, cited, call], stop_reason: 'tool_use', usage: {} }
  const inThoughts: Play = [head(), messageStart, thinkingBlock(0), blockThought(0, 'h'), reset]
  const inText: Play = [
    [head(), messageStart, thinkingBlock(0), blockThought(0, 'hm'), signature(0), blockStop(0)],
    [textBlock(1), blockText(1, 'Hel'), reset],
  ]
  for (const half of [inThoughts, inText]) {
    const got = await relayed([half, json(200, whole)])
    assert.deepEqual([got.text, got.calls, got.error], ['Hello', ['{"command":"ls"}'], undefined])
    assert.equal(got.body.match(/CITED/g)?.length, 1)
    assert.equal(got.body.match(/signature_delta/g)?.length, 1)
  }
})

test('a block that another attempt begins with and the client does not have is an error, never left out', async () => {
  const half: Play = [head(), messageStart, textBlock(0), blockText(0, 'Hello'), reset]
  const redacted = blockStart(0, { type: 'redacted_thinking', data: 'x' })
  const again: Play = [head(), messageStart, redacted, blockStop(0), textBlock(1), blockText(1, 'Hello!'), blockStop(1)]
  const got = await relayed([half, [...again, ...END]], { policy: { attemptsMax: 2 } })
  assert.deepEqual([got.text, got.error?.type], ['Hello', 'model_stream_interrupted'])
})

test('a block that was closed stays closed, and the next one follows', async () => {
  const half: Play = [head(), messageStart, textBlock(0), blockText(0, 'A'), blockStop(0), reset]
  const whole: Play = [
    head(),
    messageStart,
    textBlock(0),
    blockText(0, 'A'),
    blockStop(0),
    textBlock(1),
    blockText(1, 'B'),
    blockStop(1),
    ...END,
  ]
  const got = await relayed([half, whole])
  assert.equal(got.text, 'AB')
  assert.deepEqual(
    order(got.frames).filter((line) => !line.startsWith('message')),
    ['start 0', 'delta 0', 'stop 0', 'start 1', 'delta 1', 'stop 1'],
  )
})

test('a block that the client has open and empty gets the text of another attempt, and is never closed without any', async () => {
  const letters = [...Array(20).keys()].map(() => blockText(0, 'a'))
  const first = [head(), messageStart, textBlock(0), ...letters, blockStop(0)]
  const limits = { hold: 'answer', holdBytesMax: 1_000, canCut: true } as const // or the empty block would wait
  const healed = async (rest: readonly Play[]): Promise<readonly [string | undefined, boolean, readonly string[]]> => {
    const got = await relayed(
      [
        [...first, textBlock(1), fin],
        [...first, ...rest, ...END],
      ],
      limits,
    )
    const lines = order(got.frames)
    return [got.text.replace(/^a*/, ''), got.isCut, lines.slice(lines.indexOf('stop 0') + 1)]
  }
  const whole = ['start 1', 'delta 1', 'stop 1', 'message_delta', 'message_stop']
  assert.deepEqual(await healed([textBlock(1), blockText(1, 'B'), blockStop(1)]), ['B', false, whole])
  const begun = blockStart(1, { type: 'text', text: 'B' })
  assert.deepEqual(await healed([begun, blockStop(1)]), ['B', false, whole])
  const thoughts = [thinkingBlock(1), blockThought(1, 'hm'), signature(1), blockStop(1)]
  assert.deepEqual(await healed(thoughts), ['', true, ['start 1']])
  assert.deepEqual(await healed([]), ['', true, ['start 1']])
})

test('thoughts that go on after their signature are another answer', async () => {
  const first = [head(), messageStart, thinkingBlock(0), blockThought(0, 'hm')]
  const retry = [
    ...first,
    blockThought(0, ', so'),
    signature(0),
    blockStop(0),
    textBlock(1),
    blockText(1, 'Hello'),
    blockStop(1),
    ...END,
  ]
  const healed = await relayed([[...first, reset], retry], { canCut: true })
  assert.deepEqual([healed.text, healed.isCut], ['Hello', false])
  const got = await relayed([[...first, signature(0), reset], retry], { canCut: true })
  assert.deepEqual([got.text, got.isCut], ['', true])
  assert.doesNotMatch(got.body, /"thinking":", so"/)
})

test('a break inside thinking heals from an identical beginning, with its signature once', async () => {
  const whole: Play = [
    head(),
    messageStart,
    thinkingBlock(0),
    blockThought(0, 'hm, so'),
    signature(0),
    blockStop(0),
    textBlock(1),
    blockText(1, 'B'),
    blockStop(1),
    ...END,
  ]
  const got = await relayed([[head(), messageStart, thinkingBlock(0), blockThought(0, 'hm'), reset], whole])
  assert.equal(got.error, undefined)
  assert.deepEqual(order(got.frames), [
    'message_start',
    'start 0',
    'delta 0',
    'delta 0',
    'delta 0',
    'stop 0',
    'start 1',
    'delta 1',
    'stop 1',
    'message_delta',
    'message_stop',
  ])
  assert.equal(got.body.match(/signature_delta/g)?.length, 1)
})

test('a tool_use after text is held until the message is proven, and healed', async () => {
  const before = [textBlock(0), blockText(0, 'Let me'), blockStop(0)]
  const whole = toolMessage('bash', '{"command":"ls"}', before)
  const got = await relayed([[...whole.slice(0, 7), reset], whole])
  assert.equal(got.text, 'Let me')
  assert.deepEqual(got.calls, ['{"command":"ls"}'])
  assert.equal(got.error, undefined)
})

test('a stop reason without message_stop is not forwarded as an end', async () => {
  const half: Play = [
    head(),
    messageStart,
    textBlock(0),
    blockText(0, 'A'),
    blockStop(0),
    messageDelta('end_turn'),
    lastChunk,
  ]
  const got = await relayed([half, message('A')])
  assert.equal(got.error, undefined)
  assert.deepEqual(order(got.frames), [
    'message_start',
    'start 0',
    'delta 0',
    'stop 0',
    'message_delta',
    'message_stop',
  ])
})

test("an answer that cannot be healed ends with the API's own error event", async () => {
  const got = await relayed([[head(), messageStart, textBlock(0), blockText(0, 'Hello'), reset], message('Howdy')])
  assert.equal(got.text, 'Hello')
  assert.equal(got.frames.at(-1)?.event, 'error')
  const last = JSON.parse(got.frames.at(-1)?.data ?? '') as { type: string; error: { type: string } }
  assert.deepEqual([last.type, last.error.type], ['error', 'model_stream_interrupted'])
})

test('pings are ping events, and no answer at all is an error in the format of the API', async () => {
  const slow = await relayed([[pause(120), ...message('Hello')]], { pingMs: 40 })
  assert.equal(slow.frames[0]?.event, 'ping')
  assert.equal(slow.text, 'Hello')
  const none = await relayed([[reset]], { policy: { attemptsMax: 1 } })
  assert.equal(none.status, 502)
  assert.equal((JSON.parse(none.body) as { type: string }).type, 'error')
})

test('an answer in one piece is forwarded, and a stream that was not asked for is retried', async () => {
  const whole = { type: 'message', content: [{ type: 'text', text: 'Hello' }], stop_reason: 'end_turn' }
  const got = await relayed([message('x'), json(200, whole)], { body: { stream: false } })
  assert.deepEqual(JSON.parse(got.body), whole)
  const streamed = await relayed([json(200, whole)])
  assert.equal(streamed.text, 'Hello')
  assert.deepEqual(order(streamed.frames).at(-1), 'message_stop')
})

for (const hold of HOLDS) {
  test(`hold ${hold}: a tool that the provider ran is not run again without a word`, async () => {
    const ran = (type: string, name: string): Play => blockStart(0, { type, id: 's1', name, input: {} })
    for (const tool of [ran('mcp_tool_use', 'web_search'), ran('server_tool_use', 'bash_code_execution')]) {
      const got = await relayed([[head(), messageStart, tool, reset], message('Done')], { hold })
      assert.deepEqual([got.requests.length, got.status, got.outcome.fault?.sideEffects], [1, 502, 'unknown'])
      assert.match(got.body, /The provider may have run (?:web_search|bash_code_execution) already/)
    }
    const search = ran('server_tool_use', 'web_search')
    const read = await relayed([[head(), messageStart, search, reset], message('Found')], { hold })
    assert.deepEqual([read.text, read.requests.length], ['Found', 2])
  })
}
