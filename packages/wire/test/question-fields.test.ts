/** The answer to a question of an MCP server, as flags give it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fieldsOf, valueFrom } from '../src/turn/question-fields.ts'

const question = (properties: object, required: readonly string[] = []) => ({
  id: 'q',
  server: 's',
  message: 'Which?',
  schema: { type: 'object', properties, required },
})

const FORM = question(
  {
    account: { type: 'string', title: 'Account' },
    limit: { type: 'integer', default: 5 },
    ratio: { type: 'number' },
    sure: { type: 'boolean' },
    colour: { type: 'string', enum: ['red', 'blue'] },
    tags: {
      type: 'array',
      items: {
        anyOf: [
          { const: 'a', title: 'A' },
          { const: 'b', title: 'B' },
        ],
      },
    },
  },
  ['account', 'sure'],
)

test('each field says what it takes, and whether it may be left out', () => {
  assert.deepEqual(
    fieldsOf(FORM).map(({ label }) => label),
    [
      'account (Account; text; required)',
      'limit (whole number; default: 5)',
      'ratio (number; optional)',
      'sure (yes | no; required)',
      'colour (red | blue; optional)',
      'tags (a | b; optional)',
    ],
  )
})

test('flags become values of the right type, and a value may contain an equals sign', () => {
  const given = ['account=a=b', 'sure=yes', 'limit=7', 'ratio=0.5', 'colour=red', 'tags=a, b']
  assert.deepEqual(valueFrom(FORM, given), {
    account: 'a=b',
    sure: true,
    limit: 7,
    ratio: 0.5,
    colour: 'red',
    tags: ['a', 'b'],
  })
  assert.deepEqual(valueFrom(question({ name: { type: 'string' } }), ['x=y']), { name: 'x=y' }, 'the only field')
})

test('what does not fit is refused with the field that it is for', () => {
  for (const [given, sentence] of [
    [[], /The question needs account, sure/],
    [['account=a'], /needs sure/],
    [['limit=1.5'], /limit=1.5 does not fit the field limit \(whole number; default: 5\)/],
    [['colour=green'], /does not fit the field colour/],
    [['tags=a,c'], /does not fit the field tags/],
    [['sure=maybe'], /does not fit the field sure/],
    [['nobody=1'], /names none of the fields account, limit,/],
    [['ratio='], /does not fit the field ratio/],
  ] as const)
    assert.match(JSON.stringify(valueFrom(FORM, given)), sentence)
})
