/**
 * A model server that is away and comes back: `streamAnswer` and `resilientFetch`, streamed and whole, in every dialect. The times
 * are those of an outage of 5, 20 and 60 s, divided by 100.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { API_NAMES, type ApiName, resilientFetch } from '../../src/index.ts'
import { ANSWER, MOMENTS, startAwayModel } from '../away-model.ts'
import { ask } from '../collect.ts'
import { saidIn } from '../said.ts'

const POLICY = { patienceMs: 3_000, backoffMs: 5 } as const
const PATHS: Readonly<Record<ApiName, string>> = {
  'openai-chat': '/chat/completions',
  'openai-responses': '/responses',
  'anthropic-messages': '/messages',
}

async function fetched(url: string, api: ApiName, isStream: boolean): Promise<string> {
  const response = await resilientFetch({ policy: POLICY })(url + PATHS[api], {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: isStream }),
  })
  assert.equal(response.status, 200)
  return saidIn(await response.text(), isStream)
}

describe('a server that is away and comes back', { concurrency: 8 }, () => {
  for (const api of API_NAMES) {
    for (const moment of MOMENTS) {
      for (const seconds of [5, 20, 60]) {
        const when = `away for ${seconds} s, ${moment}, ${api}`
        const away = { api, moment, awayMs: seconds * 10 }

        test(`streamAnswer: ${when}: exact`, async () => {
          await using model = await startAwayModel({ ...away, isStream: true })
          const got = await ask(model.url, { api }, { policy: POLICY })
          assert.equal(got.text, ANSWER)
          assert.ok(got.done?.proven)
        })

        for (const isStream of [true, false]) {
          test(`resilientFetch, ${isStream ? 'streamed' : 'whole'}: ${when}: exact`, async () => {
            await using model = await startAwayModel({ ...away, isStream })
            assert.equal(await fetched(model.url, api, isStream), ANSWER)
          })
        }
      }
    }
  }
})
