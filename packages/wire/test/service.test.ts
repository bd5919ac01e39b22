import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { Fault } from '@breakfall/faults'
import { z } from 'zod'
import { body, integer } from '../src/fields.ts'
import type { HttpServerLimits } from '../src/node/http-server.ts'
import { bearerToken, bodyChunks, createService, readJson, type Route, SseResponse } from '../src/node/index.ts'

const thing = body({ count: integer(1, 10), note: z.string().optional() })

const routes: Route[] = [
  {
    method: 'get',
    path: '/open',
    operationId: 'open',
    summary: '',
    answers: { 200: null },
    open: true,
    handle: () => ({ status: 200, json: { ok: true } }),
  },
  {
    method: 'post',
    path: '/things/{id}',
    operationId: 'thing',
    summary: '',
    body: thing,
    answers: { 201: thing },
    handle: async (call) => ({
      status: 201,
      json: { id: call.params['id'], ...(await readJson(call, thing, 1000)) },
    }),
  },
  {
    method: 'get',
    path: '/files/{path+}',
    operationId: 'file',
    summary: '',
    answers: { 200: null },
    handle: (call) => ({ status: 200, json: call.params }),
  },
  {
    method: 'get',
    path: '/boom',
    operationId: 'boom',
    summary: '',
    answers: { 200: null },
    handle: () => {
      throw new Error('a bug with Bearer sk-secretsecretsecret')
    },
  },
  {
    method: 'get',
    path: '/away/{ms}',
    operationId: 'away',
    summary: '',
    answers: { 200: null },
    handle: ({ params }) => {
      const ms = Number(params['ms'])
      throw new Fault('journal_unreachable', ms === 0 ? {} : { retryAfterMs: ms })
    },
  },
  {
    method: 'get',
    path: '/stream',
    operationId: 'stream',
    summary: '',
    query: { after: '' },
    answers: { 200: 'text/event-stream' },
    handle: (call) => {
      const sse = new SseResponse(call.res)
      sse.send({ id: '1', event: 'a', data: '{"x":1}' })
      sse.end()
      return undefined
    },
  },
]

const service = createService({
  routes,
  boundary: 'daemon',
  headers: { 'x-service': 'this one' },
  authorize: (req) => {
    onAuthorize()
    if (bearerToken(req) !== 'right') throw new Fault('unauthorized')
  },
  onFault: (fault) => onFault(fault.category),
})
let onFault: (category: string) => void = () => {}
let onAuthorize: () => void = () => {}
let url = ''
before(async () => {
  ;({ url } = await service.listen(0))
})
after(() => service.close({ graceMs: 100 }))

const call = (path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(url + path, {
    ...init,
    headers: { authorization: 'Bearer right', ...(init.headers as Record<string, string>) },
  })

async function problem(response: Response): Promise<Record<string, unknown>> {
  assert.equal(response.headers.get('content-type'), 'application/problem+json')
  const json = (await response.json()) as Record<string, unknown>
  assert.equal(json['requestId'], response.headers.get('x-request-id'))
  assert.equal(json['status'], response.status)
  return json
}

test('a server that binds every address is called at loopback: a wildcard is no name of a host', async () => {
  const everywhere = createService({ routes, boundary: 'daemon', authorize: () => undefined })
  const bound = await everywhere.listen(0, '0.0.0.0')
  try {
    assert.equal(bound.url, `http://0.0.0.0:${bound.port}`)
    assert.equal(bound.localUrl, `http://127.0.0.1:${bound.port}`)
    assert.equal((await fetch(`${bound.localUrl}/open`)).status, 200)
  } finally {
    await everywhere.close({ graceMs: 0 })
  }
})

test('every 503 says when to ask again', async () => {
  const after = async (path: string) => {
    const { status, headers } = await call(path)
    return [status, headers.get('retry-after')]
  }
  assert.deepEqual(await after('/away/0'), [503, '1'])
  assert.deepEqual(await after('/away/4500'), [503, '5'])
  assert.deepEqual(await after('/nowhere'), [404, null])
})

test('an open route needs no token, any other answers 401 without saying whether it exists', async () => {
  assert.equal((await fetch(url + '/open')).status, 200)
  for (const path of ['/things/1', '/nowhere', '/files/%zz', '/things/%zz']) {
    const response = await fetch(url + path)
    assert.equal(response.status, 401)
    const json = await problem(response)
    assert.equal(json['category'], 'unauthorized')
    assert.ok(!JSON.stringify(json).includes('nowhere'))
  }
})

test('an unknown path is 404, a wrong method 405 that names the right ones, an unknown query parameter 400', async () => {
  assert.equal((await problem(await call('/nowhere')))['category'], 'not_found')
  const wrong = await call('/things/1', { method: 'DELETE' })
  assert.equal(wrong.headers.get('allow'), 'POST')
  assert.equal((await problem(wrong))['category'], 'method_not_allowed')
  const query = await problem(await call('/stream?afterr=3'))
  assert.deepEqual(query['errors'], [{ field: 'afterr', expected: 'no query parameter of that name', got: '3' }])
  const twice = await problem(await call('/stream?after=3&after=4'))
  assert.deepEqual(twice['errors'], [{ field: 'after', expected: 'one value', got: '3, 4' }])
})

test('a bad field is a 400 that names the field, what was expected and what came', async () => {
  const post = (json: unknown): Promise<Response> =>
    call('/things/1', { method: 'POST', body: JSON.stringify(json), headers: { 'content-type': 'application/json' } })
  assert.equal((await post({ count: 3 })).status, 201)
  const bad = await problem(await post({ count: -1, extra: true }))
  assert.equal(bad['category'], 'invalid_request')
  assert.deepEqual(bad['errors'], [
    { field: 'count', expected: 'an integer from 1 to 10', got: '-1' },
    { field: 'extra', expected: 'no field of that name', got: 'true' },
  ])
  const lost = await call('/things/1', {
    method: 'POST',
    body: '{"count":3,"__proto__":{"a":1}}',
    headers: { 'content-type': 'application/json' },
  })
  assert.deepEqual((await problem(lost))['errors'], [
    { field: '__proto__', expected: 'no field of that name', got: '{"a":1}' },
  ])
  assert.deepEqual((await problem(await post({})))['errors'], [
    { field: 'count', expected: 'given: an integer from 1 to 10', got: 'nothing' },
  ])
})

test('malformed JSON is 400, another content type 415, a large body 413 with the limit', async () => {
  const json = { 'content-type': 'application/json' }
  assert.equal((await call('/things/1', { method: 'POST', body: '{"count":', headers: json })).status, 400)
  assert.equal(
    (await call('/things/1', { method: 'POST', body: '{}', headers: { 'content-type': 'text/plain' } })).status,
    415,
  )
  const large = await problem(await call('/things/1', { method: 'POST', body: ' '.repeat(2000), headers: json }))
  assert.equal(large['category'], 'payload_too_large')
  assert.match(String(large['error']), /1000 bytes/)
})

test('an unexpected error is a 500 of category other, redacted', async () => {
  const json = await problem(await call('/boom'))
  assert.equal(json['category'], 'other')
  assert.ok(!JSON.stringify(json).includes('secretsecret'))
})

/** Sends a raw request and returns the whole response. */
async function raw(head: string, target = '/open', method = 'GET'): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.end(`${method} ${target} HTTP/1.1\r\n${head}\r\nConnection: close\r\n\r\n`)
  let text = ''
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
  await once(socket, 'close')
  return text
}

test('a foreign Host or Origin is refused before the token is checked', async () => {
  const { port } = new URL(url)
  assert.match(await raw(`Host: evil.example:${port}`), /^HTTP\/1.1 403 /)
  assert.match(await raw(`Host: 127.0.0.1:${port}\r\nOrigin: http://evil.example`), /^HTTP\/1.1 403 /)
  assert.match(await raw(`Host: 127.0.0.1:${port}\r\nOrigin: http://127.0.0.1:${port}`), /^HTTP\/1.1 200 /)
  assert.match(await raw('Host: localhost'), /^HTTP\/1.1 200 /)
  assert.match(await raw('Host: localhost', `http://localhost:${port}/open`), /^HTTP\/1.1 200 /)
  assert.match(await raw('Host: localhost', 'http://evil.example/open'), /^HTTP\/1.1 403 /)
})

test('what another site’s page sends is refused also where browsers name no Origin; a link and a program are not', async () => {
  const from = (site: string, more = ''): Promise<string> => raw(`Host: localhost\r\nSec-Fetch-Site: ${site}${more}`)
  for (const site of ['cross-site', 'same-site', 'nonsense']) assert.match(await from(site), /^HTTP\/1.1 403 /)
  for (const site of ['none', 'same-origin']) assert.match(await from(site), /^HTTP\/1.1 200 /)
  const link = '\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: '
  assert.match(await from('cross-site', `${link}document`), /^HTTP\/1.1 200 /)
  assert.match(await from('cross-site', `${link}iframe`), /^HTTP\/1.1 403 /)
  assert.match(await from('cross-site', `${link}document\r\nOrigin: http://evil.example`), /^HTTP\/1.1 403 /)
  const posted = await raw(`Host: localhost\r\nSec-Fetch-Site: cross-site${link}document`, '/open', 'POST')
  assert.match(posted, /^HTTP\/1.1 403 /)
})

test('a method that no service has is 405 before anything else, with the methods there are', async () => {
  for (const method of ['TRACE', 'CONNECT', 'PURGE', 'PROPFIND', 'QUERY']) {
    const text = await raw('Host: evil.example', '/open', method)
    assert.match(text, /^HTTP\/1.1 405 [^]*x-request-id: /, method)
    assert.match(text, /"category":"method_not_allowed"/)
    assert.match(text, /^x-service: this one\r$/m)
  }
  assert.match(
    await raw('Host: localhost', '/open', 'TRACE'),
    /^allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r$/m,
  )
})

test('a missing or second Host and an odd Expect get normal responses: with an id, refusals as problem documents', async () => {
  for (const head of ['X: none', 'Host: localhost\r\nHost: evil.example']) {
    const text = await raw(head)
    assert.match(text, /^HTTP\/1.1 403 [^]*x-request-id: /)
    assert.match(text, /"category":"forbidden"/)
  }
  assert.match(await raw('Host: localhost\r\nExpect: the unexpected'), /^HTTP\/1.1 200 [^]*x-request-id: /)
})

test('input that is not HTTP gets a problem document with the headers of every answer, and the service keeps running', async () => {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.write('\x16\x03\x01 nonsense\r\n\r\n')
  const [chunk] = (await once(socket, 'data')) as [Buffer]
  assert.match(chunk.toString(), /^HTTP\/1.1 400 /)
  assert.match(chunk.toString(), /invalid_request/)
  assert.match(chunk.toString(), /^x-service: this one\r$/m)
  socket.destroy()
  const { status, headers } = await fetch(url + '/open')
  assert.deepEqual([status, headers.get('x-service')], [200, 'this one'])
})

test('the rest of a path is one parameter, decoded; a broken escape is 400', async () => {
  assert.deepEqual(await (await call('/files/a/b%20c')).json(), { path: 'a/b c' })
  assert.equal((await call('/files/%ff%')).status, 400)
})

test('a path is taken literally: dots do not lead to another route', async () => {
  const head = 'Host: localhost\r\nAuthorization: Bearer right'
  for (const dots of ['..', '%2e%2e', '.%2E'])
    assert.match(await raw(head, `/files/a/${dots}/${dots}/open`), /^HTTP\/1.1 200 [^]*"path":"a\/\.\.\/\.\.\/open"/)
})

test('a client that disconnects in the middle of its body is not a failure of the service', async () => {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  const arrived = new Promise<void>((resolve) => (onAuthorize = resolve))
  socket.write(
    'POST /things/1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer right\r\nContent-Length: 9\r\n\r\n{',
  )
  const told = new Promise<string>((resolve) => (onFault = resolve))
  await arrived
  socket.destroy()
  assert.equal(await told, 'cancelled')
})

test('a client that is slow with headers, a small body or inside a large body gets a timeout response', async (t) => {
  const slow = createService({
    boundary: 'daemon',
    authorize: () => {},
    limits: { headersMs: 100 },
    routes: [
      {
        ...(routes[1] as Route),
        handle: async (call) => ({ status: 201, json: await readJson(call, thing, 1000, 100) }),
      },
      {
        ...(routes[1] as Route),
        method: 'put',
        handle: async ({ req }) => {
          const chunks = await Array.fromAsync(bodyChunks(req, 100))
          return { status: 200, json: { bytes: Buffer.concat(chunks).length } }
        },
      },
    ],
  })
  const { port } = await slow.listen(0)
  t.after(() => slow.close({ graceMs: 100 }))
  const said = async (text: string): Promise<string> => {
    const socket = connect(port, '127.0.0.1')
    socket.write(text)
    let seen = ''
    for await (const chunk of socket) {
      seen += (chunk as Buffer).toString()
      if (seen.includes('\r\n\r\n')) break
    }
    return seen
  }
  const head = 'HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 13'
  const [headers, json, large, whole] = await Promise.all([
    said('POST /things/1 HTTP/1.1\r\nHost: local'),
    said(`POST /things/1 ${head}\r\n\r\n{"count"`),
    said(`PUT /things/1 ${head}\r\n\r\n{"count"`),
    said(`POST /things/1 ${head}\r\n\r\n{"count": 1 }`),
  ])
  assert.match(headers, /^HTTP\/1.1 408 /)
  for (const answer of [json, large])
    assert.match(answer, /^HTTP\/1.1 400 [^]*the rest of the body did not arrive within 0.1 s/)
  assert.match(whole, /^HTTP\/1.1 201 /)
})

test('a connection on which nothing was sent is no slow request: it may still send one, and is closed without an answer', async (t) => {
  const opened = async (limits: Partial<HttpServerLimits>): Promise<readonly [Socket, Socket]> => {
    const service = createService({
      boundary: 'daemon',
      authorize: () => {},
      limits: { headersMs: 100, ...limits },
      routes,
    })
    const { port } = await service.listen(0)
    t.after(() => service.close({ graceMs: 100 }))
    const [silent, slow] = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')]
    await Promise.all([once(silent, 'connect'), once(slow, 'connect')])
    slow.write('GET /open HTTP/1.1\r\n')
    return [silent, slow]
  }
  const [late, slow] = await opened({})
  assert.match(await text(slow), /^HTTP\/1.1 408 /) // the time of the other one is over, too: it is as old
  late.write('GET /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
  assert.match(await text(late), /^HTTP\/1.1 200 /)
  const [silent] = await opened({ idleMs: 100 })
  assert.equal(await text(silent), '')
})

test('an event stream is readable and ends', async () => {
  const response = await call('/stream')
  assert.equal(response.headers.get('content-type'), 'text/event-stream')
  assert.equal(await response.text(), 'event: a\nid: 1\ndata: {"x":1}\n\n')
})

test('what all bodies hold together is bounded, read or not, and others get 429 until they end', async (t) => {
  const MIB = 1024 * 1024
  const service = createService({
    boundary: 'daemon',
    authorize: () => {},
    memoryBytesMax: 4 * MIB,
    routes: [
      { ...(routes[1] as Route), handle: async (call) => ({ status: 201, json: await readJson(call, thing) }) },
      { ...(routes[1] as Route), method: 'put', handle: ({ signal }) => once(signal, 'abort').then(() => undefined) },
    ],
  })
  const { port, url } = await service.listen(0)
  t.after(() => service.close({ graceMs: 0 }))
  const sockets: Socket[] = []
  t.after(() => sockets.forEach((socket) => socket.destroy()))
  const begin = (method: string, head: string, body: string): Promise<string> => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined)
    sockets.push(socket)
    socket.write(`${method} /things/1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${head}\r\n\r\n`)
    socket.write(body)
    return once(socket, 'data').then(([data]) => String(data).slice(9, 12))
  }
  const ask = async (): Promise<number> =>
    (
      await fetch(`${url}/things/1`, {
        method: 'POST',
        body: '{"count":1}',
        headers: { 'content-type': 'application/json' },
      })
    ).status
  for (const [method, head, body] of [
    ['POST', `Content-Length: ${MIB}`, ' '.repeat(MIB - 1)],
    ['PUT', 'Transfer-Encoding: chunked', '1\r\n \r\n'],
  ] as const) {
    const answers = Array.from({ length: 40 }, () => begin(method, head, body))
    assert.equal(await Promise.any(answers), '429', method)
    for (const socket of sockets.splice(0)) socket.destroy()
    while ((await ask()) !== 201); // until the server has seen that they are gone
  }
})
