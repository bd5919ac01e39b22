/** What proves that an answer is complete, by protocol and by server profile. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PROFILE_NAMES, type ProfileName } from '../src/index.ts'
import { ask } from './collect.ts'
import { GOOD, GOOD_CALL, isKept, play } from './play.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { answer, callStart, done, finish, role, text, usage } from '../../../test/kit/openai-frames.ts'
import { fin, head, lastChunk, type Play, reset } from '../../../test/kit/plays.ts'

// ---- complete, but not ended ----

const ENDS: readonly (readonly [string, Play])[] = [
  ['reset', reset],
  ['closed', fin],
  ['ended cleanly', lastChunk],
]

test('complete tool calls in an answer that broke before its end are not released but asked for again', async () => {
  const got = await play([[head(), role, callStart('c0', 'bash', '{"command":"rm -rf build"}'), reset], GOOD_CALL])
  assert.deepEqual(
    got.calls.map(({ arguments: args }) => args),
    [{ command: 'ls' }],
  )
  assert.equal(got.failed.length, 1)
})

for (const [how, end] of ENDS) {
  test(`a stream ${how} after its finish reason is a complete answer`, async () => {
    isKept(await play([[head(), role, text('Hello'), finish('stop'), end]]))
  })
}

test('usage that comes after the finish reason is counted', async () => {
  const got = await play([[head(), role, text('Hello'), finish('stop'), usage(3, 4), lastChunk]])
  assert.deepEqual(got.done?.usage.outputTokens, { value: 4, quality: 'known' })
})

// ---- proof by profile ----

const DONE_ONLY: Play = [head(), role, text('Hello'), done, lastChunk]

test('[DONE] without a finish reason is an answer for a generic server, and is marked unproven', async (t) => {
  const model = await startModelServer([DONE_ONLY])
  t.after(() => model.close())
  const got = await ask(model.url, { profile: 'generic' })
  assert.equal(got.text, 'Hello')
  assert.equal(got.done?.proven, false)
})

test('[DONE] after nothing at all is not an answer from any server', async () => {
  const got = await play([[head(), done, lastChunk], [head(), role, done, lastChunk], GOOD])
  assert.deepEqual(
    got.failed.map(({ fault }) => fault.category),
    ['model_stream_incomplete', 'model_stream_incomplete'],
  )
  assert.equal(got.requests.length, 3)
})

test('[DONE] without a finish reason is not an answer from OpenAI, which always sends one', async (t) => {
  const model = await startModelServer([DONE_ONLY, GOOD])
  t.after(() => model.close())
  const got = await ask(model.url, { profile: 'openai' })
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_incomplete')
})

test('complete calls before [DONE] are released although no finish reason came', async (t) => {
  const call = [head(), role, callStart('c1', 'bash', '{"command":"ls"}'), done, lastChunk]
  const model = await startModelServer([call])
  t.after(() => model.close())
  const got = await ask(model.url, { profile: 'generic' })
  assert.deepEqual(
    got.calls.map(({ arguments: args }) => args),
    [{ command: 'ls' }],
  )
  assert.equal(got.done?.proven, true)
})

test('a server that never sends a finish reason needs a lenient profile, and its answers are marked unproven', async (t) => {
  const bare: Play = [head(), role, text('Hello'), lastChunk]
  const model = await startModelServer([bare])
  t.after(() => model.close())
  const lenient = await ask(model.url, { profile: 'ollama' })
  assert.equal(lenient.text, 'Hello')
  assert.equal(lenient.done?.proven, false)
  const strict = await ask(model.url, { profile: 'vllm' }, { policy: { attemptsMax: 2 } })
  assert.equal(strict.fault?.fault.category, 'model_stream_incomplete')
})

test('a lenient profile does not release calls from an answer that just ended', async (t) => {
  const bare: Play = [head(), role, callStart('c1', 'bash', '{"command":"ls"}'), lastChunk]
  const model = await startModelServer([bare, GOOD_CALL])
  t.after(() => model.close())
  const got = await ask(model.url, { profile: 'ollama' })
  assert.equal(got.failed[0]?.fault.category, 'model_stream_incomplete')
  assert.equal(got.calls.length, 1)
})

/** What each server means by [DONE] without a finish reason, and by a clean end without either. */
const ENDS_MEAN: Readonly<Record<ProfileName, readonly [done: 'taken' | 'refused', end: 'taken' | 'refused']>> = {
  generic: ['taken', 'refused'],
  openai: ['refused', 'refused'],
  azure: ['taken', 'refused'],
  anthropic: ['refused', 'refused'],
  vllm: ['refused', 'refused'],
  sglang: ['refused', 'refused'],
  'llama-cpp': ['refused', 'refused'],
  ollama: ['taken', 'taken'],
  'lm-studio': ['taken', 'refused'],
  deepseek: ['refused', 'refused'],
  mistral: ['refused', 'refused'],
  openrouter: ['taken', 'refused'],
}

for (const profile of PROFILE_NAMES) {
  const [marker, end] = ENDS_MEAN[profile]
  for (const [what, acts, means] of [
    ['[DONE] without a finish reason', [done, lastChunk], marker],
    ['a clean end without anything', [lastChunk], end],
  ] as const) {
    test(`${profile}: ${what} is ${means}`, async () => {
      const bare: Play = [head(), role, text('Hello world'), ...acts]
      const plays = [bare, answer(' world!')]
      const got = await play(plays, { profile, api: 'openai-chat' }, { policy: { attemptsMax: 2 } })
      if (means === 'taken') {
        assert.deepEqual([got.text, got.done?.proven, got.requests.length], ['Hello world', false, 1])
        return
      }
      assert.equal(got.failed[0]?.fault.category, 'model_stream_incomplete')
      const kept = got.failed[0]?.action === 'resume' ? 'Hello' : ''
      assert.deepEqual([got.text, got.done?.proven], [`${kept} world!`, true])
    })
  }
}
