/** The gateway as a server: routes, headers, limits, and clients that disconnect. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { once } from 'node:events'
import { brotliCompressSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { test } from 'node:test'
import { message } from '../../../test/kit/anthropic-frames.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { answer, finish, role, text } from '../../../test/kit/openai-frames.ts'
import { bytes, head, json, lastChunk, pause, reset, silence } from '../../../test/kit/plays.ts'
import { responded } from '../../../test/kit/responses-frames.ts'
import { type GatewayLogEntry, startGateway } from '../src/index.ts'
import { CHAT, post, QUICK, stand } from './client.ts'

// ---- routes ----

test('a chat stream and a message pass, with the ids of both sides and the client’s key', async (t) => {
  const chat = [head(200, { 'x-request-id': 'req_up' }), ...answer('Hello').slice(1)]
  const { model, gateway } = await stand(t, (request) => (request.path.includes('messages') ? message('Hi') : chat))
  assert.match(gateway.url, /^http:\/\/127\.0\.0\.1:\d+\/v1$/)
  const res = await post(`${gateway.url}/chat/completions?x=1`, CHAT, { headers: { authorization: 'Bearer mine' } })
  assert.equal(res.status, 200)
  assert.equal(res.headers.get('content-type'), 'text/event-stream; charset=utf-8')
  assert.equal(res.headers.get('x-request-id'), 'req_up')
  assert.match(res.headers.get('x-breakfall-request-id') ?? '', /^[0-9a-f-]{36}$/)
  assert.match(await res.text(), /Hello[\s\S]*\[DONE\]/)
  assert.equal(model.requests[0]?.path, '/v1/chat/completions?x=1')
  assert.equal(model.requests[0]?.headers['authorization'], 'Bearer mine')
  const msg = await post(`${gateway.url}/messages`, CHAT)
  assert.match(await msg.text(), /message_stop/)
})

test('everything else under /v1 is passed through, with method, query, body and headers', async (t) => {
  const { model, gateway } = await stand(t, [
    json(201, { ok: true }, { 'x-own': 'yes', 'content-type': 'application/problem+json' }),
  ])
  const res = await post(`${gateway.url}/responses?a=b`, { x: 1 }, { method: 'PUT', headers: { 'x-mine': '1' } })
  assert.equal(res.status, 201)
  assert.equal(res.headers.get('x-own'), 'yes')
  assert.equal(res.headers.get('content-type'), 'application/problem+json')
  assert.deepEqual(await res.json(), { ok: true })
  const [request] = model.requests
  assert.deepEqual(
    [request?.method, request?.path, request?.text, request?.headers['x-mine']],
    ['PUT', '/v1/responses?a=b', '{"x":1}', '1'],
  )
})

test('the error of a passed-through call says why Breakfall stopped', async (t) => {
  const logged: unknown[] = []
  const logger = {
    info: (_: object, text: string) => logged.push(text),
    warn: ({ status, attempts, category }: GatewayLogEntry, text: string) =>
      logged.push([text, status, attempts, category]),
  }
  const policy = { attemptsMax: 2, backoffMs: 1 }
  const gateway = await startGateway({ upstream: 'http://127.0.0.1:1/v1', policy, logger })
  t.after(() => gateway.close())
  const errorText = async (res: Response): Promise<string> =>
    ((await res.json()) as { error: { message: string } }).error.message
  const read = await fetch(`${gateway.url}/models`)
  assert.deepEqual([read.status, read.headers.get('x-should-retry')], [503, 'false'])
  const spent = await errorText(read)
  assert.match(spent, /refused\)\. Breakfall stopped after 2 attempts\./)
  assert.deepEqual(logged, [['failed', 503, 2, 'model_unreachable']])
  const { gateway: second } = await stand(t, [[reset]])
  const sent = await errorText(await post(`${second.url}/embeddings`, { x: 1 }))
  assert.match(sent, /Breakfall did not retry: the call may have had an effect already\./)
})

test('reads are retried; writes only if they cannot have had an effect', async (t) => {
  const { model, gateway } = await stand(t, [[reset], json(200, { data: [] })])
  assert.equal((await fetch(`${gateway.url}/models`)).status, 200)
  assert.equal(model.requests.length, 2)
  const writing = await stand(t, [[reset], json(200, {})])
  const res = await post(`${writing.gateway.url}/embeddings`, {})
  assert.equal(res.status, 502)
  assert.equal(((await res.json()) as { error: { code: string } }).error.code, 'model_stream_interrupted')
  assert.equal(writing.model.requests.length, 1)
})

test('a body that is not JSON is left for the upstream to refuse', async (t) => {
  const { gateway, model } = await stand(t, [json(400, { error: { message: 'own words' } })])
  const res = await post(`${gateway.url}/chat/completions`, '{oops')
  assert.equal(res.status, 400)
  assert.match(await res.text(), /own words/)
  assert.equal(model.requests[0]?.text, '{oops')
})

test('a base URL with a trailing slash or a second /v1 is healed like the right one', async (t) => {
  const { gateway, model } = await stand(t, (request, index) => {
    if (index % 2 === 0) return [reset]
    return request.path.includes('messages') ? message('Hi') : answer('Hi')
  })
  const { origin } = new URL(gateway.url)
  const paths = ['/v1//messages', '/v1/messages/', '/v1/v1/messages', '//v1/messages', '/v1/v1//chat/completions/?a=b']
  for (const path of paths) {
    const res = await post(origin + path, CHAT)
    assert.match(await res.text(), /message_stop|\[DONE\]/, path)
  }
  const asked = model.requests.filter((_, index) => index % 2 === 1).map(({ path }) => path)
  assert.deepEqual(asked, [...Array.from({ length: 4 }, () => '/v1/messages'), '/v1/chat/completions?a=b'])
})

test('a WebSocket upgrade on any path is 426 at once, in JSON, and never reaches the upstream', async (t) => {
  const { gateway, model } = await stand(t, [json(200, {})], { token: 'secret-token' })
  for (const path of ['/v1/responses', '/v1/realtime?model=x', '/', '/v2/anything', '/v1beta/models/x']) {
    const socket = connect(gateway.port, '127.0.0.1')
    socket.write(
      `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n`,
    )
    const pieces = (await socket.toArray()) as Buffer[]
    const said = Buffer.concat(pieces).toString()
    assert.match(said, /^HTTP\/1\.1 426 /, path)
    assert.match(said, /\r\nupgrade: HTTP\/1\.1\r\n/i)
    const body = JSON.parse(said.slice(said.indexOf('\r\n\r\n') + 4)) as { error: { message: string; code: unknown } }
    assert.match(body.error.message, /over HTTP/)
    if (path.startsWith('/v1beta')) assert.equal(body.error.code, 426)
  }
  assert.equal(model.requests.length, 0)
})

test('a path that servers read in different ways is 400 and never forwarded, on healed and other routes', async (t) => {
  const { gateway, model } = await stand(t, [json(200, {})])
  for (const path of [
    '/v1/../admin',
    '/v1/%2e%2e/admin',
    '/v1/x/../../v1evil',
    '/v1/..%2f..%2fadmin',
    '/v1/%ff/..%2f..%2fadmin',
    '/v1/models/%',
    '/v1/%252e%252e/admin',
    '/v1/..;/admin',
    '/v1/models;a=b',
    '/v1/models%3b/x',
    '/v1/..\\admin',
    '/v1/..%5cadmin',
    '/v1/models%00',
    '/v1/./models',
    '/v1beta/models/..%2f..%2fx:generateContent',
    '/v1beta/models/%ff:streamGenerateContent',
  ]) {
    const socket = connect(gateway.port, '127.0.0.1')
    const method = path.includes('Content') ? 'POST' : 'GET'
    socket.write(`${method} ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n`)
    const [data] = (await once(socket, 'data')) as [Buffer]
    socket.destroy()
    assert.match(data.toString(), /^HTTP\/1\.1 400 [^]*the path has a/, path)
  }
  assert.equal(model.requests.length, 0)
  await (await fetch(`${gateway.url}/models/org%2Fmodel-1:free?x=%2e%2e%ff`)).text()
  assert.equal(model.requests[0]?.path, '/v1/models/org%2Fmodel-1:free?x=%2e%2e%ff')
})

// ---- what failed ----

test('an unreachable upstream is 503 in the shape of either API', async (t) => {
  const { gateway, model } = await stand(t, [answer('x')])
  await model.close()
  const chat = await post(`${gateway.url}/chat/completions`, CHAT)
  assert.equal(chat.status, 503)
  assert.equal(((await chat.json()) as { error: { code: string } }).error.code, 'model_unreachable')
  const msg = await post(`${gateway.url}/messages`, CHAT)
  const body = (await msg.json()) as { type: string; error: { type: string } }
  assert.deepEqual([msg.status, body.type, body.error.type], [503, 'error', 'model_unreachable'])
})

// ---- several upstreams ----

test('when the first upstream has failed, the next is asked with its own key and model, and is asked first from then on', async (t) => {
  const spare = await startModelServer([answer('spare')])
  t.after(() => spare.close())
  const dead = await startModelServer([json(500, {})])
  t.after(() => dead.close())
  const gateway = await startGateway({
    upstream: [dead.url, { url: spare.url, model: 'spare-1', headers: { authorization: 'Bearer spare' } }],
    logger: false,
    policy: { backoffMs: 1, attemptsMax: 3 },
    limits: { closeMs: 50 },
  })
  t.after(() => gateway.close())
  assert.match(await (await post(`${gateway.url}/chat/completions`, CHAT)).text(), /spare/)
  assert.equal(dead.requests.length, 3)
  assert.equal(spare.requests[0]?.headers['authorization'], 'Bearer spare')
  assert.equal(spare.requests[0]?.body['model'], 'spare-1')
  assert.deepEqual(
    gateway.stats().upstreams.map(({ isHealthy }) => isHealthy),
    [false, true],
  )
  await (await post(`${gateway.url}/chat/completions`, CHAT)).text()
  assert.equal(dead.requests.length, 3, 'an unhealthy upstream is not asked while the other answers')
})

test('an upstream with a model of its own gets no other one from a request to a repaired route, however it is written', async (t) => {
  const model = await startModelServer(() => answer('ok'))
  t.after(() => model.close())
  const gateway = await startGateway({
    upstream: { url: model.url, model: 'mine' },
    logger: false,
    policy: QUICK,
    limits: { closeMs: 50 },
  })
  t.after(() => gateway.close())
  const messages = '"messages":[{"role":"user","content":"hi"}],"stream":true'
  const bodies = [
    `{"model":"mine","model":"other",${messages}}`,
    `{"model":"mine","mod\\u0065l":"other",${messages}}`,
    `\ufeff{"model":"other",${messages}}`,
    `{"model":"other",${messages}} {}`,
    `{"model":"other",${messages}}//`,
    `{"model":"other",${messages},}`,
    `{'model':'other',${messages}}`,
    `{"MODEL":"other",${messages}}`, // Go's JSON, which ollama reads, does not distinguish cases, and takes the last
    `{"Model":"other","model":"mine",${messages}}`,
    `{"model":"mine","\u017ftream":false,${messages}}`, // nor the long s
    `[{"model":"other",${messages}}]`,
    '',
  ]
  for (const body of bodies) {
    const { status } = await post(`${gateway.url}/chat/completions`, body)
    assert.equal(status, 400, body)
  }
  const packed = { headers: { 'content-encoding': 'x-own' } }
  assert.equal((await post(`${gateway.url}/chat/completions`, CHAT, packed)).status, 400)
  for (const path of [
    '/chat%2Fcompletions',
    '/Chat/Completions',
    '/chat//completions',
    'beta/models%2Fother:generateContent',
  ])
    assert.equal((await post(gateway.url + path, CHAT)).status, 400, path)
  assert.equal(model.requests.length, 0)
  await (await post(`${gateway.url}/chat/completions`, `{"model":{"model":"other"},${messages}}`)).text()
  assert.deepEqual(
    model.requests.map(({ body }) => body['model']),
    ['mine'],
  )
  for (const path of ['models/other', 'tunedModels/other'])
    await (await post(`${gateway.url}beta/${path}:streamGenerateContent`, { contents: [] })).text()
  assert.deepEqual(
    model.requests.slice(1).map(({ path }) => /v1beta\/(\w+\/[^:]+):/.exec(path)?.[1]),
    Array(model.requests.length - 1).fill('models/mine'),
  )
})

test('cookies stay apart, and a status that is none is the fault of the upstream, on every kind of route', async (t) => {
  const cookies = ['a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT', 'b=2']
  const fields = cookies.map((cookie) => `set-cookie: ${cookie}\r\n`).join('')
  const plays = (line: string) =>
    bytes(`HTTP/1.1 ${line}\r\n${fields}content-type: application/json\r\ncontent-length: 2\r\n\r\n{}`)
  const { gateway } = await stand(t, ({ rawHead }) => {
    const line = /x-line: (.*)\r/.exec(rawHead)?.[1] ?? ''
    if (line !== 'stream') return [plays(line)]
    const start = `HTTP/1.1 200 OK\r\n${fields}content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n`
    return [bytes(start), ...answer('hi').slice(1)]
  })
  for (const [path, body] of [
    ['/models', undefined],
    ['/embeddings', {}],
    ['/chat/completions', CHAT],
    ['/messages', { ...CHAT, stream: false }],
  ] as const) {
    const asked = async (line: string): Promise<Response> =>
      body === undefined
        ? fetch(gateway.url + path, { headers: { 'x-line': line } })
        : post(gateway.url + path, body, { headers: { 'x-line': line } })
    for (const line of ['042 Odd', '000', '101 Switching Protocols', '99 X', '199 X']) {
      const answered = await asked(line)
      assert.equal(answered.status, 502, `${path} ${line}`)
      assert.match(await answered.text(), /model_server_error/)
    }
    assert.deepEqual((await asked('418 Odd')).headers.getSetCookie(), cookies, path)
  }
  const healed = await post(`${gateway.url}/chat/completions`, CHAT, { headers: { 'x-line': 'stream' } })
  assert.match(await healed.text(), /\[DONE\]/)
  assert.deepEqual(healed.headers.getSetCookie(), cookies)
})

test('a body that the gateway cannot read goes to an upstream without a model of its own, as it is', async (t) => {
  const { model, gateway } = await stand(t, [() => answer('ok')])
  await (await post(`${gateway.url}/chat/completions`, '{"model":"a","Model":"b"}')).text()
  assert.equal(model.requests.length, 1)
})

const KEYS =
  'authorization x-api-key api-key x-goog-api-key cookie cf-aig-authorization helicone-auth x-portkey-api-key x-litellm-api-key x-auth-token ocp-apim-subscription-key x-amz-security-token'.split(
    ' ',
  )

for (const [where, method, path] of [
  ['a healed stream', 'POST', '/v1/chat/completions?key=SECRET&token=SECRET'],
  ['Gemini’s streams', 'POST', '/v1beta/models/m:streamGenerateContent?alt=sse&key=SECRET'],
  ['a passed-through read', 'GET', '/v1beta/models?key=SECRET&pageSize=5'],
  ['a passed-through call', 'POST', '/v1beta/models/m:countTokens?key=SECRET'],
] as const) {
  test(`no credential of the client goes to an upstream on another origin, unless passKey is set: ${where}`, async (t) => {
    const other = await startModelServer([answer('other')])
    t.after(() => other.close())
    const sent = { ...Object.fromEntries(KEYS.map((name) => [name, 'SECRET'])), 'anthropic-version': '2023-06-01' }
    const got = []
    for (const passKey of [undefined, true]) {
      const gateway = await startGateway({
        upstream: ['http://127.0.0.1:1/v1', { url: other.url.replace('127.0.0.1', 'localhost'), passKey }],
        logger: false,
        policy: { attemptsMax: 2, patienceMs: 0, backoffMs: 1 },
        limits: { closeMs: 50 },
      })
      t.after(() => gateway.close())
      const body = method === 'POST' ? { body: JSON.stringify(CHAT) } : {}
      await (await fetch(new URL(path, gateway.url), { method, headers: sent, ...body })).text()
      const { path: asked = '', headers = {} } = other.requests.at(-1) ?? {}
      assert.equal(headers['anthropic-version'], '2023-06-01')
      assert.match(asked, /countTokens|chat|alt=sse|pageSize=5/)
      got.push([asked.includes('SECRET'), KEYS.filter((name) => name in headers).length])
    }
    assert.deepEqual(got, [
      [false, 0],
      [true, KEYS.length],
    ])
  })
}

// ---- disconnects, slow clients, limits ----

test('a client that disconnects ends the upstream request at once', async (t) => {
  const { gateway, model } = await stand(t, [[head(), role, text('x'), silence]])
  const controller = new AbortController()
  const res = await post(`${gateway.url}/chat/completions`, CHAT, { signal: controller.signal })
  await res.body?.getReader().read()
  controller.abort()
  await model.untilAbandoned(1)
  assert.equal(model.requests.length, 1)
})

test('a client that closes its sending side counts as disconnected', async (t) => {
  const { gateway, model } = await stand(t, [[head(), role, text('x'), silence]])
  const body = JSON.stringify(CHAT)
  const socket = connect({ port: gateway.port, host: '127.0.0.1', allowHalfOpen: true })
  t.after(() => socket.destroy())
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  await once(socket, 'data')
  socket.end()
  await model.untilAbandoned(1)
  assert.equal(model.requests.length, 1)
})

test('a client that disconnects during a wait between attempts ends the wait', async (t) => {
  const { gateway, model } = await stand(t, [json(503, {}, { 'retry-after': '50' })])
  const controller = new AbortController()
  const asked = post(`${gateway.url}/chat/completions`, CHAT, { signal: controller.signal })
  const left = new Promise<void>((resolve) => {
    const stop = gateway.watch.subscribe((note) => {
      if (note?.kind === 'fault') controller.abort()
      if (gateway.stats().live.length === 0 && controller.signal.aborted) {
        stop()
        resolve()
      }
    })
  })
  await assert.rejects(asked)
  await left
  assert.equal(model.requests.length, 1)
})

test('a body over the limit is 413, and a request over the limit of requests gets a Retry-After', async (t) => {
  const { gateway, model } = await stand(t, [[head(), role, text('x'), silence]], {
    limits: { bodyBytesMax: 1_000, requestsMax: 1 },
  })
  const large = await post(`${gateway.url}/chat/completions`, { ...CHAT, pad: 'x'.repeat(2_000) })
  assert.equal(large.status, 413)
  assert.equal(((await large.json()) as { error: { code: string } }).error.code, 'payload_too_large')
  const first = await post(`${gateway.url}/chat/completions`, CHAT)
  const second = await post(`${gateway.url}/chat/completions`, CHAT)
  assert.equal(second.status, 429)
  assert.equal(second.headers.get('retry-after'), '1')
  assert.equal(second.headers.get('x-should-retry'), 'true')
  await first.body?.cancel()
  assert.equal(model.requests.length, 1)
})

test('when the bodies of all requests fill the memory, the next is 429 with a time, and small ones still pass', async (t) => {
  const { gateway, model } = await stand(t, [[head(), role, text('x'), silence]], {
    limits: { memoryBytesMax: 1_000_000 },
  })
  const url = `${gateway.url}/chat/completions`
  const large = { ...CHAT, pad: 'x'.repeat(400_000) }
  const [first, second] = [await post(url, large), await post(url, large)]
  for (const encoding of ['identity', 'gzip']) {
    const body = encoding === 'gzip' ? gzipSync(JSON.stringify(large)) : JSON.stringify(large)
    const headers = { 'content-type': 'application/json', 'content-encoding': encoding }
    const third = await fetch(url, { method: 'POST', headers, body })
    assert.deepEqual([third.status, third.headers.get('retry-after')], [429, '1'])
    assert.match(await third.text(), /the memory for all requests together/)
  }
  const small = await post(url, CHAT)
  assert.equal(small.status, 200)
  for (const res of [first, second, small]) await res.body?.cancel()
  await model.untilAbandoned(3)
  const again = await post(url, large)
  assert.equal(again.status, 200)
  await again.body?.cancel()
})

test('a body of millions of values is forwarded as it is; too many tools are 413, with the reason', async (t) => {
  const { gateway, model } = await stand(t, [json(400, { error: { message: 'own words' } })])
  const many = `{"model":"m","stream":true,"a":[${'{},'.repeat(1_000_000)}{}],"b":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
  const passed = await post(`${gateway.url}/chat/completions`, many)
  assert.match(await passed.text(), /own words/)
  assert.equal(model.requests[0]?.text.length, many.length)
  const tools = await post(`${gateway.url}/chat/completions`, `{"tools":[${'{},'.repeat(100_000)}{}]}`)
  assert.equal(tools.status, 413)
  assert.match(await tools.text(), /the field \\"tools\\" at most/)
  assert.equal(model.requests.length, 1)
})

test('an upload that stops is refused after a while', async (t) => {
  const { gateway, model } = await stand(t, [answer('x')], { limits: { bodySilenceMs: 40 } })
  const socket = connect(gateway.port, '127.0.0.1')
  socket.write(
    'POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 60000000\r\nconnection: close\r\n\r\n{"mo',
  )
  assert.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 400 [^]*did not arrive within 0\.04 s/)
  socket.destroy()
  assert.equal(model.requests.length, 0)
})

test('a body in chunks of one byte, with a trailer and an expectation, is healed like any other', async (t) => {
  const { gateway, model } = await stand(t, [[reset], answer('Hello')])
  const body = JSON.stringify(CHAT)
  const chunks = Array.from(body, (byte) => `1\r\n${byte}\r\n`).join('')
  const socket = connect(gateway.port, '127.0.0.1')
  socket.write(
    'POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n',
  )
  socket.write(`trailer: authorization\r\nconnection: close\r\n\r\n${chunks}0\r\nauthorization: Bearer trailer\r\n\r\n`)
  assert.match(Buffer.concat((await socket.toArray()) as Buffer[]).toString(), /Hello[^]*\[DONE\]/)
  assert.equal(model.requests.length, 2)
  const { text: got, headers } = model.requests[1] ?? {}
  assert.deepEqual(
    [got, headers?.['authorization'], headers?.['trailer'], headers?.['expect']],
    [body, undefined, undefined, undefined],
  )
})

// ---- who may call ----

test('a foreign Host or Origin is refused, and so is a request without the token if one is set', async (t) => {
  const { gateway } = await stand(t, [answer('x')], { token: 'secret-token' })
  const url = `${gateway.url}/chat/completions`
  assert.equal((await post(url, CHAT)).status, 401)
  assert.equal((await post(url, CHAT, { headers: { 'x-breakfall-token': 'secret-token' } })).status, 200)
  assert.equal((await post(url, CHAT, { headers: { origin: 'http://evil.example' } })).status, 403)
  const socket = connect(gateway.port, '127.0.0.1')
  socket.write('GET /v1/models HTTP/1.1\r\nhost: rebound.example\r\n\r\n')
  const [data] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  assert.match(data.toString(), /^HTTP\/1\.1 403/)
})

test('what another site’s page sends is refused also without an Origin, and so are methods that no model API has', async (t) => {
  const { gateway, model } = await stand(t, [json(200, {})])
  const asked = async (method: string, headers: string): Promise<string> => {
    const socket = connect(gateway.port, '127.0.0.1')
    socket.write(`${method} /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n${headers}\r\n`)
    return Buffer.concat((await socket.toArray()) as Buffer[]).toString()
  }
  for (const site of ['cross-site', 'same-site', 'cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: document'])
    assert.match(await asked('GET', `sec-fetch-site: ${site}\r\n`), /^HTTP\/1\.1 403 /)
  for (const method of ['TRACE', 'PURGE', 'CONNECT', 'PROPFIND'])
    assert.match(await asked(method, ''), /^HTTP\/1\.1 405 [^]*"code":"method_not_allowed"/)
  assert.equal(model.requests.length, 0)
  assert.match(await asked('GET', 'sec-fetch-site: none\r\n'), /^HTTP\/1\.1 200 /)
})

test('the token does not reach the upstream', async (t) => {
  const { gateway, model } = await stand(t, [answer('x')], { token: 'secret-token' })
  await post(`${gateway.url}/chat/completions`, CHAT, { headers: { 'x-breakfall-token': 'secret-token' } })
  assert.equal(JSON.stringify(model.requests[0]?.headers).includes('secret-token'), false)
})

test('bad options are named', async () => {
  await assert.rejects(startGateway({ upstream: 'nonsense' }), /upstream/)
  await assert.rejects(startGateway({ upstream: [] }), /upstream/)
  await assert.rejects(startGateway({ upstream: 'http://x/v1', host: '0.0.0.0' }), /token/)
  await assert.rejects(startGateway({ upstream: 'http://x/v1', hold: 'all' as 'none' }), /hold/)
  await assert.rejects(startGateway({ upstream: 'http://x/v1', profile: 'unknown' as 'openai' }), /profile/)
})

// ---- closing, odd headers, compressed bodies ----

test('closing lets running answers finish, refuses new requests, and is bounded', async (t) => {
  const { gateway, model } = await stand(
    t,
    [[head(), role, text('Hel'), pause(80), text('lo'), finish('stop'), lastChunk]],
    {
      limits: { closeMs: 5_000 },
    },
  )
  const res = await post(`${gateway.url}/chat/completions`, CHAT)
  const closed = gateway.close()
  assert.match(await res.text(), /lo[\s\S]*\[DONE\]/)
  await closed
  await assert.rejects(post(`${gateway.url}/chat/completions`, CHAT))
  assert.equal(model.requests.length, 1)
})

test('a stream that is still running when the time to close is up is cut off, with the reason before it', async (t) => {
  const { gateway, model } = await stand(t, [[head(), role, text('Hel'), silence]], { limits: { closeMs: 30 } })
  const res = await post(`${gateway.url}/chat/completions`, CHAT)
  const closed = gateway.close()
  let body = ''
  const decoder = new TextDecoder()
  await assert.rejects(async () => {
    for await (const piece of res.body ?? []) body += decoder.decode(piece, { stream: true })
  })
  await closed
  assert.match(body, /: breakfall ended shutting_down: [^\n]+\n\n$/)
  await model.untilAbandoned(1)
})

test('headers that Node cannot send are dropped', async (t) => {
  const odd = bytes(
    'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-odd: caf\u00e9\r\ntransfer-encoding: chunked\r\n\r\n',
  )
  const { gateway } = await stand(t, [[odd, ...answer('Hello').slice(1)]])
  const res = await post(`${gateway.url}/chat/completions`, CHAT)
  assert.match(await res.text(), /Hello/)
})

for (const [encoding, compress] of [
  ['gzip', gzipSync],
  ['zstd', zstdCompressSync],
  ['br', brotliCompressSync],
] as const) {
  test(`a ${encoding} request body is healed, and reaches the upstream as plain JSON`, async (t) => {
    const { gateway, model } = await stand(t, [[reset], responded('Hello')])
    const body = compress(JSON.stringify({ model: 'm', input: 'hi', stream: true }))
    const res = await fetch(`${gateway.url}/responses`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-encoding': encoding },
      body: new Uint8Array(body),
    })
    assert.match(await res.text(), /"delta":"Hello"/)
    assert.deepEqual(
      model.requests.map(({ body: sent, headers }) => [sent.input, headers['content-encoding']]),
      [
        ['hi', undefined],
        ['hi', undefined],
      ],
    )
  })
}

test('a compressed body that cannot be read is left for the upstream to refuse', async (t) => {
  const { gateway, model } = await stand(t, [json(400, { error: { message: 'own words' } })])
  const headers = { 'content-encoding': 'zstd' }
  const res = await post(`${gateway.url}/responses`, '{"stream":true}', { headers })
  assert.equal(res.status, 400)
  assert.equal(model.requests[0]?.headers['content-encoding'], 'zstd')
})
