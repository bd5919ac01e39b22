/** The listening line, what the gateway passes through, what it refuses, and which headers it forwards. */
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { shared } from '../shared.ts'
import { text, answerFrames } from '../../test/kit/openai-frames.ts'
import { bytes, cut, fin, head, json, reset, silence, stream } from '../../test/kit/plays.ts'
import { assembledChat } from './assembled.ts'
import { chatBody, Gateway, KEY, Rig } from './rig.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const rig = await shared(Rig.start('--attempts-max', '3'))

describe('the listening line', LIMIT, () => {
  test('contains the address, with /v1, on loopback', () => {
    assert.equal(rig.gateway.listening.event, 'listening')
    assert.match(rig.gateway.url, /^http:\/\/127\.0\.0\.1:\d+\/v1$/)
  })
  for (const args of [
    [],
    ['--upstream', 'no url'],
    ['--upstream', 'ftp://x/v1'],
    ['--upstream', 'http://127.0.0.1:1/v1', '--hold', 'all'],
  ])
    test(`is not printed for ${JSON.stringify(args)}: a usage error with exit code 2`, async () => {
      const { code, json, stderr } = await rig.gateway.place.run(['gateway', '--port', '0', '--json', ...args])
      assert.equal(code, 2, stderr)
      assert.equal(
        json.some((line) => line['event'] === 'listening'),
        false,
      )
      assert.notEqual(stderr, '')
    })
  test('requires a token for any other address', async () => {
    const { code, stderr } = await rig.gateway.place.run([
      'gateway',
      '--upstream',
      rig.upstream.url,
      '--host',
      '0.0.0.0',
      '--port',
      '0',
      '--json',
    ])
    assert.equal(code, 2)
    assert.match(stderr, /--token-file/)
  })
})

describe('everything else under /v1 passes through', { ...LIMIT, concurrency: true }, () => {
  test('GET with path, query, status and headers unchanged', async () => {
    const name = rig.upstream.plays(
      json(203, { data: ['x'] }, { 'x-request-id': 'up-1', 'x-odd': 'kept', etag: '"a"' }),
    )
    const reply = await rig.gateway.ask(`/v1/models/${name}?limit=2&a=%2F%20`)
    assert.equal(reply.status, 203)
    assert.deepEqual(reply.json, { data: ['x'] })
    assert.equal(reply.headers['x-odd'], 'kept')
    assert.equal(reply.headers.etag, '"a"')
    assert.equal(reply.headers['x-request-id'], 'up-1')
    assert.ok(reply.headers['x-breakfall-request-id'])
    assert.equal(rig.upstream.received(name)[0]?.path, `/v1/models/${name}?limit=2&a=%2F%20`)
  })
  test('binary bodies, both ways, byte for byte', async () => {
    const odd = Buffer.from(Array.from({ length: 256 }, (_, value) => value))
    const name = rig.upstream.plays(
      bytes(`HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: 256\r\n\r\n`, odd),
    )
    const socket = await rig.gateway.socket()
    socket.write(
      `POST /v1/audio/${name} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/octet-stream\r\ncontent-length: 256\r\n\r\n`,
    )
    socket.write(odd)
    const pieces: Buffer[] = []
    for await (const piece of socket) pieces.push(piece as Buffer)
    const whole = Buffer.concat(pieces)
    assert.deepEqual(whole.subarray(whole.indexOf('\r\n\r\n') + 4), odd)
    assert.deepEqual(rig.upstream.received(name)[0]?.bytes, odd)
  })
  test('DELETE, an empty 204, a 404 of the upstream', async () => {
    const gone = rig.upstream.plays(bytes('HTTP/1.1 204 No Content\r\n\r\n'))
    const deleted = await rig.gateway.ask(`/v1/files/${gone}`, { method: 'DELETE' })
    assert.equal(deleted.status, 204)
    assert.equal(rig.upstream.received(gone)[0]?.method, 'DELETE')
    const none = rig.upstream.plays(json(404, { error: { message: 'no such file' } }))
    const missing = await rig.gateway.ask(`/v1/files/${none}`)
    assert.equal(missing.status, 404)
    assert.deepEqual(missing.json, { error: { message: 'no such file' } })
  })
  test('a stream on another path is forwarded as it arrives', async () => {
    const first = 'event: response.created\ndata: {"type":"response.created"}\n\n'
    const last = 'event: response.completed\ndata: {"type":"response.completed"}\n\n'
    let release = (): void => undefined
    const seen = new Promise<void>((resolve) => (release = resolve))
    const name = rig.upstream.plays([head(), [first], () => seen, [last], bytes('0\r\n\r\n')])
    const response = await rig.gateway.open('/v1/images/generations', {
      body: { model: name, stream: true, input: 'go' },
    })
    let got = ''
    for await (const piece of response) {
      got += String(piece)
      if (got === first) release()
    }
    assert.equal(got, first + last)
    assert.match(String(response.headers['content-type']), /^text\/event-stream/)
  })
  test('a cut pass-through is cut for the client too, never ended cleanly', async () => {
    const name = rig.upstream.plays(cut('event: response.created\ndata: {}\n\n'))
    const reply = await rig.gateway.ask('/v1/images/generations', { body: { model: name, stream: true } })
    assert.equal(reply.whole && !reply.text.includes('error'), false, reply.text)
  })
  test('an upstream redirect is left to the client, and the key goes nowhere else', async () => {
    const name = rig.upstream.plays(json(307, '', { location: 'http://127.0.0.1:9/elsewhere' }))
    const reply = await rig.gateway.ask(`/v1/files/${name}`)
    assert.equal(reply.status, 307)
    assert.equal(reply.headers.location, 'http://127.0.0.1:9/elsewhere')
  })
})

describe('a path that no provider has', { ...LIMIT, concurrency: true }, () => {
  for (const path of [
    '/',
    '/v2/models',
    '/v10/models',
    '/V1/models',
    '/v1evil/models',
    '/api',
    '/api/v2/chat',
    '/models/../admin',
    '/backend-api/me',
    '/v1/../admin',
    '/v1/%2e%2e/admin',
    '/v1/..%2fadmin',
    '//evil/v1/models',
    '/v1/.%2E/x',
    '/v1\\..\\admin',
  ])
    test(`${path} is a 404 that never reaches the upstream`, async () => {
      const name = rig.upstream.plays(json(200, { reached: true }))
      const reply = await rig.gateway.ask(`${path}?${name}`)
      assert.ok(reply.status === 404 || reply.status === 400, `${reply.status} ${reply.text}`)
      assert.ok(reply.headers['x-breakfall-request-id'] ?? reply.headers['x-request-id'])
      assert.equal(rig.upstream.received(name).length, 0)
    })
  test('an absolute-form target on another host is not forwarded', async () => {
    const other = createServer(() => assert.fail('somebody connected'))
    other.listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as { port: number }
    const said = await rig.gateway.raw(
      `GET http://127.0.0.1:${port}/v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n`,
    )
    assert.match(said, /^HTTP\/1\.1 (400|403|404|418|421)/)
    other.close()
  })
})

describe('headers', { ...LIMIT, concurrency: true }, () => {
  test("the key and the API's own headers reach the upstream; hop-by-hop ones and our token do not", async () => {
    const name = rig.upstream.plays(stream(...answerFrames('hi')))
    await rig.gateway.chat(
      name,
      {},
      {
        'openai-organization': 'org-1',
        'x-stainless-lang': 'js',
        'user-agent': 'agent/1',
        'x-breakfall-token': 'ours',
        te: 'trailers',
        'proxy-authorization': 'Basic x',
        'keep-alive': 'timeout=5',
      },
    )
    const { headers } = rig.upstream.received(name)[0] ?? assert.fail()
    assert.equal(headers['authorization'], `Bearer ${KEY}`)
    assert.equal(headers['openai-organization'], 'org-1')
    assert.equal(headers['x-stainless-lang'], 'js')
    assert.equal(headers['user-agent'], 'agent/1')
    assert.equal(headers['host'], `127.0.0.1:${rig.upstream.port}`)
    for (const name of ['x-breakfall-token', 'te', 'proxy-authorization', 'keep-alive'])
      assert.equal(headers[name], undefined, name)
  })
  test('the body reaches the upstream byte for byte', async () => {
    const name = rig.upstream.plays(stream(...answerFrames('hi')))
    const body = `{ "model":"${name}",  "stream" : true, "seed": 12345678901234567890, "messages":[{"role":"user","content":"\\u00e4 ü 😀"}] }`
    await rig.gateway.ask('/v1/chat/completions', { body })
    assert.equal(rig.upstream.received(name)[0]?.text, body)
  })
  test("a rate limit's headers arrive with a good answer", async () => {
    const name = rig.upstream.plays([
      head(200, { 'x-request-id': 'up-7', 'x-ratelimit-remaining-tokens': '9', 'openai-processing-ms': '4' }),
      [...answerFrames('hi')],
      bytes('0\r\n\r\n'),
    ])
    const reply = await rig.gateway.chat(name)
    assert.equal(reply.headers['x-request-id'], 'up-7')
    assert.equal(reply.headers['x-ratelimit-remaining-tokens'], '9')
    assert.match(String(reply.headers['x-breakfall-request-id']), /^[0-9a-f-]{36}$/)
    assert.match(String(reply.headers['content-type']), /^text\/event-stream/)
  })
})

describe('no attempts left before content', { ...LIMIT, concurrency: true }, () => {
  for (const code of [408, 409, 429, 500, 502, 503, 504, 529])
    test(`${code}: the upstream's own status and body, and no retries by the SDK`, async () => {
      const body = { error: { message: 'own words', type: 'x', code: 'y' } }
      const play = json(code, body, { 'x-request-id': 'up-9' })
      const reply = await rig.chat([play, play, play])
      assert.equal(reply.tries, 3)
      assert.equal(reply.status, code)
      assert.deepEqual(reply.json, body)
      assert.equal(reply.headers['x-should-retry'], 'false')
      assert.match(String(reply.headers['x-breakfall-category']), /^model_[a-z_]+$/)
      assert.equal(reply.headers['x-request-id'], 'up-9')
    })
  for (const code of [400, 401, 403, 404, 413, 422])
    test(`a genuine ${code} is requested once and forwarded unchanged`, async () => {
      const reply = await rig.chat([
        json(code, 'plain <text>', { 'content-type': 'text/plain; charset=x' }),
        stream(...answerFrames('never')),
      ])
      assert.equal(reply.tries, 1)
      assert.equal(reply.status, code)
      assert.equal(reply.text, 'plain <text>')
      assert.equal(reply.headers['content-type'], 'text/plain; charset=x')
    })
  const silent = { 'a reset': reset, 'a bare end': fin, 'bytes that are not HTTP': [bytes('garbage\r\n\r\n'), fin] }
  for (const [what, play] of Object.entries(silent))
    test(`${what} every time is a 502 in OpenAI's error JSON`, async () => {
      const reply = await rig.chat([play, play, play])
      assert.equal(reply.tries, 3)
      assert.equal(reply.status, 502, reply.text)
      assert.equal(typeof reply.json.error.message, 'string')
      assert.equal(reply.json.error.code, reply.headers['x-breakfall-category'])
      assert.equal(reply.headers['x-should-retry'], 'false')
    })
  test('a head that does not arrive in time is a 504', async () => {
    await using slow = await Gateway.start(rig.upstream, '--attempts-max', '2', '--headers-ms', '150')
    const name = rig.upstream.plays(silence, silence)
    const reply = await slow.chat(name)
    assert.equal(reply.status, 504, reply.text)
    assert.equal(rig.upstream.received(name).length, 2)
  })
})

describe('retry-after', { ...LIMIT, concurrency: true }, () => {
  test('is respected in seconds and in milliseconds', async () => {
    for (const [header, value, least] of [
      ['retry-after', '1', 950],
      ['retry-after-ms', '300', 290],
    ] as const) {
      const started = performance.now()
      const reply = await rig.chat([json(429, {}, { [header]: value }), stream(...answerFrames('hi'))])
      assert.equal(assembledChat(reply.frames).content, 'hi')
      assert.ok(performance.now() - started >= least, `${header}: ${performance.now() - started} ms`)
    }
  })
  test('longer than a minute is forwarded immediately', async () => {
    for (const value of ['3600', new Date(Date.now() + 3_600_000).toUTCString()]) {
      const play = json(429, { error: { message: 'later' } }, { 'retry-after': value })
      const reply = await rig.chat([play, play, play])
      assert.equal(reply.status, 429)
      assert.equal(reply.headers['retry-after'], value)
      assert.equal(reply.tries, 1, value)
    }
  })
  for (const absurd of ['-5', 'soon', 'NaN', '1e400', '', new Date(0).toUTCString()])
    test(`${JSON.stringify(absurd)} neither hangs nor crashes`, async () => {
      const reply = await rig.chat([json(429, {}, { 'retry-after': absurd }), stream(...answerFrames('hi'))])
      assert.equal(assembledChat(reply.frames).content, 'hi', reply.text)
    })
})

describe('bodies', LIMIT, () => {
  test('up to 64 MiB pass, and more is 413 without reading the rest', async () => {
    const name = rig.upstream.plays(stream(...answerFrames('hi')))
    const pad = 'x'.repeat(64 * 1024 * 1024 - 200)
    const fits = await rig.gateway.chat(name, { pad })
    assert.equal(assembledChat(fits.frames).content, 'hi', fits.text.slice(0, 300))
    const over = await rig.gateway.raw(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${64 * 1024 * 1024 + 1}\r\n\r\n{`,
    )
    assert.match(over, /^HTTP\/1\.1 413/)
    assert.match(over, /67108864|64 MiB/)
  })
  test('100-continue is answered', async () => {
    const name = rig.upstream.plays(stream(...answerFrames('hi')))
    const body = JSON.stringify(chatBody(name))
    const socket = await rig.gateway.socket()
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nexpect: 100-continue\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`,
    )
    const [first] = (await once(socket, 'data')) as [Buffer]
    assert.match(first.toString(), /^HTTP\/1\.1 100 /)
    socket.write(body)
    let rest = ''
    for await (const piece of socket) rest += String(piece)
    assert.ok(rest.includes(text('hi').trim()), rest)
  })
})

describe('secrets', LIMIT, () => {
  test('the log contains no key, prompt or token', async () => {
    const play = json(500, { error: { message: `bad key ${KEY}` } })
    const name = rig.upstream.plays(play, play, play)
    await rig.gateway.chat(
      name,
      { messages: [{ role: 'user', content: 'my-secret-prompt' }] },
      { 'x-api-key': KEY, cookie: 'session=abcdef123456' },
    )
    await rig.gateway.ask(`/v1/models/${name}?api_key=${KEY}`)
    assert.match(rig.gateway.stderr, /model_server_error/)
    assert.equal(rig.gateway.stderr.includes(KEY), false)
    assert.equal(rig.gateway.stderr.includes('my-secret-prompt'), false)
    assert.equal(rig.gateway.stderr.includes('abcdef123456'), false)
  })
})
