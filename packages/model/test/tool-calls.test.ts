/** A call is released complete, parsed and proven, or not at all. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask } from './collect.ts'
import { GOOD_CALL, play } from './play.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { callMore, callStart, done, finish, role } from '../../../test/kit/openai-frames.ts'
import { head, json, lastChunk, type Play } from '../../../test/kit/plays.ts'

const CUT_CALLS: readonly (readonly [string, readonly Play[], string])[] = [
  ['cut arguments', [callStart('c', 'bash', '{"command":"rm -r'), finish('tool_calls')], 'tool_calls'],
  ['arguments cut by the length limit', [callStart('c', 'bash', '{"command":"rm'), finish('length')], 'length'],
  ['a missing required parameter', [callStart('c', 'bash', '{"cmd":"ls"}'), finish('tool_calls')], 'tool_calls'],
  ['arguments that are no object', [callStart('c', 'bash', '"ls"'), finish('tool_calls')], 'tool_calls'],
  ['no name', [callStart('c', '', '{"command":"ls"}'), finish('tool_calls')], 'tool_calls'],
  [
    'one complete and one cut call',
    [callStart('a', 'now', '{}'), callStart('b', 'bash', '{"c', 1), finish('stop')],
    'stop',
  ],
  ['a finish reason for calls and none there', [finish('tool_calls')], 'tool_calls'],
]

for (const [what, acts] of CUT_CALLS) {
  test(`an answer with ${what} is asked for again, and the call is never run`, async () => {
    const got = await play([[head(), role, ...acts, done, lastChunk], GOOD_CALL])
    assert.equal(got.failed[0]?.fault.category, 'tool_call_truncated')
    assert.deepEqual(
      got.calls.map(({ arguments: args }) => args),
      [{ command: 'ls' }],
    )
  })
}

test('a complete call without a required parameter is reported with that parameter, not as cut short', async () => {
  const lacks = [head(), role, callStart('c', 'bash', '{"cmd":"ls"}'), finish('tool_calls'), done, lastChunk]
  const got = await play([lacks, GOOD_CALL])
  assert.match(got.failed[0]?.fault.error ?? '', /call to tool bash is invalid \(it lacks command\)/)
})

test('a complete call that lacks a required parameter twice is the answer', async () => {
  const lacks = [head(), role, callStart('c', 'bash', '{"cmd":"ls"}'), finish('tool_calls'), done, lastChunk]
  const got = await play([lacks, json(503, {}), lacks, lacks])
  assert.deepEqual(
    got.failed.map(({ fault }) => fault.reason ?? fault.category),
    ['missing_parameter', 'model_overloaded', 'missing_parameter'],
  )
  assert.deepEqual(
    got.calls.map(({ arguments: args }) => args),
    [{ cmd: 'ls' }],
  )
  const cut = [head(), role, callStart('c', 'bash', '{"cmd":"ls"}'), finish('length'), done, lastChunk]
  assert.equal((await play([lacks, cut, GOOD_CALL])).requests.length, 3)
})

test('complete arguments that are not JSON are reported as invalid, not as cut short', async () => {
  const error = async (text: string): Promise<string> => {
    const answer = [head(), role, callStart('c', 'bash', text), finish('tool_calls'), done, lastChunk]
    return (await play([answer, GOOD_CALL])).failed[0]?.fault.error ?? ''
  }
  for (const text of ['{"command":"echo a\nb"}', "{'command': 'ls'}", '"ls"', '{"command":"a\\"}"}}'])
    assert.match(
      await error(text),
      /call to tool bash is invalid \(its arguments are not valid JSON for an object\)/,
      text,
    )
  for (const text of ['{"command":"f() {}', '{"command":"a\\"}', '{"command":{"a":1}', '{'])
    assert.match(await error(text), /was cut short/, text)
})

test('a call that stays cut ends in tool_call_truncated, after all attempts', async (t) => {
  const model = await startModelServer([
    [head(), role, callStart('c', 'bash', '{"com'), finish('tool_calls'), done, lastChunk],
  ])
  t.after(() => model.close())
  const got = await ask(model.url, {}, { policy: { attemptsMax: 3 } })
  assert.equal(got.fault?.fault.category, 'tool_call_truncated')
  assert.equal(model.requests.length, 3)
})

test('a tool without required parameters may be called without arguments', async () => {
  const got = await play([[head(), role, callStart('c', 'now'), finish('tool_calls'), done, lastChunk]])
  assert.deepEqual(
    got.calls.map(({ arguments: args }) => args),
    [{}],
  )
})

test('parallel calls keep their order, and calls that share an index are distinguished by id', async () => {
  const same = [callStart('a', 'bash', '{"command":"1"}'), callStart('b', 'bash', '{"command":"2"}')]
  const woven = [
    callStart('a', 'bash', '{"comm', 0),
    callStart('b', 'bash', '{"comma', 1),
    callMore('and":"1"}', 0),
    callMore('nd":"2"}', 1),
  ]
  for (const acts of [same, woven]) {
    const got = await play([[head(), role, ...acts, finish('tool_calls'), done, lastChunk]])
    assert.deepEqual(
      got.calls.map(({ callId, arguments: args }) => [callId, args['command']]),
      [
        ['a', '1'],
        ['b', '2'],
      ],
    )
  }
})

test('calls without an id, or with the same id, get unique ids', async () => {
  const acts = [callStart('', 'now', '{}', 0), callStart('x', 'now', '{}', 1), callStart('x', 'now', '{}', 2)]
  const got = await play([[head(), role, ...acts, finish('tool_calls'), done, lastChunk]])
  const ids = got.calls.map(({ callId }) => callId)
  assert.equal(new Set(ids).size, 3)
  assert.equal(ids.includes(''), false)
})
