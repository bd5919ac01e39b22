/** The rungs (continue, ask again, the next model, stop) and the one budget that all of them draw on. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChatMessage, PROFILE_NAMES, type ProfileName } from '../src/index.ts'
import { PROFILES } from '../src/contract/profiles.ts'
import { ask } from './collect.ts'
import { play } from './play.ts'
import { message } from '../../../test/kit/anthropic-frames.ts'
import { type Exchange } from '../../../test/kit/exchange.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { answer, finish, role, text, thought, toolAnswer } from '../../../test/kit/openai-frames.ts'
import { fin, head, json, lastChunk, type Play, reset } from '../../../test/kit/plays.ts'

const messagesOf = (request: Exchange | undefined): (ChatMessage & { prefix?: boolean })[] =>
  (request?.body['messages'] ?? []) as ChatMessage[]
const lastMessage = (request: Exchange | undefined): ChatMessage & { prefix?: boolean } =>
  messagesOf(request).at(-1) as ChatMessage

const playAs = (plays: readonly Play[], profile: ProfileName | undefined) => play(plays, { profile })

// ---- continue by prefill ----

/** How each server is asked to continue; null if it is not. Written out, because servers depend on exactly this. */
const CONTINUES: Readonly<Record<ProfileName, object | null>> = {
  generic: null,
  openai: null,
  azure: null,
  anthropic: null,
  vllm: { continue_final_message: true, add_generation_prompt: false },
  sglang: { continue_final_message: true, add_generation_prompt: false },
  'llama-cpp': {},
  ollama: {},
  'lm-studio': null,
  deepseek: { prefix: true },
  mistral: { prefix: true },
  openrouter: null,
}

const BEGUN = 'Hello, this is a long and wide wo'
/** What is not sent of it, and has to come back. */
const PROOF = ' is a long and wide wo'

for (const profile of PROFILE_NAMES) {
  const way = CONTINUES[profile]
  test(`${profile}: an interrupted text is ${way === null ? 'asked for again' : 'continued its way'}`, async () => {
    const half: Play = [head(), role, text(BEGUN), reset]
    const request = { profile, api: 'openai-chat' } as const
    const got = await play([half, way === null ? answer(`${BEGUN}rld`) : answer(PROOF, 'rld')], request)
    assert.equal(got.text, `${BEGUN}rld`)
    assert.equal(got.failed[0]?.action, way === null ? 'retry' : 'resume')
    assert.equal(PROFILES[profile].prefill === 'none', way === null)
    const { messages, model, stream, stream_options, tools, ...flags } = got.requests[1]?.body ?? {}
    assert.ok(model !== undefined && stream === true && tools !== undefined)
    assert.equal(stream_options !== undefined, PROFILES[profile].usageOption)
    const { role: who, content, ...mark } = (messages as Record<string, unknown>[]).at(-1) ?? {}
    assert.deepEqual([who, content], way === null ? ['user', 'hi'] : ['assistant', 'Hello, this'])
    assert.deepEqual({ ...flags, ...mark }, way ?? {})
  })
}

test('an interrupted text is continued if the server is known to support that, and nothing is discarded', async () => {
  const got = await playAs([[head(), role, text(BEGUN), reset], answer(`${PROOF}r`, 'ld', '!')], 'llama-cpp')
  assert.equal(got.text, `${BEGUN}rld!`)
  assert.equal(got.failed[0]?.action, 'resume')
  assert.equal(got.types.includes('part-discarded'), false)
  assert.deepEqual(lastMessage(got.requests[1]), { role: 'assistant', content: 'Hello, this' })
  assert.equal(got.done?.ledger[1]?.resumed, true)
})

test('an interrupted continuation is continued again', async () => {
  const got = await playAs(
    [
      [head(), role, text('alpha beta gamma delta epsilon'), reset],
      [head(), role, text(' beta gamma delta epsilon'), text(' z'), fin],
      [head(), text(' gamma delta epsilon ze'), lastChunk],
      answer(' gamma delta epsilon ze', 'ta'),
    ],
    'vllm',
  )
  assert.equal(got.text, 'alpha beta gamma delta epsilon zeta')
  assert.deepEqual(
    got.requests.slice(1).map((request) => lastMessage(request).content),
    ['alpha', 'alpha beta', 'alpha beta'],
  )
  assert.equal(got.requests[3]?.body['continue_final_message'], true)
  assert.equal(got.requests[3]?.body['add_generation_prompt'], false)
})

test('servers that need a flag on the unfinished message get it', async () => {
  const got = await playAs([[head(), role, text(BEGUN), reset], answer(PROOF, 'rld')], 'deepseek')
  assert.deepEqual(lastMessage(got.requests[1]), { role: 'assistant', content: 'Hello, this', prefix: true })
})

test('the last words and the white space around them are not sent, and come back once', async () => {
  const script = [
    [head(), role, text('Hello,  my good and beautiful \n'), reset],
    answer('  m', 'y good and beautiful \n', 'world'),
  ]
  const got = await playAs(script, 'llama-cpp')
  assert.equal(got.text, 'Hello,  my good and beautiful \nworld')
  assert.equal(lastMessage(got.requests[1]).content, 'Hello,')
})

const HALF: Play = [head(), role, text('The capital of France is the city of Par'), reset]

for (const profile of PROFILE_NAMES.filter((name) => CONTINUES[name] !== null)) {
  for (const [what, anew] of [
    ['starts a new answer', answer('Sure, ', 'here it is: Paris.')],
    ['starts a new answer with the words at the seam', answer('France is the city of', ' Paris, in a way.')],
    ['starts a new answer with the word and the white space at the seam', answer(' France', ' has a capital: Paris.')],
    ['starts the same answer again', answer('The capital of France is the city of Paris.')],
    ['starts a new answer with white space', answer(' Sure: Paris.')],
    ['continues with another word', answer(' France is the city of Lyon.')],
    ['continues without the white space', answer('is.')],
    ['ends at once', answer('')],
  ] as const) {
    const isEcho = profile === 'mistral' && what === 'starts the same answer again'
    test(`${profile}: if it ${what}, two answers are ${isEcho ? 'one, because it repeats the text' : 'never joined'}`, async () => {
      const got = await playAs([HALF, anew, answer('It is Paris.')], profile)
      assert.equal(got.text, isEcho ? 'The capital of France is the city of Paris.' : 'It is Paris.')
      assert.deepEqual(
        got.failed.map(({ action }) => action),
        isEcho ? ['resume'] : ['resume', 'retry'],
      )
    })
  }
}

for (const [what, half] of [
  ['of one word', 'Par'],
  ['of a few words', 'No, that is because I'],
  ['that ends in its first words', 'This is a capital city: yes, This is a capital city:'],
  ['without white space near its end', `See ${'x'.repeat(200)}`],
  ['of white space', ' \n'],
] as const)
  test(`a continuation of a text ${what} could not be recognised, so the text is asked for again`, async () => {
    const got = await playAs([[head(), role, text(half), reset], answer('Paris')], 'llama-cpp')
    assert.equal(got.text, 'Paris')
    assert.deepEqual([got.failed[0]?.action, messagesOf(got.requests[1]).length], ['retry', 1])
  })

test('a server may repeat the unfinished text before it continues', async () => {
  const got = await playAs([[head(), role, text(BEGUN), reset], answer('Hel', `${BEGUN.slice(3)}r`, 'ld')], 'mistral')
  assert.equal(got.text, `${BEGUN}rld`)
})

test('a server that refuses to continue is asked from the start', async () => {
  const refused = json(400, { error: { message: 'This model does not support assistant message prefill.' } })
  const got = await playAs([[head(), role, text(BEGUN), reset], refused, answer('Hello world')], 'llama-cpp')
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[1]?.action, 'retry')
  assert.equal(messagesOf(got.requests[2]).length, 1)
})

for (const [what, profile, half] of [
  ['at a server without a named profile', undefined, [text(BEGUN)]],
  ['on a server that cannot', 'openai', [text(BEGUN)]],
  ['after reasoning', 'llama-cpp', [thought('hm'), text(BEGUN)]],
] as const) {
  test(`an answer is not continued ${what}: it is discarded and asked for again`, async () => {
    const got = await playAs([[head(), role, ...half, reset], answer('Hello')], profile)
    assert.equal(got.text, 'Hello')
    assert.equal(got.failed[0]?.action, 'retry')
    assert.equal(messagesOf(got.requests[1]).length, 1)
  })
}

test('an answer is not continued inside a tool call', async () => {
  const broken: Play = [...toolAnswer('bash', '{"command":"ls"}', [text('Let me')]).slice(0, 5), reset]
  const got = await playAs([broken, toolAnswer('bash', '{"command":"ls"}')], 'vllm')
  assert.equal(got.text, '')
  assert.equal(got.calls.length, 1)
  assert.equal(got.failed[0]?.action, 'retry')
})

test('a continuation may end right after the seam', async () => {
  const got = await playAs(
    [
      [head(), role, text(BEGUN), reset],
      [head(), text(PROOF), finish('stop'), lastChunk],
    ],
    'vllm',
  )
  assert.equal(got.text, BEGUN)
})

// ---- the next model ----

test("when the attempts at one model are spent the next is asked, without the first one's key", async (t) => {
  const dead = await startModelServer([json(503, {})])
  const spare = await startModelServer([answer('from the spare')])
  t.after(() => Promise.all([dead.close(), spare.close()]))
  const got = await ask(
    dead.url,
    { apiKey: 'key-of-the-first' },
    { policy: { attemptsMax: 2 }, fallback: [{ baseUrl: spare.url, model: 'spare-1' }] },
  )
  assert.equal(got.text, 'from the spare')
  assert.deepEqual(
    got.failed.map(({ action }) => action),
    ['retry', 'fallback'],
  )
  assert.equal(spare.requests[0]?.body['model'], 'spare-1')
  assert.equal(spare.requests[0]?.headers['authorization'], undefined)
  assert.deepEqual(
    got.done?.ledger.map(({ attempt, model }) => [attempt, model]),
    [
      [1, 'fake-1'],
      [2, 'fake-1'],
      [3, 'spare-1'],
    ],
  )
})

test('a model that the account cannot use does not end the answer while another is left', async (t) => {
  const refusing = await startModelServer([json(401, { error: { code: 'invalid_api_key' } })])
  const spare = await startModelServer([answer('ok')])
  t.after(() => Promise.all([refusing.close(), spare.close()]))
  const got = await ask(refusing.url, {}, { fallback: [{ baseUrl: spare.url }] })
  assert.equal(got.text, 'ok')
  assert.equal(refusing.requests.length, 1)
})

test('an invalid request is not sent to another model', async (t) => {
  const first = await startModelServer([json(400, {})])
  const spare = await startModelServer([answer('ok')])
  t.after(() => Promise.all([first.close(), spare.close()]))
  const got = await ask(first.url, {}, { fallback: [{ baseUrl: spare.url }] })
  assert.equal(got.fault?.fault.category, 'model_bad_request')
  assert.equal(spare.requests.length, 0)
})

test('a fallback does not continue the text of the first model', async (t) => {
  const first = await startModelServer([[head(), role, text('Hel'), reset]])
  const spare = await startModelServer([answer('Bonjour')])
  t.after(() => Promise.all([first.close(), spare.close()]))
  const got = await ask(
    first.url,
    { profile: 'vllm' },
    { policy: { attemptsMax: 1 }, fallback: [{ baseUrl: spare.url, profile: 'vllm' }] },
  )
  assert.equal(got.text, 'Bonjour')
  assert.equal(messagesOf(spare.requests[0]).length, 1)
})

test('a fallback may speak the other API', async (t) => {
  const first = await startModelServer([json(500, {})])
  const spare = await startModelServer([message('from a message')])
  t.after(() => Promise.all([first.close(), spare.close()]))
  const fallback = [{ baseUrl: spare.url, api: 'anthropic-messages' }] as const
  const got = await ask(first.url, {}, { policy: { attemptsMax: 1 }, fallback })
  assert.equal(got.text, 'from a message')
})

// ---- budget and ledger ----

test('the budget is passed in and returned: failures and waits draw on it, and a complete answer earns half of it back', async () => {
  const model = await startModelServer([json(500, {}), [head(), role, text('x'), reset], answer('ok')])
  const got = await ask(
    model.url,
    {},
    { budget: { failures: 3, waitedMs: 100 }, policy: { backoffMs: 4 }, dice: () => 1 },
  )
  await model.close()
  assert.deepEqual(got.done?.budget, { failures: 3, freeFailures: 1, waitedMs: (100 + 100 + 4) / 2 })
})

test('a budget that earlier answers have spent ends the answer', async (t) => {
  const model = await startModelServer([[head(), role, text('x'), reset]])
  t.after(() => model.close())
  const got = await ask(model.url, {}, { budget: { failures: 59, waitedMs: 0 } })
  assert.equal(got.fault?.fault.stopped, 'failures_spent')
  assert.equal(model.requests.length, 1)
  const waited = await ask(model.url, {}, { budget: { failures: 0, waitedMs: 1_800_000 }, dice: () => 1 })
  assert.equal(waited.fault?.fault.stopped, 'wait_spent')
})

test('spent attempts park if the caller can park, and stop if not', async (t) => {
  const model = await startModelServer([json(500, {})])
  t.after(() => model.close())
  const parked = await ask(model.url, {}, { policy: { attemptsMax: 1 }, canPark: true })
  assert.equal(parked.fault?.decision.action, 'park')
  assert.equal(parked.failed.at(-1)?.action, 'park')
  const never = await ask(model.url, {}, { policy: { attemptsMax: 1, park: 'never' }, canPark: true })
  assert.equal(never.fault?.decision.action, 'stop')
})

test('the ledger has each attempt with its phase, bytes, fault, delay and usage', async () => {
  const model = await startModelServer([
    [reset],
    json(503, {}),
    [head(), role, text('Hello you'), reset],
    answer('Hello'),
  ])
  const got = await ask(model.url, {}, { policy: { backoffMs: 2 }, dice: () => 1 })
  await model.close()
  const rows = got.done?.ledger.map(({ attempt, phase, fault, action, delayMs, usage }) => ({
    attempt,
    phase,
    category: fault?.category ?? null,
    action,
    delayMs,
    input: usage.inputTokens.quality,
    output: usage.outputTokens.quality,
  }))
  assert.deepEqual(rows, [
    {
      attempt: 1,
      phase: 'headers',
      category: 'model_stream_interrupted',
      action: 'retry',
      delayMs: 100,
      input: 'unknown',
      output: 'unknown',
    },
    {
      attempt: 2,
      phase: 'headers',
      category: 'model_overloaded',
      action: 'retry',
      delayMs: 200,
      input: 'unknown',
      output: 'unknown',
    },
    {
      attempt: 3,
      phase: 'stream',
      category: 'model_stream_interrupted',
      action: 'retry',
      delayMs: 2,
      input: 'unknown',
      output: 'estimated',
    },
    { attempt: 4, phase: 'stream', category: null, action: null, delayMs: 0, input: 'known', output: 'known' },
  ])
  assert.ok((got.done?.ledger[2]?.bytes ?? 0) > 100)
  assert.equal(got.done?.usage.inputTokens.quality, 'estimated')
  assert.equal(got.done?.usage.inputTokens.value, 48)
})

test('an unusable base URL is a fault event, not an exception, and is not retried', async () => {
  for (const url of ['nonsense', 'ftp://127.0.0.1/v1', '']) {
    const got = await ask(url)
    assert.equal(got.fault?.fault.category, 'model_endpoint_invalid', url)
    assert.equal(got.fault?.ledger.length, 1)
  }
})
