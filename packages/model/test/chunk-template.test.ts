/** Frames that are read without parsing say exactly what they would say when parsed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ChunkTemplate } from '../src/dialects/chunk-template.ts'
import { DIALECTS } from '../src/dialects/dialects.ts'
import { PROFILES } from '../src/contract/profiles.ts'
import { partCounter } from '../src/dialects/read-answer.ts'

/** Any character except half of a surrogate pair. (`unit: 'binary'` means the same, and takes a second to set up.) */
const character = fc.integer({ min: 0, max: 0x10f7ff }).map((n) => String.fromCodePoint(n < 0xd800 ? n : n + 0x800))
const content = fc.oneof(
  fc.string({ maxLength: 30 }),
  fc.string({ unit: character, maxLength: 30 }),
  fc.constantFrom('"', '\\', '","x":"', '"}', '\\u0041', '\n', '🥋', '"content":"x"'),
)
const spaces = fc.constantFrom('', ' ')

test('a matched text is the text that parsing gives, and everything else is the same', () => {
  fc.assert(
    fc.property(content, content, spaces, fc.string(), (first, second, space, other) => {
      const frame = (text: string): string =>
        `{"id":${JSON.stringify(other)},"choices":[{"index":0,"delta":{"content":${space}${JSON.stringify(text)}},"f":null}]}`
      const template = new ChunkTemplate()
      if (!template.learn(frame(first), 'content', first)) return
      const matched = template.match(frame(second))
      if (matched !== undefined) assert.equal(matched, second)
      else assert.match(JSON.stringify(second), /^""$|[\\"]./, 'plain text is always matched')
    }),
    { numRuns: 2_000 },
  )
})

test('a frame matches only if it is valid JSON that differs in the text alone', () => {
  const known = '{"a":"b","delta":{"content":"x"},"c":1}'
  const template = new ChunkTemplate()
  assert.equal(template.learn(known, 'content', 'x'), true)
  const noise = fc.array(
    fc.constantFrom('{', '"', 'a', ':', 'b', ',', '\\', '}', 'x', '\n', '\t', known.slice(0, 29), known.slice(30)),
    {
      maxLength: 8,
    },
  )
  fc.assert(
    fc.property(noise, (pieces) => {
      const data = pieces.join('')
      const text = template.match(data)
      if (text !== undefined) assert.deepEqual(JSON.parse(data), { a: 'b', delta: { content: text }, c: 1 })
    }),
    { numRuns: 5_000 },
  )
})

test('a run is the frames that match one by one, up to the first that does not', () => {
  const frame = (text: string): string => `{"delta":{"content":${JSON.stringify(text)}},"f":null}`
  const texts = fc.array(fc.oneof({ weight: 5, arbitrary: fc.stringMatching(/^[a-z ]{1,20}$/) }, content))
  fc.assert(
    fc.property(texts, fc.constantFrom('data: ', 'event: e\ndata: '), fc.nat(40), (all, head, cut) => {
      const template = new ChunkTemplate()
      assert.equal(template.learn(frame('x'), 'content', 'x', head), true)
      for (let seen = 0; seen < 4; seen++) template.match(frame('x'))
      const events = all.map((text) => `${head}${frame(text)}\n\n`)
      const stream = `: c\n\n${events.join('')}`.slice(0, -cut || undefined)
      const run = template.run(stream, 5)
      let [to, count] = [5, 0]
      const isWhole = (): boolean => stream.startsWith(events[count] ?? 'none', to)
      while (isWhole() && template.match(frame(all[count] ?? '')) !== undefined) to += events[count++]?.length ?? 0
      const expected = count === 0 ? undefined : { text: all.slice(0, count).join(''), events: count, to }
      assert.deepEqual(run, expected)
    }),
    { numRuns: 1_000 },
  )
})

test('a frame larger than any pattern is matched, and begins no run', () => {
  const frame = (text: string): string => `{"image":"${'y'.repeat(40_000)}","delta":{"content":"${text}"}}`
  const template = new ChunkTemplate()
  assert.equal(template.learn(frame('x'), 'content', 'x', 'data: '), true)
  for (const text of ['a', 'b', 'c', 'd', 'e']) {
    assert.equal(template.run(`data: ${frame(text)}\n\n`, 0), undefined)
    assert.equal(template.match(frame(text)), text)
  }
})

test('a frame that has the key twice is not learnt', () => {
  const template = new ChunkTemplate()
  assert.equal(template.learn('{"content":"x","delta":{"content":"x"}}', 'content', 'x'), false)
  assert.equal(template.match('{"content":"x","delta":{"content":"y"}}'), undefined)
})

const chat = (delta: object, more: object = {}): string =>
  JSON.stringify({ id: 'a', choices: [{ index: 0, delta, finish_reason: null, ...more }] })
const message = (type: string, more: object): string => JSON.stringify({ type, ...more })
const block = (index: number, delta: object): string => message('content_block_delta', { index, delta })

const chatFrame = fc.oneof(
  content.map((text) => chat({ content: text })),
  content.map((text) => chat({ reasoning_content: text })),
  content.map((text) => chat({ role: 'assistant', content: text })),
  content.map((text) => chat({ tool_calls: [{ index: 0, id: 'c', function: { name: 'bash', arguments: text } }] })),
  content.map((text) => JSON.stringify({ ...JSON.parse(chat({ content: text })), usage: { prompt_tokens: 1 } })),
  fc.constant(chat({}, { finish_reason: 'stop' })),
)
const index = fc.constantFrom(0, 1)
const messageFrame = fc.oneof(
  fc.tuple(index, content).map(([at, text]) => block(at, { type: 'text_delta', text })),
  fc.tuple(index, content).map(([at, thinking]) => block(at, { type: 'thinking_delta', thinking })),
  fc.tuple(index, content).map(([at, json]) => block(at, { type: 'input_json_delta', partial_json: json })),
  fc
    .tuple(index, fc.constantFrom('text', 'thinking', 'tool_use'))
    .map(([at, type]) => message('content_block_start', { index: at, content_block: { type } })),
)

for (const [api, frames] of [
  ['openai-chat', chatFrame],
  ['anthropic-messages', messageFrame],
] as const) {
  test(`${api}: an answer read by template is the answer that parsing every frame gives`, () => {
    fc.assert(
      fc.property(fc.array(frames, { maxLength: 40 }), (list) => {
        const read = (everyJson: boolean): unknown => {
          const said: string[] = []
          const handler = {
            text: (part: { id: string }, text: string) => said.push(`${part.id} ${text}`),
            tool: (part: { id: string; arguments: string }) => said.push(`${part.id} ${part.arguments}`),
          }
          const decoder = DIALECTS[api].decoder(handler, partCounter(), {
            everyJson,
            choices: 1,
            profile: PROFILES.generic,
          })
          for (const data of list) decoder.frame({ data })
          const { finish, parts, usage } = decoder.answer
          return { said, finish, parts, usage }
        }
        assert.deepEqual(read(false), read(true))
      }),
      { numRuns: 1_000 },
    )
  })
}
