/**
 * The gateway before an upstream that is away and comes back: streamed and whole, in every dialect. The times are those of an
 * outage of 5, 20 and 60 s, divided by 100.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { API_NAMES, type ApiName } from '@breakfall/model'
import { ANSWER, MOMENTS, startAwayModel } from '../../../model/test/away-model.ts'
import { startModelServer } from '../../../../test/kit/model-server.ts'
import { json } from '../../../../test/kit/plays.ts'
import { saidIn } from '../../../model/test/said.ts'
import { startGateway } from '../../src/index.ts'
import { CHAT, post } from '../client.ts'

const POLICY = { patienceMs: 3_000, backoffMs: 5 } as const
const PATHS: Readonly<Record<ApiName, string>> = {
  'openai-chat': '/chat/completions',
  'openai-responses': '/responses',
  'anthropic-messages': '/messages',
}

describe('an upstream that is away and comes back', { concurrency: 8 }, () => {
  for (const api of API_NAMES) {
    for (const moment of MOMENTS) {
      for (const seconds of [5, 20, 60]) {
        for (const isStream of [true, false]) {
          test(`${isStream ? 'streamed' : 'whole'}: away for ${seconds} s, ${moment}, ${api}: exact`, async () => {
            await using model = await startAwayModel({ api, moment, awayMs: seconds * 10, isStream })
            const gateway = await startGateway({ upstream: model.url, logger: false, policy: POLICY })
            const response = await post(gateway.url + PATHS[api], { ...CHAT, stream: isStream })
            assert.equal(response.status, 200)
            assert.equal(saidIn(await response.text(), isStream), ANSWER)
            await gateway.close()
          })
        }
      }
    }
  }
})

test('a call that passes through waits for the upstream, too', async (t) => {
  const away = { api: 'openai-chat', moment: 'before content', awayMs: 400, isStream: false } as const
  await using model = await startAwayModel(away)
  const gateway = await startGateway({ upstream: model.url, logger: false, policy: { ...POLICY, attemptsMax: 1 } })
  t.after(() => gateway.close())
  const response = await post(`${gateway.url}/embeddings`, { model: 'any', input: 'words' })
  assert.equal(response.status, 200)
  await response.text()
})

test('when patience is spent, the client gets the upstream’s own refusal and may keep waiting itself', async (t) => {
  const body = { error: { code: 503, message: 'Loading model', type: 'unavailable_error' } }
  const model = await startModelServer(() => json(503, body))
  const policy = { patienceMs: 350, backoffMs: 5 }
  const gateway = await startGateway({ upstream: model.url, logger: false, policy })
  t.after(async () => {
    await gateway.close()
    await model.close()
  })
  const response = await post(`${gateway.url}/chat/completions`, CHAT)
  assert.equal(response.status, 503)
  assert.equal(response.headers.get('x-should-retry'), null)
  assert.deepEqual(await response.json(), body)
  assert.ok(model.requests.length >= 2 && model.requests.length <= 4, 'a floor under the backoff')
})

test('the head goes out after the ping time while the upstream is still away, then pings, then the answer', async (t) => {
  await using model = await startAwayModel({
    api: 'openai-chat',
    moment: 'before content',
    awayMs: 400,
    isStream: true,
  })
  const gateway = await startGateway({ upstream: model.url, logger: false, policy: POLICY, limits: { pingMs: 50 } })
  t.after(() => gateway.close())
  const response = await post(`${gateway.url}/chat/completions`, CHAT)
  assert.equal(response.status, 200)
  const body = await response.text()
  assert.match(body, /^: breakfall retry \d+\/\d+ model_unreachable/m)
  assert.equal(saidIn(body, true), ANSWER)
})
