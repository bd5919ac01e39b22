/** Numbered events that are read without parsing say exactly what they would say when parsed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { DIALECTS } from '../src/dialects/dialects.ts'
import { EventTemplate } from '../src/dialects/event-template.ts'
import { partCounter } from '../src/dialects/read-answer.ts'
import { PROFILES } from '../src/contract/profiles.ts'

const KEYS = ['sequence_number', 'delta', 'obfuscation'] as const
const text = fc.oneof(
  fc.string({ maxLength: 30 }),
  fc.constantFrom('"', '\\', '","x":"', '"}', '\\u0041', '\n', '🥋', '"delta":"x"', '1', ''),
)
const number = fc.oneof(fc.nat(), fc.constantFrom(0, -1, 1.5, 1e15, 1e21, 9_007_199_254_740_991))

test('a matched event is what parsing gives', () => {
  fc.assert(
    fc.property(number, text, text, number, text, text, fc.boolean(), (n, a, b, m, c, d, isSpaced) => {
      const event = (sequence_number: number, delta: string, obfuscation: string): object => ({
        type: 'response.output_text.delta',
        sequence_number,
        item_id: 'msg_1',
        delta,
        logprobs: [],
        obfuscation,
      })
      const data = (value: object): string =>
        isSpaced ? JSON.stringify(value).replace('"delta":', '"delta": ') : JSON.stringify(value)
      const template = new EventTemplate()
      template.learn(data(event(n, a, b)), { ...event(n, a, b) }, KEYS)
      const matched = template.match(data(event(m, c, d)))
      if (matched !== undefined) assert.deepEqual(matched, event(m, c, d))
    }),
    { numRuns: 2_000 },
  )
})

test('an event matches only if it is valid JSON that differs in the changing values alone', () => {
  const known = '{"type":"t","sequence_number":7,"delta":"x","obfuscation":"ab"}'
  const template = new EventTemplate()
  template.learn(known, { type: 't', sequence_number: 7, delta: 'x', obfuscation: 'ab' }, KEYS)
  const pieces = [
    known.slice(0, 31),
    known.slice(31, 42),
    '","obfuscation":"',
    '"}',
    '{',
    '"',
    '07',
    '12',
    '-1',
    '1.5',
    'x',
  ]
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 6 }), (parts) => {
      const data = parts.join('')
      const event = template.match(data)
      if (event !== undefined) assert.deepEqual(JSON.parse(data), event)
    }),
    { numRuns: 5_000 },
  )
})

test('a number that is not exact, or not JSON, is left to the parser', () => {
  const data = (number: string): string => `{"sequence_number":${number},"delta":"x"}`
  const template = new EventTemplate()
  template.learn(data('7'), { sequence_number: 7, delta: 'x' }, KEYS)
  for (const number of ['07', '00', '-1', '1.5', '1e3', '1234567890123456', '', '7 '])
    assert.equal(template.match(data(number)), undefined, number)
  assert.deepEqual(template.match(data('0')), { sequence_number: 0, delta: 'x' })
})

test('plain text with the next number is matched', () => {
  const event = { type: 't', sequence_number: 9, item_id: 'm', delta: ' word' }
  const template = new EventTemplate()
  assert.equal(template.match(JSON.stringify(event)), undefined)
  template.learn(JSON.stringify(event), event, KEYS)
  const next = { ...event, sequence_number: 10, delta: ' a longer word than before' }
  assert.deepEqual(template.match(JSON.stringify(next)), next)
})

test('a run is the events that match one by one and have the next number', () => {
  const numbers = fc.array(fc.oneof({ weight: 9, arbitrary: fc.constant(1) }, fc.nat(2)))
  fc.assert(
    fc.property(numbers, fc.array(text), fc.boolean(), (steps, odd, isNumbered) => {
      let number = 7
      const event = (delta: string): Record<string, unknown> => ({
        type: 't',
        ...(isNumbered ? { sequence_number: number } : {}),
        delta,
        obfuscation: 'ab',
      })
      const head = 'event: t\ndata: '
      const template = new EventTemplate()
      template.learn(JSON.stringify(event('x')), event('x'), KEYS, head)
      for (let seen = 0; seen < 4; seen++) template.match(JSON.stringify(event('x')))
      const all = steps.map((step, index) => {
        number += step
        return event(index % 5 === 4 ? (odd[index] ?? 'even') : `w${index}`)
      })
      const stream = all.map((one) => `${head}${JSON.stringify(one)}\n\n`).join('')
      const isLast = (one: Record<string, unknown>, index: number): boolean => {
        const before = all[index - 1]?.['sequence_number']
        const isNext = index === 0 || !isNumbered || one['sequence_number'] === Number(before) + 1
        return template.match(JSON.stringify(one)) === undefined || !isNext
      }
      const found = all.findIndex(isLast)
      const matched = found === -1 ? all : all.slice(0, found)
      const run = template.run(stream, 0, 'delta')
      assert.equal(run?.events ?? 0, matched.length)
      if (run === undefined) return
      assert.deepEqual(run.event, { ...matched[0], delta: matched.map(({ delta }) => delta).join('') })
      assert.equal(run.to, matched.map((one) => `${head}${JSON.stringify(one)}\n\n`).join('').length)
    }),
    { numRuns: 1_000 },
  )
})

test('an event whose value cannot be found for certain is not learnt', () => {
  const template = new EventTemplate()
  const twice = { delta: 'x', part: { delta: 'x' } }
  template.learn(JSON.stringify(twice), twice, ['delta'])
  assert.equal(template.match(JSON.stringify(twice)), undefined)
  const escaped = { delta: 'a\nb' }
  template.learn(JSON.stringify(escaped), escaped, ['delta'])
  assert.equal(template.match(JSON.stringify(escaped)), undefined)
})

test('a delta that is not a text adds nothing', () => {
  const texts: string[] = []
  const decoder = DIALECTS['openai-responses'].decoder(
    { text: (_part, text) => texts.push(text), tool: () => undefined },
    partCounter(),
    { everyJson: false, choices: 1, profile: PROFILES.generic },
  )
  const added = { type: 'response.output_item.added', output_index: 0, item: { type: 'message', id: 'm' } }
  const delta = (value: unknown): object => ({ type: 'response.output_text.delta', item_id: 'm', delta: value })
  const events = [added, ...['a', 'b', 'c', 'd', 'e', 'f'].map(delta), ...[1, 2, 3, 4, 5, 6].map(delta)]
  for (const event of events) decoder.frame({ data: JSON.stringify(event) })
  assert.equal(decoder.run?.(`data: ${JSON.stringify(delta(7))}\n\n`, 0), undefined)
  assert.equal(texts.join(''), 'abcdef')
})

test('deltas of a server without ids belong to the newest item', () => {
  const texts: string[] = []
  const decoder = DIALECTS['openai-responses'].decoder(
    { text: ({ id }, text) => texts.push(`${id}:${text}`), tool: () => undefined },
    partCounter(),
    { everyJson: false, choices: 1, profile: PROFILES.generic },
  )
  const added = { type: 'response.output_item.added', item: { type: 'message' } }
  const delta = (text: string): object => ({ type: 'response.output_text.delta', item_id: 'x', delta: text })
  for (const event of [added, delta('a'), delta('b'), { ...added }, delta('c'), delta('d')])
    decoder.frame({ data: JSON.stringify(event) })
  assert.deepEqual(texts, ['p1:a', 'p1:b', 'p2:c', 'p2:d'])
})
