/** Server profiles: which one is chosen, and what may be continued. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PROFILE_NAMES } from '../src/index.ts'
import { PROFILES } from '../src/contract/profiles.ts'
import { takesPrefill } from '../src/attempt/target.ts'
import { chooseProfile } from '../src/contract/profiles.ts'

test('the profile is the named one, else the one of the address, else generic', () => {
  const chosen = (url: string): string => chooseProfile(undefined, url).name
  assert.equal(chooseProfile('vllm', 'https://api.openai.com/v1').name, 'vllm')
  assert.equal(chosen('https://api.openai.com/v1'), 'openai')
  assert.equal(chosen('https://eu.api.openai.com/v1'), 'openai')
  assert.equal(chosen('https://api.anthropic.com/v1'), 'anthropic')
  assert.equal(chosen('https://api.deepseek.com/beta'), 'deepseek')
  assert.equal(chosen('https://api.mistral.ai/v1'), 'mistral')
  assert.equal(chosen('https://openrouter.ai/api/v1'), 'openrouter')
  assert.equal(chosen('https://notopenrouter.ai/api/v1'), 'generic')
  assert.equal(chosen('http://127.0.0.1:8080/v1'), 'generic')
  assert.equal(chosen('nonsense'), 'generic')
})

test('a guessed profile does not continue text; the same profile does if the user names it', () => {
  const url = 'https://api.mistral.ai/v1'
  const continues = (profile: ReturnType<typeof chooseProfile>): boolean =>
    takesPrefill({ api: 'openai-chat', profile })
  assert.equal(continues(chooseProfile(undefined, url)), false)
  assert.equal(continues(chooseProfile('mistral', url)), true)
})

test('what each profile can do is pinned', () => {
  const rows = PROFILE_NAMES.map((name) => {
    const { doneMarker, lenient, prefill, prefillEcho, usageOption } = PROFILES[name]
    return [name, doneMarker, lenient, prefill, prefillEcho, usageOption].join(' ')
  })
  assert.deepEqual(rows, [
    'generic accept false none false true',
    'openai refuse false none false true',
    'azure accept false none false true',
    'anthropic refuse false none false false',
    'vllm refuse false continue_final_message false true',
    'sglang refuse false continue_final_message false true',
    'llama-cpp refuse false trailing_assistant false true',
    'ollama accept true trailing_assistant false true',
    'lm-studio accept false none false true',
    'deepseek refuse false prefix_flag false true',
    'mistral refuse false prefix_flag true false',
    'openrouter accept false none false true',
  ])
})

test('what each profile does on the Responses API is pinned', () => {
  const rows = PROFILE_NAMES.map((name) => {
    const { terminalEvents, statusInsideTerminal, lengthIsVisible, numbered, reattach } = PROFILES[name]
    return [
      name,
      terminalEvents.includes('response.done'),
      statusInsideTerminal,
      lengthIsVisible,
      numbered,
      reattach,
    ].join(' ')
  })
  assert.deepEqual(rows, [
    'generic true true true false responses',
    'openai true true true true responses',
    'azure false true true true responses',
    'anthropic false true true true none',
    'vllm false true true true responses',
    'sglang false true true true none',
    'llama-cpp false false false false llama-replay',
    'ollama false false false true none',
    'lm-studio false true true false none',
    'deepseek false true true true none',
    'mistral false true true true none',
    'openrouter false true true true none',
  ])
})
