/** Failed attempts as a client sees them: each is journalled, counted and bounded, and leaves nothing in the answer. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { shared } from '../shared.ts'
import { assembled, Rig } from './rig.ts'
import {
  ask,
  bash,
  cutAfter,
  cutInTool,
  endUnproven,
  inBandError,
  refuse,
  say,
  sayWhen,
  stallAfter,
} from '../answers.ts'
import { isHistory } from './shapes.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const rig = await shared(Rig.start())

describe('a client that drops discarded parts', { ...LIMIT, concurrency: true }, () => {
  const failures = {
    'a cut': { answer: cutAfter('Half of ', 'an ans'), category: 'model_stream_interrupted' },
    'an end without proof': { answer: endUnproven('Half'), category: 'model_stream_incomplete' },
    'a stall': { answer: stallAfter('Half'), category: 'model_stream_stalled' },
    'a cut tool call': { answer: cutInTool(bash('touch never')), category: undefined },
    'an in-band overload': {
      answer: inBandError(
        { message: 'The server is overloaded', type: 'overloaded_error', code: 'overloaded' },
        'Half',
      ),
      category: undefined,
    },
    'a dropped connection': { answer: cutAfter(), category: undefined },
  }
  for (const [name, { answer, category }] of Object.entries(failures)) {
    test(`${name}, twice, leaves exactly the model's answer`, async () => {
      const { id } = await rig.session([answer, answer, say('The whole', ' answer.')], { policy: { livenessMs: 400 } })
      const { turnId, events, last } = await rig.wholeTurn(id)
      isHistory(events)
      assert.equal(last.type, 'turn-end', JSON.stringify(last))
      assert.deepEqual([...assembled(events, turnId)], [[1, 'The whole answer.']])
      assert.equal(last['text'], 'The whole answer.')
      assert.equal(last['faultsSurvived'], 2)
      const retries = events.filter(({ type }) => type === 'retry')
      assert.deepEqual(
        retries.map((event) => event['attempt']),
        [1, 2],
      )
      assert.deepEqual(
        retries.map((event) => event['max']),
        [6, 6],
      )
      if (category !== undefined)
        assert.deepEqual(
          retries.map((event) => event['fault'].category),
          [category, category],
        )
      assert.ok(!events.some(({ type }) => type === 'tool-call'), 'a truncated tool call never runs')
      const turn = await rig.call('GET', `/v1/turns/${turnId}`)
      assert.equal(turn.json.attempts, 3)
    })
  }
})

describe('attempts', { ...LIMIT, concurrency: true }, () => {
  test('server errors before the first byte are retried and leave no trace in the answer', async () => {
    const down = refuse(503, { message: 'overloaded', type: 'server_error', param: null, code: null })
    const { id } = await rig.session([
      down,
      refuse(500, { message: 'oops' }),
      refuse(408, { message: 'slow' }),
      say('up'),
    ])
    const { turnId, events, last } = await rig.wholeTurn(id)
    isHistory(events)
    assert.equal(last['faultsSurvived'], 3)
    assert.deepEqual([...assembled(events, turnId)], [[1, 'up']])
    assert.ok(!events.some(({ type }) => type === 'part-discarded'), 'there was no part to discard')
  })

  test('readers that join at any moment get the same events, without gaps or duplicates', async () => {
    const gate = Promise.withResolvers<void>()
    const { id } = await rig.session([
      cutAfter('lost'),
      ask([bash('for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.05; done')]),
      sayWhen(gate.promise, 'al', 'most'),
      say('next'),
    ])
    const early = await rig.events(id)
    const { turnId } = (await rig.prompt(id, 'go')).json
    const streams = [early]
    for (const type of ['retry', 'tool-call', 'tool-output', 'tool-result']) {
      await early.type(type)
      streams.push(await rig.events(id))
    }
    gate.resolve()
    for (const stream of streams) await stream.ended(turnId)
    isHistory(early.events)
    for (const stream of streams) assert.deepEqual(stream.frames, early.frames)
  })
})
