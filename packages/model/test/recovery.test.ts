/** Where a stream can break, and what the consumer holds afterwards. */
import assert from 'node:assert/strict'
import { connect, createServer } from 'node:net'
import { once } from 'node:events'
import { test } from 'node:test'
import { ask } from './collect.ts'
import {
  type Act,
  answer,
  bytes,
  callMore,
  callStart,
  done,
  fin,
  finish,
  forever,
  frame,
  head,
  json,
  lastChunk,
  type Play,
  raw,
  role,
  rst,
  silence,
  startFakeModel,
  text,
  thought,
  toolAnswer,
  usage,
} from './fake-model.ts'

const GOOD = answer('Hello', ' world')
const GOOD_CALL = toolAnswer('bash', '{"command":"ls"}')

async function play(...plays: readonly Play[]) {
  const model = await startFakeModel(plays)
  try {
    return { ...(await ask(model.url)), requests: model.requests.length }
  } finally {
    await model.close()
  }
}

// ---- before the first byte ----

const EARLY: readonly (readonly [string, Play, string])[] = [
  ['reset before its headers', [rst], 'model_stream_interrupted'],
  ['closed before its headers', [fin], 'model_stream_interrupted'],
  ['closed inside its headers', [bytes('HTTP/1.1 200 OK\r\ncontent-ty'), fin], 'model_stream_interrupted'],
  ['reset after its headers and before its first byte', [head(), rst], 'model_stream_interrupted'],
  ['closed after its headers and before its first byte', [head(), fin], 'model_stream_interrupted'],
]

for (const [what, broken, category] of EARLY) {
  test(`a connection ${what} is tried again`, async () => {
    const got = await play(broken, GOOD)
    assert.equal(got.text, 'Hello world')
    assert.equal(got.failed.length, 1)
    assert.equal(got.failed[0]?.fault.category, category)
    assert.equal(got.types.includes('part-discarded'), false)
  })
}

test('a raw connection reset before any stream byte does not end the session', async () => {
  const got = await play([rst], [rst], GOOD)
  assert.equal(got.text, 'Hello world')
  assert.match(got.failed[0]?.fault.errorRaw ?? '', /ECONNRESET/)
})

test('a refused connection is model_unreachable, is tried again, and is never taken for the runner', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  const got = await ask(`http://127.0.0.1:${port}/v1`, {}, { policy: { attemptsMax: 3 } })
  assert.equal(got.failed.length, 3)
  assert.equal(got.fault?.fault.category, 'model_unreachable')
  assert.equal(got.fault?.fault.boundary, 'model')
  assert.equal(got.fault?.fault.stopped, 'attempts_spent')
  assert.deepEqual(got.fault?.fault.retry, { attempt: 3, max: 3, nextAt: null })
  assert.equal(got.fault?.ledger[0]?.phase, 'connect')
  assert.deepEqual(got.fault?.ledger[0]?.usage.inputTokens, { value: 0, quality: 'known' })
})

test('a connection that breaks while a large request is being sent (EPIPE) is tried again', async (t) => {
  let connections = 0
  const model = await startFakeModel([GOOD])
  const door = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    if (++connections === 1) {
      socket.once('data', () => socket.resetAndDestroy())
      return
    }
    const through = connect(model.port, '127.0.0.1')
    through.on('error', () => socket.destroy())
    socket.pipe(through).pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(door, 'listening')
  t.after(async () => {
    door.close()
    await model.close()
  })
  const { port } = door.address() as { port: number }
  const messages = [{ role: 'user', content: 'x'.repeat(8_000_000) }] as const
  const got = await ask(`http://127.0.0.1:${port}/v1`, { messages })
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_interrupted')
})

test('a retry sends the same request again: no message is doubled, nothing of the failed attempt is in it', async () => {
  const model = await startFakeModel([[rst], [head(), role, text('half'), rst], json(503, {}), GOOD])
  await ask(model.url)
  await model.close()
  assert.equal(model.requests.length, 4)
  assert.equal(new Set(model.requests.map((request) => request.text)).size, 1)
})

test('tries are bounded: a model that always breaks is asked six times by default, and then it is said', async () => {
  const got = await play([head(), role, text('half'), rst])
  assert.equal(got.requests, 6)
  assert.equal(got.fault?.fault.category, 'model_stream_interrupted')
  assert.equal(got.fault?.fault.stopped, 'attempts_spent')
  assert.match(got.fault?.fault.error ?? '', /tried 6 times and stopped: all tries are spent/)
})

test('something that answers, but not HTTP, is tried again', async () => {
  const got = await play([bytes('SSH-2.0-OpenSSH_9.2\r\n'), fin], GOOD)
  assert.equal(got.text, 'Hello world')
})

// ---- in the middle ----

const HALF: readonly (readonly [string, Play])[] = [
  ['its text', [head(), role, text('Hello wo')]],
  ['its reasoning', [head(), role, thought('hm, let me')]],
  ['its text after reasoning', [head(), role, thought('hm'), text('Hel')]],
  ['a tool call', [head(), role, text('Let me'), callStart('c1', 'bash'), callMore('{"comm')]],
  ['an SSE event', [head(), role, text('Hel'), raw('data: {"choices":[{"delta":{"con')]],
  ['a character', [head(), role, text('Hel'), raw('data: {"choices":[{"index":0,"delta":{"content":"\xc3')]],
]
const ENDS: readonly (readonly [string, Act])[] = [
  ['reset', rst],
  ['closed', fin],
  ['ended cleanly', lastChunk],
]

for (const [where, half] of HALF) {
  for (const [how, end] of ENDS) {
    test(`a stream ${how} in the middle of ${where} is asked for again and held once`, async () => {
      const got = await play([...half, end], answer('Hello', ' world'))
      assert.equal(got.text, 'Hello world')
      assert.equal(got.reasoning, '')
      assert.equal(got.requests, 2)
      assert.equal(got.calls.length, 0)
      assert.ok(
        ['model_stream_interrupted', 'model_stream_incomplete'].includes(got.failed[0]?.fault.category ?? ''),
        got.failed[0]?.fault.category,
      )
    })
  }
}

test('a reset of a chunked answer with connection: close is a break, although the parser calls it bad HTTP', async () => {
  const got = await play([head(200, { connection: 'close' }), role, text('Hel'), rst], GOOD)
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_interrupted')
})

test('an answer without length that is cut by a reset ends cleanly for the transport and is still not believed', async () => {
  const open = head(200, { 'transfer-encoding': '', connection: 'close' })
  const cut = bytes('data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n')
  const got = await play([open, cut, rst], GOOD)
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed.length, 1)
})

test('a bad chunk size in the middle is a break', async () => {
  const got = await play([head(), role, text('Hel'), bytes('zz\r\nnonsense\r\n'), silence], GOOD)
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_interrupted')
})

test('a dropped stream at turn 50 costs one retry, not the run', async () => {
  let index = 0
  const model = await startFakeModel(() =>
    ++index % 5 === 0 ? [head(), role, text('half'), fin] : answer(`step ${index}`),
  )
  try {
    for (let turn = 0; turn < 50; turn++) assert.match((await ask(model.url)).text, /^step \d+$/)
  } finally {
    await model.close()
  }
})

// ---- whole, but not over ----

test('whole tool calls in an answer that broke before its end are not released, but asked for again', async () => {
  const got = await play([head(), role, callStart('c0', 'bash', '{"command":"rm -rf build"}'), rst], GOOD_CALL)
  assert.deepEqual(
    got.calls.map(({ arguments: args }) => args),
    [{ command: 'ls' }],
  )
  assert.equal(got.failed.length, 1)
})

for (const [how, end] of [...ENDS, ['silent', silence]] as const) {
  test(`a stream ${how} after its finish reason has said everything and is kept`, async () => {
    const got = await play([head(), role, text('Hello'), finish('stop'), end])
    assert.equal(got.text, 'Hello')
    assert.equal(got.done?.proven, true)
    assert.equal(got.requests, 1)
    assert.equal(got.done?.usage.outputTokens.quality, 'estimated')
    assert.deepEqual(got.done?.usage.inputTokens, { value: null, quality: 'unknown' })
  })
}

test('pings after the finish reason do not hold the answer open', async () => {
  const got = await play([head(), role, text('Hello'), finish('stop'), forever(raw(': ping\n\n'), 100)])
  assert.equal(got.text, 'Hello')
})

test('usage that comes after the finish reason is counted', async () => {
  const got = await play([head(), role, text('Hello'), finish('stop'), usage(3, 4), lastChunk])
  assert.deepEqual(got.done?.usage.outputTokens, { value: 4, quality: 'known' })
})

// ---- proof by profile ----

const DONE_ONLY: Play = [head(), role, text('Hello'), done, lastChunk]

test('[DONE] without a finish reason is an answer for a generic server, and is marked unproven', async (t) => {
  const model = await startFakeModel([DONE_ONLY])
  t.after(() => model.close())
  const got = await ask(model.url, { profile: 'generic' })
  assert.equal(got.text, 'Hello')
  assert.equal(got.done?.proven, false)
})

test('[DONE] without a finish reason is not an answer from OpenAI, which always gives one', async (t) => {
  const model = await startFakeModel([DONE_ONLY, GOOD])
  t.after(() => model.close())
  const got = await ask(model.url, { profile: 'openai' })
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_incomplete')
})

test('whole calls before [DONE] are released although no finish reason came', async (t) => {
  const call = [head(), role, callStart('c1', 'bash', '{"command":"ls"}'), done, lastChunk]
  const model = await startFakeModel([call])
  t.after(() => model.close())
  const got = await ask(model.url, { profile: 'generic' })
  assert.deepEqual(
    got.calls.map(({ arguments: args }) => args),
    [{ command: 'ls' }],
  )
  assert.equal(got.done?.proven, true)
})

test('a server that never says that it has finished needs a lenient profile, and is marked unproven there', async (t) => {
  const bare: Play = [head(), role, text('Hello'), lastChunk]
  const model = await startFakeModel([bare])
  t.after(() => model.close())
  const lenient = await ask(model.url, { profile: 'ollama' })
  assert.equal(lenient.text, 'Hello')
  assert.equal(lenient.done?.proven, false)
  const strict = await ask(model.url, { profile: 'vllm' }, { policy: { attemptsMax: 2 } })
  assert.equal(strict.fault?.fault.category, 'model_stream_incomplete')
})

test('a lenient profile does not release calls from an answer that just ended', async (t) => {
  const bare: Play = [head(), role, callStart('c1', 'bash', '{"command":"ls"}'), lastChunk]
  const model = await startFakeModel([bare, GOOD_CALL])
  t.after(() => model.close())
  const got = await ask(model.url, { profile: 'ollama' })
  assert.equal(got.failed[0]?.fault.category, 'model_stream_incomplete')
  assert.equal(got.calls.length, 1)
})

// ---- tool calls ----

const CUT_CALLS: readonly (readonly [string, readonly Act[], string])[] = [
  ['cut arguments', [callStart('c', 'bash', '{"command":"rm -r'), finish('tool_calls')], 'tool_calls'],
  ['arguments cut by the length limit', [callStart('c', 'bash', '{"command":"rm'), finish('length')], 'length'],
  ['a missing required parameter', [callStart('c', 'bash', '{"cmd":"ls"}'), finish('tool_calls')], 'tool_calls'],
  ['arguments that are no object', [callStart('c', 'bash', '"ls"'), finish('tool_calls')], 'tool_calls'],
  ['no name', [callStart('c', '', '{"command":"ls"}'), finish('tool_calls')], 'tool_calls'],
  [
    'one whole and one cut call',
    [callStart('a', 'now', '{}'), callStart('b', 'bash', '{"c', 1), finish('stop')],
    'stop',
  ],
  ['a finish reason for calls and none there', [finish('tool_calls')], 'tool_calls'],
]

for (const [what, acts] of CUT_CALLS) {
  test(`an answer with ${what} is asked for again and never run`, async () => {
    const got = await play([head(), role, ...acts, done, lastChunk], GOOD_CALL)
    assert.equal(got.failed[0]?.fault.category, 'tool_call_truncated')
    assert.deepEqual(
      got.calls.map(({ arguments: args }) => args),
      [{ command: 'ls' }],
    )
  })
}

test('a call that stays cut ends in tool_call_truncated, after all tries', async (t) => {
  const model = await startFakeModel([
    [head(), role, callStart('c', 'bash', '{"com'), finish('tool_calls'), done, lastChunk],
  ])
  t.after(() => model.close())
  const got = await ask(model.url, {}, { policy: { attemptsMax: 3 } })
  assert.equal(got.fault?.fault.category, 'tool_call_truncated')
  assert.equal(model.requests.length, 3)
})

test('a tool without required parameters may be called with no arguments at all', async () => {
  const got = await play([head(), role, callStart('c', 'now'), finish('tool_calls'), done, lastChunk])
  assert.deepEqual(
    got.calls.map(({ arguments: args }) => args),
    [{}],
  )
})

test('parallel calls keep their order, and calls that share an index are told apart by id', async () => {
  const same = [callStart('a', 'bash', '{"command":"1"}'), callStart('b', 'bash', '{"command":"2"}')]
  const woven = [
    callStart('a', 'bash', '{"comm', 0),
    callStart('b', 'bash', '{"comma', 1),
    callMore('and":"1"}', 0),
    callMore('nd":"2"}', 1),
  ]
  for (const acts of [same, woven]) {
    const got = await play([head(), role, ...acts, finish('tool_calls'), done, lastChunk])
    assert.deepEqual(
      got.calls.map(({ callId, arguments: args }) => [callId, args['command']]),
      [
        ['a', '1'],
        ['b', '2'],
      ],
    )
  }
})

test('calls without an id, or with the same one twice, get ids of their own', async () => {
  const acts = [callStart('', 'now', '{}', 0), callStart('x', 'now', '{}', 1), callStart('x', 'now', '{}', 2)]
  const got = await play([head(), role, ...acts, finish('tool_calls'), done, lastChunk])
  const ids = got.calls.map(({ callId }) => callId)
  assert.equal(new Set(ids).size, 3)
  assert.equal(ids.includes(''), false)
})

// ---- answers that are not a stream ----

test('a server that answers in one piece although a stream was asked for is understood', async () => {
  const body = {
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 2 },
  }
  const got = await play(json(200, body))
  assert.equal(got.text, 'Hello')
  assert.equal(got.done?.proven, true)
})

test('a whole answer cut inside its JSON is a break', async () => {
  const got = await play([...json(200, '{"choices":[{"index":0,"mess')], GOOD)
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_interrupted')
})

test('an error object with status 200 is an error', async () => {
  const got = await play(json(200, { error: { message: 'busy', type: 'overloaded_error' } }), GOOD)
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_overloaded')
})

test('a web page with status 200 is no answer', async () => {
  const got = await play(json(200, '<html>sign in</html>', { 'content-type': 'text/html' }), GOOD)
  assert.equal(got.text, 'Hello world')
})

// ---- inside the stream ----

const IN_BAND: readonly (readonly [string, unknown, string])[] = [
  ['a server_error', { error: { message: 'boom', type: 'server_error', code: null } }, 'model_server_error'],
  ['an overloaded_error', { error: { message: 'busy', type: 'overloaded_error' } }, 'model_overloaded'],
  ['a rate limit', { error: { message: 'slow', code: 'rate_limit_exceeded' } }, 'model_rate_limited'],
  ['a numeric code', { error: { message: 'upstream', code: 502 } }, 'model_server_error'],
  ['a bare text', { error: 'model runner has unexpectedly stopped' }, 'model_server_error'],
  ['an object of type error', { object: 'error', message: 'x', type: 'InternalServerError' }, 'model_server_error'],
]

for (const [what, error, category] of IN_BAND) {
  test(`${what} inside the stream is ${category} and tried again, also when [DONE] follows`, async () => {
    const got = await play([head(), role, text('Hel'), frame(error), done, lastChunk], GOOD)
    assert.equal(got.text, 'Hello world')
    assert.equal(got.failed[0]?.fault.category, category)
  })
}

const FINAL_IN_BAND: readonly (readonly [string, unknown, string])[] = [
  ['a bad request', { error: { message: 'bad', type: 'invalid_request_error' } }, 'model_bad_request'],
  ['an overflow', { error: { message: 'long', code: 'context_length_exceeded' } }, 'model_context_overflow'],
  ['a spent quota', { error: { message: 'no', code: 'insufficient_quota' } }, 'model_quota_exhausted'],
]

for (const [what, error, category] of FINAL_IN_BAND) {
  test(`${what} inside the stream is ${category} and not asked for again`, async () => {
    const got = await play([head(), role, frame(error), lastChunk], GOOD)
    assert.equal(got.fault?.fault.category, category)
    assert.equal(got.requests, 1)
  })
}

test('a malformed line is a break, not a crash', async () => {
  const got = await play([head(), role, text('Hel'), raw('data: {"choices": [oops\n\n'), silence], GOOD)
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_interrupted')
})

test('comments, unknown fields, empty lines, CRLF and byte order marks are taken as the format says', async () => {
  const odd = raw(
    '\uFEFF: hello\r\n\r\nfoo: bar\r\nretry: 5\r\n\r\n\r\ndata:{"choices":[{"index":0,"delta":{"content":"Hello"}}]}\r\n\r\n',
  )
  const got = await play([head(), odd, finish('stop'), done, lastChunk])
  assert.equal(got.text, 'Hello')
})

test('an answer that comes one byte at a time is the same answer', async () => {
  const frames = [
    'data: {"choices":[{"index":0,"delta":{"content":"Grüß "}}]}\n\n',
    ': ping\n\n',
    'data: {"choices":[{"index":0,"delta":{"content":"dich 🥋"}}]}\r\n\r\n',
    'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
  ]
  const single: Act[] = [...Buffer.from(frames.join(''))].map(
    (byte) => (socket) =>
      void socket.write(Buffer.concat([Buffer.from('1\r\n'), Buffer.from([byte]), Buffer.from('\r\n')])),
  )
  const got = await play([head(), ...single, lastChunk])
  assert.equal(got.text, 'Grüß dich 🥋')
  assert.equal(got.requests, 1)
})

test('a content filter ends the answer and is not asked for again', async () => {
  const got = await play([head(), role, text('How to'), finish('content_filter'), done, lastChunk], GOOD)
  assert.equal(got.fault?.fault.category, 'model_content_filtered')
  assert.equal(got.requests, 1)
})

test("a provider's own abort message is not the user's cancel", async () => {
  const aborted = { error: { message: 'This operation was aborted', type: 'AbortError' } }
  const got = await play([head(), role, frame(aborted), lastChunk], GOOD)
  assert.equal(got.text, 'Hello world')
})

test('an answer cut by its length limit is given as it is, with that finish', async () => {
  const got = await play([head(), role, text('Once upon'), finish('length'), done, lastChunk])
  assert.equal(got.text, 'Once upon')
  assert.equal(got.done?.finish, 'length')
})

test('reasoning and text are told apart under all the names that servers use', async () => {
  const delta = (value: object): Act => frame({ choices: [{ index: 0, delta: value }] })
  const pieces = delta({
    content: [
      { type: 'thinking', thinking: [{ type: 'text', text: 'c' }] },
      { type: 'text', text: 'B' },
    ],
  })
  const got = await play([
    head(),
    delta({ reasoning_content: 'a' }),
    delta({ reasoning: 'b' }),
    delta({ content: 'A' }),
    pieces,
    finish('stop'),
    done,
    lastChunk,
  ])
  assert.equal(got.reasoning, 'abc')
  assert.equal(got.text, 'AB')
})
