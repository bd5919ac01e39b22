/** What answers from outside may cost a process that asks for them itself, such as the daemon. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clientMemory } from '../../src/client/queued-attempt.ts'
import { play } from '../play.ts'
import { cut, json, stream } from '../../../../test/kit/plays.ts'
import { messageItem, responseFrames, upToDelta, wholeResponse } from '../../../../test/kit/responses-frames.ts'

const TOO_OLD = { error: { message: 'Response can no longer be streamed because it is more than 5 minutes old.' } }

test('the model client refuses what it has no room to parse: an answer in one piece, an event, the end of a background answer', async () => {
  const costly = { more: 'COSTLY' }
  const list = `[${'{},'.repeat(2_000_000)}{}]` // 6 MB, and 200 MB once it is parsed
  const costlyJson = (value: object): string => JSON.stringify(value).replace('"COSTLY"', list)
  const whole = { choices: [{ index: 0, message: { content: 'Hello' }, finish_reason: 'stop' }], ...costly }
  const once = { policy: { attemptsMax: 1 } } as const
  const document = await play([json(200, costlyJson(whole))], {}, once)
  assert.deepEqual([document.fault?.fault.category, document.text], ['quota_exceeded', ''])
  const event = `data: ${costlyJson({ choices: [{ index: 0, delta: { content: 'Hello' } }], ...costly })}\n\n`
  const streamed = await play([stream(event)], {}, once)
  assert.deepEqual([streamed.fault?.fault.category, streamed.text], ['quota_exceeded', ''])
  const final = costlyJson({ ...wholeResponse([messageItem(['Hello'])]), ...costly })
  const background = await play(
    ({ method, path }) => {
      if (method === 'POST') return cut(...upToDelta(responseFrames([messageItem(['Hel', 'lo'])]), 1))
      return path.includes('stream=true') ? json(400, TOO_OLD) : json(200, final)
    },
    { api: 'openai-responses', background: true },
    { policy: { attemptsMax: 1, progressMs: 100 } },
  )
  assert.deepEqual([background.fault?.fault.category, background.done], ['model_stream_interrupted', undefined])
  assert.equal(clientMemory.bytes, 0)
})
