/** The relay and answers in one piece. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { valuesIn } from '../src/lib/json-fields.ts'
import { MemoryBudget } from '@breakfall/wire/node'
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

for (const stream of [true, false]) {
  test(`an answer in one piece is refused if parsing it has no room in the memory of all requests; stream: ${stream}`, async () => {
    const budget = new MemoryBudget(4_000_000)
    const memory = budget.open()
    const values = json(200, { ...WHOLE, more: Array.from({ length: 100_000 }, () => ({})) }) // 300 KB, and 10 MB once it is parsed
    const got = await relayed([values], { body: { stream }, memory })
    assert.equal((JSON.parse(got.body) as { error: { code: string } }).error.code, 'quota_exceeded')
    const text = json(200, { ...WHOLE, more: '{},["\\'.repeat(100_000) })
    assert.equal((await relayed([[reset], text, text], { body: { stream }, memory })).status, 200)
    memory.close()
    assert.equal(budget.bytes, 0)
  })
}

test('an answer in one piece that does not fit into the memory of all requests is not received', async () => {
  const memory = new MemoryBudget(1_000_000).open()
  const large = json(200, { ...WHOLE, more: 'x'.repeat(3_000_000) })
  const got = await relayed([large], { body: { stream: false }, memory })
  assert.equal((JSON.parse(got.body) as { error: { code: string } }).error.code, 'quota_exceeded')
  assert.ok((got.outcome.ledger[0]?.bytes ?? 0) < 2_000_000)
})

test('values in JSON are counted as they are, not in its strings', () => {
  const cases = ['{}', '[1,2,{"a":[]}]', String.raw`{"a\\":"{[,\"{[,","b":"\\"}`, '"\\', '"', ',,']
  assert.deepEqual(cases.map(valuesIn), [1, 5, 2, 0, 0, 2])
})

test('an answer in one piece may have a content type other than JSON', async () => {
  const got = await relayed([json(200, WHOLE, { 'content-type': 'text/plain' })], { body: { stream: false } })
  assert.deepEqual(JSON.parse(got.body), WHOLE)
})
