/** Anthropic messages across broken streams: one message_start, whole blocks, the API's own error event. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { shared } from '../shared.ts'
import {
  blockDelta,
  blockStart,
  blockStop,
  event,
  messageDelta,
  messageFrames,
  messageStart,
  messageStartWith,
  messageStop,
  ping,
  textFrames,
  toolFrames,
} from '../../test/kit/anthropic-frames.ts'
import { cut, fin, half, json, type Play, reset, stall, stream } from '../../test/kit/plays.ts'
import { assembledMessage } from './assembled.ts'
import { isCutOff, type Reply, Rig } from './rig.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const flags = ['--attempts-max', '3', '--liveness-ms', '1000']
const [tools, whole] = await Promise.all([shared(Rig.start(...flags)), shared(Rig.start(...flags, '--hold', 'answer'))])

const types = (reply: Reply): string[] => reply.frames.map(({ json }) => json?.type)

/** Checks Anthropic's rules: one start, blocks opened and closed in order, one stop at the end. */
function isClean(reply: Reply, texts: readonly string[], stop = 'end_turn'): void {
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.whole, true)
  for (const frame of reply.frames) assert.equal(frame.event, frame.json?.type, 'event line and type differ')
  assert.equal(types(reply).filter((type) => type === 'message_start').length, 1, reply.text)
  assert.equal(
    types(reply).find((type) => type !== 'ping'),
    'message_start',
  )
  assert.equal(types(reply).at(-1), 'message_stop')
  assert.equal(types(reply).includes('error'), false)
  let open = -1
  let next = 0
  for (const { json } of reply.frames) {
    if (json.type === 'content_block_start') {
      assert.equal(open, -1)
      assert.equal(json.index, next)
      open = next++
    }
    if (json.type === 'content_block_delta') assert.equal(json.index, open)
    if (json.type === 'content_block_stop') {
      assert.equal(json.index, open)
      open = -1
    }
  }
  assert.equal(open, -1)
  assert.deepEqual(
    assembledMessage(reply.frames).flatMap((block) => (block.type === 'text' ? [block.text] : [])),
    texts,
    reply.text,
  )
  assert.equal(reply.frames.find(({ json }) => json.type === 'message_delta')?.json.delta.stop_reason, stop)
}

function isBroken(reply: Reply): void {
  assert.equal(reply.status, 200)
  assert.ok(isCutOff(reply), reply.text)
  assert.equal(types(reply).includes('message_stop'), false)
  assert.equal(types(reply).includes('message_delta'), false)
  assert.equal(reply.text.includes('[DONE]'), false)
}

describe('a break before content is invisible', { ...LIMIT, concurrency: true }, () => {
  const overloaded = event('error', { error: { type: 'overloaded_error', message: 'Overloaded' } })
  const breaks: Record<string, Play> = {
    'a reset before the head': reset,
    'a bare end': fin,
    'a 529': json(529, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }),
    'a reset after message_start': cut(messageStartWith('msg_0'), ping),
    'a clean end after message_start': stream(messageStartWith('msg_0')),
    'a clean end after an empty block': stream(messageStartWith('msg_0'), blockStart(0, { type: 'text', text: '' })),
    'a stall after message_start': stall(messageStartWith('msg_0')),
    'an overload told inside': stream(messageStartWith('msg_0'), overloaded),
    'an overload told first': stream(overloaded),
    'half a frame': half(messageStartWith('msg_0'), 'event: content_block_start\ndata: {"type":"cont'),
    'a message_stop without a reason': stream(messageStartWith('msg_0'), messageStop),
    'a cut tool call': cut(messageStartWith('msg_0'), ...toolFrames(0, 't1', 'bash', '{"comm').slice(0, 2)),
    'a tool call that is closed but cut': stream(
      messageStartWith('msg_0'),
      ...toolFrames(0, 't1', 'bash', '{"comm'),
      messageDelta('tool_use'),
      messageStop,
    ),
    'a tool call cut by max_tokens': stream(
      messageStartWith('msg_0'),
      ...toolFrames(0, 't1', 'bash', '{"comm'),
      messageDelta('max_tokens'),
      messageStop,
    ),
  }
  for (const [what, play] of Object.entries(breaks))
    test(what, async () => {
      const reply = await tools.messages([play, play, stream(...messageFrames(textFrames(0, 'All', ' of it.')))])
      isClean(reply, ['All of it.'])
      assert.equal(reply.tries, 3)
      assert.equal(reply.frames.find(({ json }) => json.type === 'message_start')?.json.message.id, 'msg_1')
      assert.deepEqual(reply.comments, [])
    })
})

describe('a break after content', { ...LIMIT, concurrency: true }, () => {
  const began = [messageStartWith('msg_0', 'first'), ...textFrames(0, 'One ', 'two ').slice(0, 3)]
  const breaks: Record<string, Play> = {
    'a reset': cut(...began),
    'an end without the last chunk': half(...began),
    'a clean end': stream(...began),
    'a clean end after the block': stream(...began, blockStop(0)),
    'a clean end after the stop reason': stream(...began, blockStop(0), messageDelta()),
    'a stall': stall(...began),
    'an overload told inside': stream(...began, event('error', { error: { type: 'overloaded_error', message: 'x' } })),
  }
  for (const [what, play] of Object.entries(breaks)) {
    test(`${what}: continues after the same beginning, with the first id and model`, async () => {
      const more = what.includes('after the') ? [] : ['three.']
      const reply = await tools.messages([play, stream(...messageFrames(textFrames(0, 'On', 'e two ', ...more)))])
      isClean(reply, [`One two ${more.join('')}`])
      const start = reply.frames.find(({ json }) => json.type === 'message_start')?.json.message
      assert.deepEqual([start.id, start.model], ['msg_0', 'first'])
    })
    test(`${what}: ends as the upstream did if every new answer differs, but never cleanly`, async () => {
      const other = stream(...messageFrames(textFrames(0, 'Other')))
      const reply = await tools.messages([play, other, other])
      if (what === 'an overload told inside') assert.equal(reply.frames.at(-1)?.json.error.type, 'overloaded_error')
      else if (what === 'a clean end after the stop reason') assert.ok(isCutOff(reply), reply.text)
      else isBroken(reply)
      assert.equal(assembledMessage(reply.frames)[0].text, 'One two ')
    })
    test(`${what}: --hold answer recovers, even with a different answer`, async () => {
      isClean(await whole.messages([play, stream(...messageFrames(textFrames(0, 'Other')))]), ['Other'])
    })
  }
  test('a permanent in-band error is forwarded unchanged', async () => {
    const error = { type: 'error', error: { type: 'invalid_request_error', message: 'no' }, request_id: 'r1' }
    const reply = await tools.messages([
      stream(...began, event(error.type, error)),
      stream(...messageFrames(textFrames(0, 'One two three'))),
    ])
    assert.equal(reply.tries, 1)
    assert.deepEqual(reply.frames.at(-1)?.json, error)
    assert.equal(reply.frames.at(-1)?.event, 'error')
  })
})

describe('blocks', { ...LIMIT, concurrency: true }, () => {
  const thinking = (signature: string): string[] => [
    blockStart(0, { type: 'thinking', thinking: '', signature: '' }),
    blockDelta(0, { type: 'thinking_delta', thinking: 'Hm, ' }),
    blockDelta(0, { type: 'thinking_delta', thinking: 'so.' }),
    blockDelta(0, { type: 'signature_delta', signature }),
    blockStop(0),
  ]
  test('a good answer passes unchanged, with any content', async () => {
    const frames = messageFrames(
      thinking('c2ln'),
      [blockStart(1, { type: 'redacted_thinking', data: 'b64' }), blockStop(1)],
      textFrames(2, 'Text'),
      [
        blockStart(3, { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} }),
        blockDelta(3, { type: 'input_json_delta', partial_json: '{"query":"x"}' }),
        blockStop(3),
      ],
      [
        blockStart(4, {
          type: 'web_search_tool_result',
          tool_use_id: 's1',
          content: [{ type: 'web_search_result', url: 'u' }],
        }),
        blockStop(4),
      ],
      [
        blockStart(5, { type: 'text', text: '', citations: [] }),
        blockDelta(5, { type: 'citations_delta', citation: { cited_text: 'c' } }),
        blockDelta(5, { type: 'text_delta', text: 'cited' }),
        blockStop(5),
      ],
      toolFrames(6, 't1', 'bash', '', '{"comm', 'and":"ls"}'),
      toolFrames(7, 't2', 'now'),
      [
        blockStart(8, { type: 'block_from_the_future', odd: 1 }),
        blockDelta(8, { type: 'odd_delta', odd: 2 }),
        blockStop(8),
      ],
    )
    for (const rig of [tools, whole]) {
      const reply = await rig.messages([stream(...frames)])
      const sent = frames.filter((frame) => frame !== ping)
      assert.deepEqual(
        reply.frames.filter(({ json }) => json.type !== 'ping').map(({ data }) => data),
        sent.map((frame) => frame.split('data: ')[1]?.trim()),
        reply.text,
      )
      assert.equal(reply.tries, 1)
    }
  })
  test('a tool call after text is requested again and arrives once, complete', async () => {
    const text = textFrames(0, 'Let me look.')
    const call = toolFrames(1, 't1', 'bash', '{"command"', ':"ls"}')
    for (const play of [
      cut(messageStart, ...text, ...call.slice(0, 2)),
      stream(messageStart, ...text, ...call.slice(0, 2), blockStop(1), messageDelta('max_tokens'), messageStop),
    ]) {
      const reply = await tools.messages([
        play,
        stream(messageStartWith('msg_9'), ...text, ...call, messageDelta('tool_use'), messageStop),
      ])
      isClean(reply, ['Let me look.'], 'tool_use')
      assert.equal(assembledMessage(reply.frames)[1].json, '{"command":"ls"}')
    }
  })
  test('forwarded thinking is never joined with another signature or other thinking', async () => {
    const began = [messageStart, ...thinking('c2ln')]
    const other = [
      blockStart(0, { type: 'thinking', thinking: '', signature: '' }),
      blockDelta(0, { type: 'thinking_delta', thinking: 'Other.' }),
      blockDelta(0, { type: 'signature_delta', signature: 'b3Ro' }),
      blockStop(0),
    ]
    const again = stream(...messageFrames(other, textFrames(1, 'So.')))
    isBroken(await tools.messages([cut(...began), again, again]))
    const resigned = stream(...messageFrames(thinking('b3Ro'), textFrames(1, 'So.')))
    const reply = await tools.messages([cut(...began), resigned, resigned])
    const [block] = assembledMessage(reply.frames)
    assert.equal(block.signature, 'c2ln', 'a signature of another answer was added')
    const within = await tools.messages([cut(...began.slice(0, 2), began[2] as string), resigned, resigned])
    assert.ok([undefined, '', 'b3Ro'].includes(assembledMessage(within.frames)[0].signature))
  })
  test('the same thinking with the same signature continues', async () => {
    const reply = await tools.messages([
      cut(messageStart, ...thinking('c2ln')),
      stream(...messageFrames(thinking('c2ln'), textFrames(1, 'So.'))),
    ])
    if (!reply.whole) isBroken(reply)
    else isClean(reply, ['So.'])
    assert.equal(assembledMessage(reply.frames)[0].thinking, 'Hm, so.')
  })
  test("if every attempt truncates the call, the client gets the API's error JSON and no truncated call", async () => {
    const play = cut(messageStart, ...toolFrames(0, 't1', 'bash', '{"comm').slice(0, 2))
    const reply = await tools.messages([play, play, play])
    assert.equal(reply.status, 502, reply.text)
    assert.equal(reply.json.type, 'error')
    assert.equal(reply.headers['x-should-retry'], 'false')
    assert.match(String(reply.headers['x-breakfall-category']), /^(model_stream_interrupted|tool_call_truncated)$/)
  })
  test("the upstream's own 529 and body, once no attempts are left", async () => {
    const body = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' }, request_id: 'req_1' }
    const play = json(529, body, { 'request-id': 'req_1' })
    const reply = await tools.messages([play, play, play])
    assert.equal(reply.status, 529)
    assert.deepEqual(reply.json, body)
    assert.equal(reply.headers['request-id'], 'req_1')
    assert.equal(reply.headers['x-breakfall-category'], 'model_overloaded')
  })
})
