/** Fields of a JSON object, found in its bytes without parsing the rest. Seeded; each message contains the seed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { JsonFields } from '../src/lib/json-fields.ts'
import { MemoryBudget, unboundedShare } from '@breakfall/wire/node'

const WANTED = new Map([
  ['model', { bytesMax: 64 }],
  ['tools', { bytesMax: 1024, valuesMax: 50 }],
  ['messages', {}],
])

function fieldsIn(json: string | Buffer, pieceBytes = Number.POSITIVE_INFINITY, memory = unboundedShare()) {
  const bytes = Buffer.from(json)
  const fields = new JsonFields(WANTED, memory)
  for (let at = 0; at < bytes.length; at += pieceBytes) fields.push(bytes.subarray(at, at + pieceBytes))
  return fields.done()
}

/** Numbers from 0 to 1, repeatable by seed. */
function dice(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

test('what it finds is what JSON.parse finds, however the bytes are cut', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const roll = dice(seed)
    const pick = <T>(...values: readonly T[]): T => values[Math.floor(roll() * values.length)] as T
    const text = (): string =>
      Array.from({ length: Math.floor(roll() * 40) }, () =>
        pick('a', '"', '\\', '{', ']', ',', ':', 'ü', '🥋', '\n'),
      ).join('')
    const value = (depth: number): unknown => {
      if (depth > 3 || roll() < 0.4) return pick<unknown>(text(), 1.5, -2e9, true, null, '', 'model', '\\')
      const parts = Array.from({ length: Math.floor(roll() * 4) }, () => value(depth + 1))
      return roll() < 0.5
        ? parts
        : Object.fromEntries(parts.map((part, index) => [pick(text(), 'model') + String(index), part]))
    }
    const object = Object.fromEntries(
      ['model', 'messages', 'tools', text(), text(), 'extra']
        .filter(() => roll() < 0.7)
        .map((name) => [name, name === 'model' ? pick<unknown>('m', 'a"b\\', 7) : value(0)]),
    )
    const json = JSON.stringify(object, null, pick<0 | 1 | '\t'>(0, 1, '\t'))
    const bytes = Buffer.from(
      pick('', ' \r\n') + json.replace('"model":', pick('"model":', '"m\\u006fdel" :')) + pick('', '\n '),
    )
    for (const size of [1, 2, 3, 7, 64, bytes.length]) {
      const found = fieldsIn(bytes, size)
      assert.ok(found !== undefined, `seed ${seed}: ${json}`)
      assert.deepEqual(found.values['model'], object['model'], `seed ${seed}`)
      if (!found.tooLarge.includes('tools')) assert.deepEqual(found.values['tools'], object['tools'], `seed ${seed}`)
      const { from = 0, to = 0, listEnd, isEmpty } = found.places.get('messages') ?? {}
      const messages = object['messages']
      assert.equal(from < to, messages !== undefined, `seed ${seed}`)
      if (messages !== undefined)
        assert.deepEqual(JSON.parse(bytes.toString('utf8', from, to)), messages, `seed ${seed}`)
      assert.equal(listEnd !== undefined, Array.isArray(messages), `seed ${seed}`)
      if (listEnd !== undefined) assert.deepEqual([bytes[listEnd], isEmpty], [0x5d, (messages as []).length === 0])
      assert.deepEqual([bytes[found.end.to], found.end.isEmpty], [0x7d, Object.keys(object).length === 0])
    }
  }
})

test('what is not one JSON object is nothing', () => {
  for (const json of [
    '',
    ' ',
    '[]',
    '"model"',
    '7',
    '{',
    '{oops',
    '{"model"',
    '{"model":',
    '{"model":"m"',
    '{"model":}',
    '{,}',
  ])
    assert.equal(fieldsIn(json), undefined, json)
  for (const json of [
    '{"model":"m",}',
    '{"model":"m"}}',
    '{"model":"m"} x',
    '{"model":m}',
    '{"a" "b"}',
    '\ufeff{"model":"m"}',
  ])
    assert.equal(fieldsIn(json), undefined, json)
})

test('a wanted field that comes twice makes the object ambiguous, even if one of the names is escaped', () => {
  assert.equal(fieldsIn('{"model":"a","model":"b"}'), undefined)
  assert.equal(fieldsIn('{"model":"a","m\\u006fdel":"b"}'), undefined)
  assert.deepEqual(fieldsIn('{"x":1,"x":2,"model":"a"}')?.values, { model: 'a' })
})

test('a value over its limit is named and not parsed, and what is held of it is bounded', () => {
  const budget = new MemoryBudget(64 * 1024)
  const many = `{"tools":[${'{},'.repeat(60)}{}],"model":"m"}`
  const long = `{"tools":["${'x'.repeat(10_000_000)}"],"model":"m"}`
  for (const json of [many, long])
    for (const size of [1_000, 100_000]) {
      const share = budget.open()
      const found = fieldsIn(json, size, share)
      assert.deepEqual([found?.tooLarge, found?.values], [['tools'], { model: 'm' }])
      assert.ok(share.bytes < 1_000, `${share.bytes} bytes for the model alone`)
      share.close()
    }
})

test('values that are parsed are taken from the share by what they cost, and refused if it has no room', () => {
  const json = `{"tools":[${'{},'.repeat(20)}{}]}`
  const share = new MemoryBudget(100_000).open()
  assert.equal((fieldsIn(json, 10, share)?.values['tools'] as [] | undefined)?.length, 21)
  assert.ok(share.bytes > 20 * 60, `${share.bytes}`)
  assert.throws(() => fieldsIn(json, 10, new MemoryBudget(2_000).open()), { category: 'quota_exceeded' })
})

test('twenty million values and thirty million brackets cost nothing but the time to look at them', () => {
  const piece = Buffer.from('{},'.repeat(20_000))
  const brackets = Buffer.alloc(60_000, '[')
  const memory = unboundedShare()
  const fields = new JsonFields(WANTED, memory)
  fields.push(Buffer.from('{"model":"m","a":['))
  for (let index = 0; index < 50; index++) fields.push(piece)
  for (let index = 0; index < 50; index++) fields.push(brackets)
  fields.push(Buffer.alloc(50 * 60_000, ']'))
  fields.push(Buffer.from(']}'))
  assert.deepEqual(fields.done()?.values, { model: 'm' })
  assert.ok(memory.bytes < 1_000)
})
