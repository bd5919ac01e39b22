/** Keys that cannot be sent, and providers that do not exist, are named in the message. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { refuseUnusable, unsetKeyVariable, unusable } from '../src/config/providers.ts'
import { noModelFault } from '../src/model/brought-model.ts'

test('a key that no header can carry is refused by the name of its variable, and not shown', () => {
  for (const [apiKey, what] of [
    ['sk-secret\nsk', 'a line break'],
    ['sk-secret sk', 'a space'],
    ['sk-sécret', 'an invalid character, or too many'],
    ['s'.repeat(9_000), 'an invalid character, or too many'],
  ] as const)
    assert.throws(
      () => refuseUnusable({ apiKey, apiKeyVariable: 'WORK_KEY' }),
      (fault) =>
        isFault(fault) &&
        fault.error ===
          `The key in WORK_KEY has ${what}, so it cannot be sent. Nothing started. Set WORK_KEY again, or unset it.` &&
        !JSON.stringify(fault.report).includes('secret'),
    )
  for (const apiKey of ['sk-plain', undefined])
    assert.equal(unusable({ apiKey, apiKeyVariable: 'WORK_KEY' }), undefined)
})

test('a model of an unknown provider names the providers that there are', () => {
  const providers = ['local', 'cloud'].map((name) => ({ name }))
  const loaded = { origins: new Map<string, string>() }
  const { error } = noModelFault({ providers, loaded, modelName: 'nosuch/x' }, 'See the docs.')
  assert.match(error, /There is no provider "nosuch" for the model nosuch\/x, only local, cloud, and/)
  assert.match(error, /pass --model local\/x\. See the docs\.$/)
})

test('a variable that the configuration names for a key and that is not set is found before a request', () => {
  const config = { model: { apiKeyEnv: 'MY_KEY' }, providers: { work: {} } }
  const unset = (provider: string, apiKeyVariable: string, apiKey?: string): string | undefined =>
    unsetKeyVariable({ provider, apiKey, apiKeyVariable }, config)
  assert.equal(unset('default', 'MY_KEY'), 'MY_KEY')
  assert.equal(unset('default', 'MY_KEY', 'k'), undefined, 'it is set, or a key is stored')
  assert.equal(unset('work', 'OPENAI_API_KEY'), undefined, 'a private server may need no key')
})
