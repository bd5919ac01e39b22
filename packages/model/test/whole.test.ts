/** Servers that answer in one piece although a stream was asked for. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GOOD, play } from './play.ts'
import { json } from '../../../test/kit/plays.ts'

test('an answer in one piece is accepted although a stream was asked for', async () => {
  const body = {
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 2 },
  }
  const got = await play([json(200, body)])
  assert.equal(got.text, 'Hello')
  assert.equal(got.done?.proven, true)
})

test('an answer in one piece that is cut inside its JSON is a break', async () => {
  const got = await play([[...json(200, '{"choices":[{"index":0,"mess')], GOOD])
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_interrupted')
})

test('an error object with status 200 is an error', async () => {
  const got = await play([json(200, { error: { message: 'busy', type: 'overloaded_error' } }), GOOD])
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_overloaded')
})

test('a web page with status 200 is not an answer', async () => {
  const got = await play([json(200, '<html>sign in</html>', { 'content-type': 'text/html' }), GOOD])
  assert.equal(got.text, 'Hello world')
})
