/** The relay: what a client holds after each fault, before content and after it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { GOOD } from './play.ts'
import { relayed } from './relayed.ts'
import {
  answer,
  answerFrames,
  callMore,
  callStart,
  choice,
  done,
  finish,
  frame,
  role,
  text,
  thought,
  usage,
} from '../../../test/kit/openai-frames.ts'
import { bytes, fin, head, json, lastChunk, type Play, reset, silence, stream } from '../../../test/kit/plays.ts'

// ---- before content ----

test('a proper answer passes through frame by frame, with the headers of its server', async () => {
  const play: Play = [head(200, { 'x-request-id': 'req_7', 'openai-processing-ms': '12' }), ...GOOD.slice(1)]
  const got = await relayed([play])
  assert.equal(got.text, 'Hello world')
  assert.equal(got.status, 200)
  assert.equal(got.headers['x-request-id'], 'req_7')
  assert.equal(got.headers['openai-processing-ms'], '12')
  assert.equal(got.headers['transfer-encoding'], undefined)
  assert.equal(got.frames.length, 6)
  assert.equal(got.frames.at(-1)?.data, '[DONE]')
  assert.equal(got.requests[0]?.headers['authorization'], 'Bearer client-key')
  assert.equal(got.requests[0]?.headers['accept-encoding'], 'identity')
})

const EARLY: readonly (readonly [string, Play])[] = [
  ['a reset before its headers', [reset]],
  ['a close after its headers', [head(), fin]],
  ['a break after the role', [head(), role, reset]],
  ['a clean end after the role', [head(), role, lastChunk]],
  ['status 500', json(500, { error: { message: 'x' } })],
  ['status 429', json(429, { error: { message: 'x' } })],
  ['an error as its first frame', [head(), role, frame({ error: { message: 'x', type: 'server_error' } }), lastChunk]],
  ['a malformed line', [head(), role, frame('{oops'), silence]],
  ['a cut call', [head(), role, callStart('c', 'bash', '{"com'), finish('tool_calls'), done, lastChunk]],
  ['a call that broke off', [head(), role, callStart('c', 'bash', '{"com'), reset]],
]

for (const [what, broken] of EARLY) {
  test(`${what} before content is healed without the client noticing`, async () => {
    const got = await relayed([broken, GOOD])
    assert.equal(got.text, 'Hello world')
    assert.equal(got.error, undefined)
    assert.deepEqual(got.calls, [])
    assert.equal(got.comments.length, 0)
    assert.equal(got.outcome.ledger.length, 2)
    assert.deepEqual(
      got.events.map(({ type }) => type),
      ['attempt-start', 'attempt-failed', 'attempt-start', 'healed'],
    )
  })
}

// ---- after content ----

test('after content, an identical beginning lets the answer continue, however it is split into frames', async () => {
  const again = answer('Hel', 'lo wo', 'rld')
  const got = await relayed([[head(), role, text('Hello'), text(' w'), reset], again])
  assert.equal(got.text, 'Hello world')
  assert.equal(got.error, undefined)
  assert.equal(got.frames.at(-1)?.data, '[DONE]')
})

test('healing keeps the first id and model, and the role comes once', async () => {
  const other = (delta: object, reason: string | null = null): Play =>
    frame({ id: 'other', created: 2, model: 'other', choices: [{ index: 0, delta, finish_reason: reason }] })
  const again: Play = [
    head(),
    other({ role: 'assistant', content: '', x_server: 1 }),
    other({ content: 'Hello!' }),
    other({}, 'stop'),
    done,
    lastChunk,
  ]
  const got = await relayed([[head(), role, text('Hello'), reset], again])
  assert.equal(got.text, 'Hello!')
  const chunks = got.frames.filter(({ data }) => data !== '[DONE]').map(({ data }) => JSON.parse(data) as Chunk)
  assert.deepEqual([...new Set(chunks.map(({ id, model }) => `${id} ${model}`))], ['chatcmpl-1 fake-1'])
  assert.equal(chunks.filter(({ choices }) => choices[0]?.delta.role !== undefined).length, 1)
})

test('after content, an answer that starts differently ends in an error and not in doubled text', async () => {
  const got = await relayed([[head(), role, text('Hello'), reset], answer('Howdy')])
  assert.equal(got.text, 'Hello')
  assert.equal(got.error?.code, 'model_stream_interrupted')
  assert.equal(got.error?.type, 'server_error')
  assert.match(got.error?.message ?? '', /cannot be continued, so the stream ends here\./)
  assert.equal(got.frames.at(-1)?.data, '[DONE]')
  assert.equal(got.isEnded, true)
  assert.equal(got.requests.length, 2, 'a model that words it differently is not asked again and again')
})

test('an answer that is shorter than what was sent ends in an error', async () => {
  const got = await relayed([[head(), role, text('Hello world'), reset], answer('Hello')])
  assert.equal(got.text, 'Hello world')
  assert.equal(got.error?.code, 'model_stream_interrupted')
})

test('reasoning that was sent must come again, too', async () => {
  const half: Play = [head(), role, thought('hm'), text('A'), reset]
  const same = await relayed([
    half,
    [head(), role, thought('h'), thought('m'), text('AB'), finish('stop'), done, lastChunk],
  ])
  assert.equal(same.text, 'AB')
  assert.equal(same.error, undefined)
  const other = await relayed([half, [head(), role, thought('oh'), text('AB'), finish('stop'), done, lastChunk]])
  assert.equal(other.error?.code, 'model_stream_interrupted')
})

const CALL_LS = { id: 'call_1', type: 'function', function: { name: 'ls', arguments: '{"path":"a"}' } }
const WHOLE_CALL = {
  id: 'b',
  choices: [{ message: { content: 'I will look.', tool_calls: [CALL_LS] }, finish_reason: 'tool_calls' }],
}
/** Another attempt at "I will look.", whose last piece comes together with a call. */
const WITH_CALL: Readonly<Record<string, Play>> = {
  'the last text and a call in one frame': stream(
    text('I will '),
    choice({ content: 'look.', tool_calls: [{ index: 0, ...CALL_LS }] }),
    finish('tool_calls'),
    done,
  ),
  'the last text and the beginning of a call': stream(
    text('I will '),
    choice({ content: 'look.', tool_calls: [{ index: 0, ...CALL_LS, function: { name: 'ls', arguments: '{"pa' } }] }),
    callMore('th":"a"}'),
    finish('tool_calls'),
    done,
  ),
  'thoughts, text and a call in one frame': stream(
    choice({ reasoning_content: 'hm', content: 'I will look.', tool_calls: [{ index: 0, ...CALL_LS }] }),
    finish('tool_calls'),
    done,
  ),
  'a function_call as of old': stream(
    role,
    choice({ content: 'I will look.', function_call: CALL_LS.function }),
    finish('function_call'),
    done,
  ),
  'one document': json(200, WHOLE_CALL),
}

for (const [what, again] of Object.entries(WITH_CALL))
  test(`a call is never lost over a heal: ${what}`, async () => {
    const thoughts = what.startsWith('thoughts') ? [thought('hm')] : []
    const got = await relayed([[head(), role, ...thoughts, text('I will '), text('look.'), reset], again])
    assert.deepEqual([got.text, got.calls, got.error], ['I will look.', ['{"path":"a"}'], undefined])
    assert.match(got.body, /"name":"ls"/)
    assert.doesNotMatch(got.body, /"id":""/)
  })

test('what a frame says beside repeated text reaches the client once', async () => {
  const signed = { extra_content: { google: { thought_signature: 'SIG' } } }
  const whole = (...first: string[]): Play => stream(role, ...first, text(' world'), finish(), done)
  const unsigned: Play = [head(), role, text('Hello'), reset]
  const got = await relayed([unsigned, whole(text('Hel'), choice({ content: 'lo', ...signed }))])
  assert.deepEqual([got.text, got.body.match(/SIG/g)?.length], ['Hello world', 1])
  const twice = [head(), role, choice({ content: 'Hello', ...signed }), reset]
  const again = await relayed([twice, whole(choice({ content: 'Hello', ...signed }))])
  assert.deepEqual([again.text, again.body.match(/SIG/g)?.length], ['Hello world', 1])
})

test('a refusal and a text of the same words are two different answers', async () => {
  const refused: Play = [head(), role, choice({ refusal: 'No' }), reset]
  const other = await relayed([refused, answer('No', ' way')], { policy: { attemptsMax: 2 } })
  assert.equal(other.error?.code, 'model_stream_interrupted')
  const same = await relayed([refused, stream(role, choice({ refusal: 'No way' }), finish(), done)])
  assert.deepEqual(
    [same.error, same.body.match(/"refusal":"[^"]*"/g)],
    [undefined, ['"refusal":"No"', '"refusal":" way"']],
  )
})

test('content that is a list of pieces stays one over a heal', async () => {
  const pieces = (...content: object[]): string => choice({ content })
  const thinking = (...thoughts: string[]) => ({ type: 'thinking', thinking: thoughts.map((said) => ({ text: said })) })
  const first = [head(), role, pieces(thinking('hm')), pieces({ type: 'text', text: 'Hel' }), reset]
  const again = stream(role, pieces(thinking('h', 'm'), { type: 'text', text: 'Hello' }), finish(), done)
  const { frames } = await relayed([first, again])
  const said = frames.flatMap(({ data, json: chunk }) => (data === '[DONE]' ? [] : [chunk.choices[0].delta.content]))
  assert.deepEqual(said.slice(1, 4), [
    [thinking('hm')],
    [{ type: 'text', text: 'Hel' }],
    [{ type: 'text', text: 'lo' }],
  ])
})

test('where a heal joins two answers, the log probabilities are those of the new tokens, or none', async () => {
  const tokens = (...said: string[]) => ({ content: said.map((token) => ({ token, logprob: -1 })), refusal: null })
  const first: Play = [head(), role, choice({ content: 'Hel' }, { logprobs: tokens('Hel') }), reset]
  for (const [said, left] of [
    [tokens('Hel', 'lo'), tokens('lo')],
    [tokens('Hello'), null],
  ] as const) {
    const again = stream(role, choice({ content: 'Hello' }, { logprobs: said }), finish(), done)
    const { frames } = await relayed([first, again])
    const joint = frames.find(({ data }) => data.includes('"lo"'))
    assert.deepEqual(joint?.json.choices[0].logprobs, left)
  }
})

const BEGUN = 'Hello, this is a long and wide wo'
/** What is not sent of it, and has to come back. */
const PROOF = ' is a long and wide wo'

test('text is continued by prefill if the profile supports it', async () => {
  const got = await relayed([[head(), role, text(BEGUN), reset], answer(`${PROOF}r`, 'ld')], { profile: 'llama-cpp' })
  assert.equal(got.text, `${BEGUN}rld`)
  assert.equal(got.error, undefined)
  const messages = got.requests[1]?.body['messages'] as { content: string }[]
  assert.equal(messages.at(-1)?.content, 'Hello, this')
})

test('a new answer in place of a continuation is never appended to what was sent', async () => {
  for (const anew of ['Sure: hello', ' is another one', ' is a long one'])
    for (const said of [`${BEGUN}rld`, 'Hello']) {
      const script = [[head(), role, text(BEGUN), reset], answer(anew), answer(said)]
      const got = await relayed(script, { profile: 'llama-cpp' })
      const isWhole = said !== 'Hello'
      assert.deepEqual([got.text, got.error === undefined], [isWhole ? said : BEGUN, isWhole])
      assert.equal(got.requests.length, 3)
    }
})

test('a server that refuses to continue is asked from the start', async () => {
  const refused = json(400, { error: { message: 'no prefill' } })
  const script = [[head(), role, text(BEGUN), reset], refused, answer(`${BEGUN}rld`)]
  const got = await relayed(script, { profile: 'vllm' })
  assert.equal(got.text, `${BEGUN}rld`)
  assert.equal(got.error, undefined)
})

test('the error that ends a stream says that it cannot be continued', async () => {
  const got = await relayed([[head(), role, text('Hello wo'), reset], answer('Goodbye')])
  assert.match(String(got.error?.message), /What was already sent cannot be continued, so the stream ends here\./)
})

test('a clean end without proof after content is never forwarded as an end', async () => {
  const got = await relayed([[head(), role, text('Hel'), lastChunk]], { policy: { attemptsMax: 2 } })
  assert.equal(got.text, 'Hel')
  assert.equal(got.error?.code, 'model_stream_interrupted')
})

test('a transient error inside the stream after content is healed like a break', async () => {
  const overloaded = frame({ error: { message: 'busy', type: 'overloaded_error' } })
  const got = await relayed([[head(), role, text('Hel'), overloaded, done, lastChunk], answer('Hello')])
  assert.equal(got.text, 'Hello')
  assert.equal(got.error, undefined)
})

test('an error inside the stream that no retry can fix is forwarded unchanged', async () => {
  const error = { message: 'the prompt is bad', type: 'invalid_request_error', param: 'x', code: 'own_code' }
  const got = await relayed([[head(), role, text('Hel'), frame({ error }), done, lastChunk]])
  assert.deepEqual(got.error, error)
  assert.equal(got.requests.length, 1)
  assert.equal(got.frames.at(-1)?.data, '[DONE]')
})

test('an answer that never says [DONE] gets one', async () => {
  const got = await relayed([[head(), role, text('Hello'), finish('stop'), lastChunk]])
  assert.equal(got.frames.filter(({ data }) => data === '[DONE]').length, 1)
})

test('a stream that breaks before the token counts that were asked for gets no [DONE], but a comment, and is counted', async () => {
  const counted = { body: { stream_options: { include_usage: true } } }
  for (const last of [reset, lastChunk]) {
    const got = await relayed([[head(), role, text('Hello'), finish('stop'), last]], counted)
    assert.deepEqual([got.text, got.isEnded, got.outcome.fault, got.requests.length], ['Hello', true, null, 1])
    assert.doesNotMatch(got.body, /\[DONE\]/)
    assert.match(got.comments.at(-1) ?? '', /token counts/)
    assert.deepEqual(got.events.at(-1), { type: 'usage-lost', attempt: 1 })
  }
  const told = await relayed([[head(), role, text('Hello'), finish('stop'), usage(), reset]], counted)
  assert.deepEqual([told.frames.at(-1)?.data, told.comments], ['[DONE]', []])
})

test('a filtered answer is forwarded as the server sent it, after one attempt', async () => {
  const got = await relayed([[head(), role, text('How'), finish('content_filter'), done, lastChunk]])
  assert.equal(got.text, 'How')
  assert.equal(got.requests.length, 1)
  assert.match(got.body, /content_filter/)
})

// ---- rarer things ----

test('with several choices each has to finish, and a break after content ends in an error', async () => {
  const choice = (index: number, delta: object, reason: string | null = null): Play =>
    frame({ id: 'x', choices: [{ index, delta, finish_reason: reason }] })
  const first = [head(), choice(0, { content: 'A' }), choice(0, {}, 'stop')]
  const cut = await relayed([[...first, choice(1, { content: 'B' }), lastChunk]], { body: { n: 2 } })
  assert.equal(cut.error?.code, 'model_stream_interrupted')
  const whole: Play = [...first, choice(1, { content: 'B' }), choice(1, {}, 'stop'), done, lastChunk]
  const got = await relayed([whole], { body: { n: 2 } })
  assert.equal(got.error, undefined)
  assert.equal(got.frames.length, 5)
  for (const body of [{ n: 2 }, {}]) {
    const both: Play = [head(), choice(0, { content: 'A' }), choice(1, { content: 'A' }), ...first.slice(1), lastChunk]
    const retried = await relayed([[...first.slice(0, 2), reset], both], { body, canCut: true })
    assert.deepEqual([retried.text, retried.isCut, retried.requests.length], ['A', true, 'n' in body ? 1 : 2])
  }
})

test('an answer that is compressed although we asked for identity is not mistaken for an empty one', async () => {
  const got = await relayed([[head(200, { 'content-encoding': 'gzip' }), bytes('5\r\nxxxxx\r\n'), lastChunk], GOOD])
  assert.equal(got.text, 'Hello world')
  assert.equal(got.outcome.ledger[0]?.fault?.category, 'model_server_error')
})

test('a server that compresses every answer is understood from its second answer on', async () => {
  const frames = answerFrames('Hello', ' world').join('')
  for (const [encoding, compress] of [['gzip', gzipSync] as const, ['br', brotliCompressSync] as const]) {
    const play = [head(200, { 'content-encoding': encoding }), compress(frames), lastChunk]
    const got = await relayed([play, play])
    assert.equal(got.body, frames)
    assert.equal(got.requests.length, 2)
    assert.equal(got.headers['content-encoding'], undefined)
    const cutOff = [head(200, { 'content-encoding': encoding }), compress(frames).subarray(0, 60), reset]
    const healed = await relayed([play, cutOff, play])
    assert.equal(healed.text, 'Hello world')
  }
})

test('early hints before an answer are skipped, also by a server that compresses', async () => {
  const hints = bytes('HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n')
  const frames = answerFrames('Hello').join('')
  const compressed: Play = [head(200, { 'content-encoding': 'gzip' }), gzipSync(frames), lastChunk]
  const got = await relayed([compressed, [hints, hints, ...compressed]]) // the first tells that it compresses
  assert.equal(got.body, frames)
  assert.equal(got.requests.length, 2)
  assert.equal((await relayed([[hints, ...GOOD]])).text, 'Hello world')
})

test('what a server says about its own connection, or in the name of the gateway, does not reach the client', async () => {
  const said = { connection: 'close, x-hop', 'x-hop': '1', 'x-breakfall-category': 'forged', 'x-kept': '2' }
  for (const play of [[head(200, said), ...GOOD.slice(1)], json(400, { error: {} }, said)]) {
    const { headers } = await relayed([play])
    assert.deepEqual([headers['x-hop'], headers['connection'], headers['x-kept']], [undefined, undefined, '2'])
    assert.notEqual(headers['x-breakfall-category'], 'forged')
  }
})

for (const stream of [true, false]) {
  test(`a deadline ends a request that ${stream ? 'streams' : 'does not stream'} with 504`, async () => {
    const got = await relayed([[silence]], { policy: { deadlineMs: 60 }, body: { stream } })
    assert.equal(got.status, 504)
    assert.equal((JSON.parse(got.body) as { error: { code: string } }).error.code, 'deadline_exceeded')
  })
}

test('an answer too long to be remembered ends in an error when it breaks, and uses no more memory', async () => {
  const half: Play = [head(), role, text('a'.repeat(300)), text('b'.repeat(300)), reset]
  const got = await relayed([half, answer('a'.repeat(300), 'b'.repeat(300), 'c')], { holdBytesMax: 500 })
  assert.equal(got.text.length, 600)
  assert.equal(got.error?.code, 'model_stream_interrupted')
  assert.equal(got.requests.length, 1)
})

test('the error says after how many attempts Breakfall stopped', async () => {
  const got = await relayed([[reset]], { policy: { attemptsMax: 2 } })
  assert.match(got.body, /Breakfall stopped after 2 attempts\./)
})

test('undefined options count as not given', async () => {
  const got = await relayed([GOOD], { policy: { attemptsMax: undefined, livenessMs: 500 } })
  assert.equal(got.text, 'Hello world')
})

type Chunk = { id: string; model: string; choices: { delta: { role?: string } }[] }

test('a call that lacks a required parameter reaches the client at the second request, or at once if text went out', async () => {
  const lacks = stream(role, callStart('c', 'bash', '{"cmd":"ls"}'), finish('tool_calls'), done)
  const held = await relayed([lacks])
  assert.deepEqual([held.status, held.calls, held.requests.length], [200, ['{"cmd":"ls"}'], 2])
  const afterText = stream(role, text('Hello'), callStart('c', 'bash', '{"cmd":"ls"}'), finish('tool_calls'), done)
  const sent = await relayed([afterText], { hold: 'tools' })
  assert.deepEqual([sent.status, sent.text, sent.calls, sent.requests.length], [200, 'Hello', ['{"cmd":"ls"}'], 1])
})
