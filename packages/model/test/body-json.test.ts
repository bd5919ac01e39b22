import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { bodyJson } from '../src/json.ts'

test('a body is written as JSON.stringify writes it, frozen messages too, the first time and again', () => {
  const messages = fc.array(
    fc.oneof(
      fc.object(),
      fc.object().map((value) => Object.freeze(value)),
      fc.jsonValue(),
    ),
  )
  const bodies = fc.record({
    model: fc.string(),
    messages,
    stream: fc.boolean(),
    tools: fc.option(fc.object(), { nil: undefined }),
  })
  fc.assert(
    fc.property(bodies, (body) => {
      for (let time = 0; time < 2; time += 1) assert.equal(bodyJson(body), JSON.stringify(body))
    }),
    { seed: 16 },
  )
})

test('a message that is not frozen may change between two requests', () => {
  const message = { role: 'user', content: 'one' }
  bodyJson({ messages: [message] })
  message.content = 'two'
  assert.equal(bodyJson({ messages: [message] }), '{"messages":[{"role":"user","content":"two"}]}')
})
