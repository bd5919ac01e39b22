/** For every byte of an answer: the stream breaks there, in every way, and the consumer still holds exactly the answer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask } from '../collect.ts'
import { startModelServer } from '../../../../test/kit/model-server.ts'
import { callItem, messageItem, responseFrames } from '../../../../test/kit/responses-frames.ts'
import { fin, head, lastChunk, reset } from '../../../../test/kit/plays.ts'

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
const delta = (value: object, finish: string | null = null): string =>
  data({ id: 'x', choices: [{ index: 0, delta: value, finish_reason: finish }] })

const OPENAI = [
  delta({ role: 'assistant' }),
  delta({ content: 'Grüß ' }),
  delta({ content: 'dich 🥋' }),
  delta({ tool_calls: [{ index: 0, id: 'c', function: { name: 'bash', arguments: '{"command":' } }] }),
  delta({ tool_calls: [{ index: 0, function: { arguments: '"ls"}' } }] }),
  delta({}, 'tool_calls'),
  'data: [DONE]\n\n',
].join('')

const ANTHROPIC = [
  data({ type: 'message_start', message: { usage: { input_tokens: 3, output_tokens: 1 } } }),
  data({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
  data({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Grüß dich 🥋' } }),
  data({ type: 'content_block_stop', index: 0 }),
  data({
    type: 'content_block_start',
    index: 1,
    content_block: { type: 'tool_use', id: 'c', name: 'bash', input: {} },
  }),
  data({
    type: 'content_block_delta',
    index: 1,
    delta: { type: 'input_json_delta', partial_json: '{"command":"ls"}' },
  }),
  data({ type: 'content_block_stop', index: 1 }),
  data({ type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 9 } }),
  data({ type: 'message_stop' }),
].join('')

const RESPONSES = responseFrames([messageItem(['Grüß ', 'dich 🥋']), callItem('bash', '{"command":"ls"}', 'c')]).join(
  '',
)

for (const [api, body] of [
  ['openai-chat', OPENAI],
  ['openai-responses', RESPONSES],
  ['anthropic-messages', ANTHROPIC],
] as const) {
  test(`${api}: wherever the stream is cut, the answer is held once and its call is run once`, async (t) => {
    const whole = Buffer.from(body)
    const ends = [reset, fin, lastChunk]
    const seen = new Set<string>()
    const model = await startModelServer((request) => {
      const name = String(request.body['model'])
      if (seen.has(name)) return [head(), body, lastChunk]
      seen.add(name)
      const cut = Number(name)
      return [head(), ...(cut === 0 ? [] : [whole.subarray(0, cut)]), ends[cut % ends.length] ?? reset]
    })
    t.after(() => model.close())
    const check = async (cut: number): Promise<void> => {
      const got = await ask(model.url, { api, model: String(cut) })
      assert.equal(got.text, 'Grüß dich 🥋', `cut at ${cut}`)
      assert.deepEqual(
        got.calls.map(({ arguments: args }) => args),
        [{ command: 'ls' }],
        `cut at ${cut}`,
      )
    }
    const cuts = Array.from({ length: whole.length }, (_, cut) => cut)
    while (cuts.length > 0) await Promise.all(cuts.splice(0, 50).map(check))
  })
}
