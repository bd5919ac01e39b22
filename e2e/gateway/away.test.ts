/** The gateway with its default policy before an upstream that is away for five real seconds. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { startGateway } from '@breakfall/gateway'
import { API_NAMES } from '@breakfall/model'
import { ANSWER, MOMENTS, startAwayModel } from '../../packages/model/test/away-model.ts'
import { saidIn } from '../../packages/model/test/said.ts'

const AWAY_MS = 5_000
const PATHS = {
  'openai-chat': '/chat/completions',
  'openai-responses': '/responses',
  'anthropic-messages': '/messages',
} as const

describe('with the default policy, an upstream that is away for 5 s is survived', { concurrency: true }, () => {
  for (const api of API_NAMES) {
    for (const moment of MOMENTS) {
      test(`${moment}, ${api}`, async () => {
        await using model = await startAwayModel({ api, moment, awayMs: AWAY_MS, isStream: true })
        const gateway = await startGateway({ upstream: model.url, logger: false })
        const path = PATHS[api]
        const response = await fetch(gateway.url + path, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: true }),
        })
        assert.equal(response.status, 200)
        assert.equal(saidIn(await response.text(), true), ANSWER)
        await gateway.close()
      })
    }
  }
})
