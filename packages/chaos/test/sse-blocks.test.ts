import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SseBlocks } from '../src/sse-blocks.ts'

const line = fc.constantFrom(
  'data: {"a":1}',
  'data: ü€🙂',
  'event: ping',
  ': comment',
  'data',
  'id: 3',
  'retry: 5',
  'data:x',
)
const newline = fc.constantFrom('\n', '\r\n', '\r')
const stream = fc
  .array(fc.tuple(fc.array(line, { minLength: 1, maxLength: 3 }), newline), { maxLength: 6 })
  .map((blocks) => blocks.map(([lines, nl]) => lines.map((text) => text + nl).join('') + nl).join(''))

test('joined blocks are the stream, and how it was chunked does not change the blocks', () => {
  fc.assert(
    fc.property(
      stream,
      fc.string({ maxLength: 5 }),
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
      (text, tail, cuts) => {
        const bytes = Buffer.from(text + tail)
        const blocksOf = (sizes: readonly number[]): { blocks: string[]; rest: string } => {
          const splitter = new SseBlocks()
          const blocks: string[] = []
          for (let from = 0, i = 0; from < bytes.length; i += 1) {
            const size = sizes[i % sizes.length] ?? 1
            blocks.push(
              ...splitter.push(bytes.subarray(from, from + size)).map((block) => block.bytes.toString('latin1')),
            )
            from += size
          }
          return { blocks, rest: splitter.rest().toString('latin1') }
        }
        const cut = blocksOf(cuts)
        assert.equal(cut.blocks.join('') + cut.rest, bytes.toString('latin1'))
        assert.deepEqual(cut, blocksOf([Math.max(1, bytes.length)]))
      },
    ),
  )
})

test('a block has its event and its data; a comment has neither', () => {
  const [named, comment, two] = new SseBlocks().push(
    Buffer.from('event: error\ndata: {"a":1}\n\n: ping\n\ndata: 1\r\ndata:2\r\n\r\n'),
  )
  assert.deepEqual([named?.event, named?.data], ['error', '{"a":1}'])
  assert.deepEqual([comment?.event, comment?.data], [undefined, undefined])
  assert.equal(two?.data, '1\n2')
})
