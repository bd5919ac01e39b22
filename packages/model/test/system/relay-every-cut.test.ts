/**
 * For every byte of an answer, every way to break there and every hold mode: the relay's client holds the answer, or an
 * error and a true beginning of the answer. Never a silent cut, doubled text or a cut call.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Hold } from '../../src/index.ts'
import { fin, head, lastChunk, type Play, reset } from '../../../../test/kit/plays.ts'
import { callItem, messageItem, reasoningItem, responseFrames } from '../../../../test/kit/responses-frames.ts'
import { relayed } from '../relayed.ts'

const data = (value: { type?: string; [key: string]: unknown }): string =>
  `${value.type === undefined ? '' : `event: ${value.type}\n`}data: ${JSON.stringify(value)}\n\n`
const delta = (value: object, finish: string | null = null): string =>
  data({ id: 'x', choices: [{ index: 0, delta: value, finish_reason: finish }] })
const call = (name: string | undefined, args: string): object => ({
  tool_calls: [{ index: 0, ...(name === undefined ? {} : { id: 'c' }), function: { name, arguments: args } }],
})

const OPENAI = [
  delta({ role: 'assistant', content: '' }),
  delta({ reasoning_content: 'hm' }),
  delta({ content: 'Grüß ' }),
  delta({ content: 'dich 🥋' }),
  delta(call('bash', '{"command":')),
  delta(call(undefined, '"ls"}')),
  delta({}, 'tool_calls'),
  'data: [DONE]\n\n',
].join('')

const block = (index: number, more: object): string => data({ type: 'content_block_delta', index, delta: more })
const ANTHROPIC = [
  data({ type: 'message_start', message: { id: 'm', usage: { input_tokens: 3, output_tokens: 1 } } }),
  data({ type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } }),
  block(0, { type: 'thinking_delta', thinking: 'hm' }),
  block(0, { type: 'signature_delta', signature: 'sig' }),
  data({ type: 'content_block_stop', index: 0 }),
  data({ type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } }),
  block(1, { type: 'text_delta', text: 'Grüß ' }),
  block(1, { type: 'text_delta', text: 'dich 🥋' }),
  data({ type: 'content_block_stop', index: 1 }),
  data({
    type: 'content_block_start',
    index: 2,
    content_block: { type: 'tool_use', id: 'c', name: 'bash', input: {} },
  }),
  block(2, { type: 'input_json_delta', partial_json: '{"command":' }),
  block(2, { type: 'input_json_delta', partial_json: '"ls"}' }),
  data({ type: 'content_block_stop', index: 2 }),
  data({ type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 9 } }),
  data({ type: 'message_stop' }),
].join('')

const RESPONSES = responseFrames([
  reasoningItem(['hm']),
  messageItem(['Grüß ', 'dich 🥋']),
  callItem('bash', '{"command":"ls"}', 'c'),
]).join('')

const TEXT = 'Grüß dich 🥋'
const CALLS = ['{"command":"ls"}']

/** Its frames are long, and most of their bytes are alike. */
const everyNth = (length: number, step: number): number[] =>
  Array.from({ length: Math.ceil(length / step) }, (_, index) => index * step)

function cutAt(body: string, cut: number): readonly Play[] {
  return [head(), ...(cut === 0 ? [] : [Buffer.from(body).subarray(0, cut)]), [reset, fin, lastChunk][cut % 3] ?? reset]
}

/** Anthropic's events must open and close each block once, in order, however many attempts they came from. */
function checkBlocks(frames: readonly { data: string }[]): void {
  let next = 0
  let open: number | undefined
  let starts = 0
  for (const { data: text } of frames) {
    const { type, index } = JSON.parse(text) as { type: string; index?: number }
    if (type === 'message_start') starts++
    if (type === 'content_block_start') {
      assert.equal(open, undefined)
      assert.equal(index, next++)
      open = index
    }
    if (type === 'content_block_delta') assert.equal(index, open)
    if (type === 'content_block_stop') {
      assert.equal(index, open)
      open = undefined
    }
  }
  assert.equal(starts, 1)
}

/** Responses: one beginning and one end, dense numbers, each item opened and closed once, and one response id. */
function checkItems(frames: readonly { data: string }[]): void {
  const ids = new Set<string>()
  const open = new Map<string, number>()
  const counts = new Map<string, number>()
  for (const [number, { data: text }] of frames.entries()) {
    const event = JSON.parse(text) as ItemEvent
    assert.equal(event.sequence_number, number)
    counts.set(event.type, (counts.get(event.type) ?? 0) + 1)
    if (event.response !== undefined) ids.add(event.response.id)
    const { item = { id: '' }, output_index = -1 } = event
    if (event.type === 'response.output_item.added') {
      assert.equal(output_index, open.size)
      assert.ok(!open.has(item.id))
      open.set(item.id, output_index)
    }
    if (event.item_id !== undefined) assert.equal(open.get(event.item_id), output_index)
    if (event.type === 'response.output_item.done') {
      assert.equal(open.get(item.id), output_index)
      open.set(item.id, -1)
    }
  }
  assert.deepEqual([ids.size, counts.get('response.created'), counts.get('response.completed')], [1, 1, 1])
  assert.ok([...open.values()].every((index) => index === -1))
}

type ItemEvent = {
  type: string
  sequence_number: number
  output_index?: number
  item_id?: string
  item?: { id: string }
  response?: { id: string }
}

for (const [api, body] of [
  ['openai-chat', OPENAI],
  ['openai-responses', RESPONSES],
  ['anthropic-messages', ANTHROPIC],
] as const) {
  const length = Buffer.byteLength(body)
  const firstCall = Buffer.from(body).indexOf(
    { 'openai-chat': 'tool_calls', 'openai-responses': 'function_call', 'anthropic-messages': 'tool_use' }[api],
  )
  const check = async (hold: Hold, cut: number, second: string): Promise<void> => {
    const where = `${hold}, cut at ${cut}`
    const got = await relayed([cutAt(body, cut), [head(), second, lastChunk]], { api, hold })
    assert.equal(got.isEnded, true, where)
    if (got.error === undefined) {
      assert.deepEqual([got.text, got.calls], [TEXT, CALLS], where)
      if (api === 'anthropic-messages') checkBlocks(got.frames)
      if (api === 'openai-responses') checkItems(got.frames)
    } else {
      assert.ok(TEXT.startsWith(got.text), where)
      if (hold !== 'none') assert.deepEqual(got.calls, [], where)
    }
    // With hold none, a call that was partly sent cannot be taken back.
    const isCallOut = hold === 'none' && firstCall < cut
    if (second === body && !isCallOut) assert.equal(got.error, undefined, `${where}: ${got.error?.message}`)
    if (hold === 'answer') assert.equal(got.error, undefined, where)
  }
  for (const hold of ['tools', 'answer', 'none'] as const) {
    test(`${api}, hold ${hold}: wherever the stream is cut, the same answer again heals it`, async () => {
      const cuts = everyNth(length, api === 'openai-responses' ? 7 : 2)
      while (cuts.length > 0) await Promise.all(cuts.splice(0, 40).map((cut) => check(hold, cut, body)))
    })
  }
  test(`${api}: wherever the stream is cut, another answer is never joined to the first`, async () => {
    const other = body.replaceAll('dich', 'Gott')
    const cuts = everyNth(length, api === 'openai-responses' ? 17 : 5)
    const glued = async (cut: number): Promise<void> => {
      const got = await relayed([cutAt(body, cut), [head(), other, lastChunk]], { api })
      const isTrue = got.error === undefined ? [TEXT, 'Grüß Gott 🥋'].includes(got.text) : TEXT.startsWith(got.text)
      assert.ok(isTrue, `cut at ${cut}: ${got.text} ${got.error?.message}`)
    }
    while (cuts.length > 0) await Promise.all(cuts.splice(0, 40).map(glued))
  })
}
