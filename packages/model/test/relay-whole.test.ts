/** The relay and answers in one piece. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { relayed } from './relayed.ts'
import { head, json, type Play, reset } from '../../../test/kit/plays.ts'

const WHOLE = {
  id: 'x',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
}

test('an answer in one piece is forwarded unchanged after faults that the client never saw', async () => {
  const cut: Play = [
    head(200, { 'content-type': 'application/json', 'transfer-encoding': '', 'content-length': '500' }),
    reset,
  ]
  const got = await relayed([[reset], json(500, {}), cut, json(200, WHOLE, { 'x-request-id': 'r' })], {
    body: { stream: false },
  })
  assert.equal(got.status, 200)
  assert.deepEqual(JSON.parse(got.body), WHOLE)
  assert.equal(got.headers['x-request-id'], 'r')
  assert.equal(got.requests.length, 4)
})

test('a cut tool call in an answer in one piece is asked for again', async () => {
  const call = (args: string): object => ({
    choices: [
      {
        index: 0,
        message: { tool_calls: [{ id: 'c', function: { name: 'bash', arguments: args } }] },
        finish_reason: 'length',
      },
    ],
  })
  const got = await relayed([json(200, call('{"comm')), json(200, call('{"command":"ls"}'))], {
    body: { stream: false },
  })
  assert.match(got.body, /command/)
  assert.equal(got.requests.length, 2)
})

test('a server that answers a stream in one piece is turned into a stream', async () => {
  const got = await relayed([json(200, WHOLE)])
  assert.equal(got.text, 'Hello')
  assert.equal(got.frames.at(-1)?.data, '[DONE]')
})

test('an answer in one piece may have a content type other than JSON', async () => {
  const got = await relayed([json(200, WHOLE, { 'content-type': 'text/plain' })], { body: { stream: false } })
  assert.deepEqual(JSON.parse(got.body), WHOLE)
})
