import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MCP_LIMITS } from '../src/config.ts'
import { textOf } from '../src/content.ts'

test('images, audio and files are named with type and size, and text is kept', () => {
  const { text, isError } = textOf({
    content: [
      { type: 'text', text: 'hello' },
      { type: 'image', mimeType: 'image/png', data: 'A'.repeat(4_000) },
      { type: 'resource', resource: { uri: 'file:///a.zip', mimeType: 'application/zip', blob: 'AAAA' } },
      { type: 'resource_link', uri: 'file:///b', name: 'b' },
    ],
  })
  assert.equal(
    text,
    [
      'hello',
      '[image of type image/png, 3000 bytes: not shown, because a tool result is text]',
      '[file of type application/zip, 3 bytes: not shown, because a tool result is text] file:///a.zip',
      '[link to file:///b: b]',
    ].join('\n'),
  )
  assert.equal(isError, false)
})

test('a huge text is cut in the middle and says so; structured content without text is shown; nothing is named', () => {
  const { text } = textOf({ content: [{ type: 'text', text: `${'a'.repeat(300_000)}${'z'.repeat(300_000)}` }] })
  assert.ok(text.length < MCP_LIMITS.textCharsMax + 100)
  assert.match(text, /^a+\n\[200000 characters left out here\]\nz+$/)
  assert.equal(textOf({ content: [], structuredContent: { n: 1 } }).text, '{"n":1}')
  assert.deepEqual(textOf({ content: [], isError: true }), { text: '(no output)', isError: true })
})
