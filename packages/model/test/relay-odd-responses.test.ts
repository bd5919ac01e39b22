/** Responses streams in an order that no rule forbids: they pass as they came, or end as broken. Never as if they were whole. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOLDS } from '../src/index.ts'
import { cut, stream } from '../../../test/kit/plays.ts'
import {
  callItem,
  type Item,
  messageItem,
  otherItem,
  reasoningItem,
  responseEvent,
  responseFrames,
} from '../../../test/kit/responses-frames.ts'
import { framesIn } from '../../../test/kit/sse.ts'
import { unboundedShare } from '@breakfall/wire/node'
import { ClientStream } from '../src/relay/client-stream.ts'
import { relayed } from './relayed.ts'

const ID = 'msg_1'
const output_index = 0
const partAt = (content_index: number): object => ({ item_id: ID, output_index, content_index })
const part = (text: string): object => ({ type: 'output_text', text, annotations: [] })
const delta = (content_index: number, text: string) => ({
  type: 'response.output_text.delta',
  ...partAt(content_index),
  delta: text,
  logprobs: [],
})

/** A message with two parts that grow by turns. */
const byTurns: Item = () => {
  const item = {
    id: ID,
    type: 'message',
    role: 'assistant',
    status: 'completed',
    content: [part('Hello'), part('Gruezi')],
  }
  const events = [
    { type: 'response.output_item.added', output_index, item: { ...item, status: 'in_progress', content: [] } },
    { type: 'response.content_part.added', ...partAt(0), part: part('') },
    { type: 'response.content_part.added', ...partAt(1), part: part('') },
    delta(0, 'Hel'),
    delta(1, 'Grue'),
    delta(0, 'lo'),
    delta(1, 'zi'),
    { type: 'response.content_part.done', ...partAt(0), part: part('Hello') },
    { type: 'response.content_part.done', ...partAt(1), part: part('Gruezi') },
    { type: 'response.output_item.done', output_index, item },
  ]
  return { events, item }
}

const BY_TURNS = responseFrames([byTurns])

for (const hold of HOLDS) {
  test(`hold ${hold}: parts of a message that grow by turns pass as they came`, async () => {
    const got = await relayed([stream(...BY_TURNS)], { api: 'openai-responses', hold })
    assert.equal(got.body, BY_TURNS.join(''))
    assert.equal(got.requests.length, 1)
  })
  test(`hold ${hold}: two items with one id pass as they came`, async () => {
    const twice = responseFrames([otherItem({ id: ID, type: 'reasoning', summary: [] }), messageItem(['Hello'], ID)])
    const got = await relayed([stream(...twice)], { api: 'openai-responses', hold })
    assert.equal(got.body, twice.join(''))
  })
}

const PROGRESS = { type: 'response.in_progress', response: { id: 'resp_1', status: 'in_progress', output: [] } }
const SIGNS_OF_LIFE = [PROGRESS, { type: 'keepalive' }, PROGRESS]

/** The item with the server's signs of life at its beginning, inside and at its end. */
const kept =
  (item: Item): Item =>
  (index) => {
    const { events, item: whole } = item(index)
    const lively = events.flatMap((event, at) => (at === 2 || at === 4 ? [...SIGNS_OF_LIFE, event] : [event]))
    return { events: [...SIGNS_OF_LIFE, ...lively, ...SIGNS_OF_LIFE], item: whole }
  }

for (const hold of HOLDS) {
  test(`hold ${hold}: a server's signs of life pass as they came`, async () => {
    const frames = responseFrames([kept(messageItem(['Hello', ' world'])), kept(callItem('ls', '{"path":"a"}'))])
    const got = await relayed([stream(...frames)], { api: 'openai-responses', hold })
    assert.equal(got.body, frames.join(''))
  })
}

test('after another attempt with signs of life, numbers are dense and the response begins once', async () => {
  const frames = responseFrames([kept(messageItem(['Hello', ' world']))])
  for (const after of [3, 9, 12]) {
    const got = await relayed([cut(...frames.slice(0, after)), stream(...frames)], { api: 'openai-responses' })
    const numbers = got.frames.map(({ json: { sequence_number } }) => sequence_number as unknown)
    assert.deepEqual(numbers, [...numbers.keys()])
    assert.equal(got.frames.filter(({ json: { type } }) => type === 'response.created').length, 1)
    assert.equal(got.text, 'Hello world')
  }
})

test('with hold auto, parts that grow by turns go out when the wait is over', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  let written = ''
  const sink = {
    head: () => undefined,
    write: (chunk: string | Buffer) => (written += chunk.toString()) !== '',
    drained: () => Promise.resolve(),
    end: () => undefined,
  }
  const client = new ClientStream(
    { api: 'openai-responses', json: { tools: [{ type: 'function', name: 'bash' }] } },
    sink,
    {
      hold: 'auto',
      holdMs: 20,
      holdBytesMax: 100_000,
      pingMs: 1_000,
      memory: unboundedShare(),
    },
  )
  client.begin()
  for (const frame of framesIn(BY_TURNS.slice(0, -1).join('')).frames) {
    const kind = frame.json.delta === undefined ? 'opening' : 'content'
    client.take(kind, frame, frame.json, undefined, [])
  }
  t.mock.timers.tick(20)
  client.stop()
  assert.match(written, /"delta":"zi"/)
})

test('thoughts too long to be held back are closed before another attempt’s follow, and the output has both', async () => {
  const thoughts = Array.from({ length: 20 }, (_, index) => `thought ${index} `)
  const items = (n: number): string[] =>
    responseFrames([reasoningItem(thoughts, `rs_${n}`), messageItem(['Hello'], `msg_${n}`)])
  for (const hold of HOLDS) {
    const script = [cut(...items(1).slice(0, 15)), stream(...items(2))]
    const got = await relayed(script, { api: 'openai-responses', hold, holdBytesMax: 1_000 })
    const done = got.frames.filter(({ json }) => json.type === 'response.output_item.done')
    assert.deepEqual(
      done.map(({ json }) => [json.output_index, json.item.id]),
      [
        [0, 'rs_1'],
        [1, 'rs_2'],
        [2, 'msg_2'],
      ],
    )
    assert.deepEqual(
      got.frames.at(-1)?.json.response.output,
      done.map(({ json }) => json.item),
    )
  }
})

test('thoughts that went out in part continue if they come again under their id, and end there if other words do', async () => {
  const thoughts = Array.from({ length: 20 }, (_, index) => `thought ${index} `)
  const items = (texts: readonly string[]): string[] => responseFrames([reasoningItem(texts), messageItem(['Hello'])])
  const script = (again: readonly string[]) => [cut(...items(thoughts).slice(0, 15)), stream(...items(again))]
  for (const hold of HOLDS)
    for (const again of [thoughts, ['well ']]) {
      const got = await relayed(script(again), { api: 'openai-responses', hold, holdBytesMax: 1_000 })
      const isSame = again === thoughts
      const events = got.frames.map(({ json }) => json)
      const done = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item)
      const streamed = events.filter(({ type }) => type === 'response.reasoning_summary_text.delta')
      const text = streamed.map((event) => event.delta).join('')
      assert.equal(text === thoughts.join(''), isSame)
      assert.deepEqual(
        done.map(({ id, summary, encrypted_content: secret }) => [id, summary?.[0].text, secret]),
        [
          ['rs_1', text, isSame ? 'secret of rs_1' : undefined],
          ['msg_1', undefined, undefined],
        ],
      )
      assert.deepEqual(events.at(-1)?.response.output, done)
    }
})

test('text that another attempt adds to a closed message is an error, also after a call that was held back', async () => {
  const first = responseFrames([messageItem(['Hello'])])
  const again = responseFrames([messageItem(['Hello'], 'msg_2'), callItem('bash', '{"command":"ls"}')])
  const late = responseEvent({
    type: 'response.output_text.delta',
    item_id: 'msg_2',
    output_index: 0,
    content_index: 0,
    delta: ' world',
    sequence_number: 99,
  })
  const second = [...again.slice(0, -1), late, ...again.slice(-1)]
  const got = await relayed([cut(...first.slice(0, -1)), stream(...second)], {
    api: 'openai-responses',
    hold: 'tools',
    policy: { attemptsMax: 2 },
  })
  assert.notEqual(got.error, undefined, got.body)
  assert.notEqual(got.outcome.fault, null)
})
