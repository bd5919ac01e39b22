import { atEnd, tempFolder } from '../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type IncomingHttpHeaders, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { SessionEvent } from '@breakfall/wire'
import { WebSocket } from 'ws'
import { rig } from './support/setup.ts'

type Frame = {
  id?: unknown
  result?: Record<string, unknown>
  error?: Record<string, unknown>
  event?: SessionEvent
  reset?: object
}

class Client {
  readonly socket: WebSocket
  readonly frames: Frame[] = []
  #wake: (() => void) | undefined

  constructor(t: TestContext, url: string, protocols: string[], options: object = {}) {
    this.socket = new WebSocket(`${url.replace('http', 'ws')}/v1/ws`, protocols, options)
    this.socket.on('message', (data) => {
      this.frames.push(JSON.parse((data as Buffer).toString('utf8')) as Frame)
      this.#wake?.()
    })
    atEnd(t, () => this.socket.terminate())
  }

  send(frame: object): void {
    this.socket.send(JSON.stringify(frame))
  }

  async until(accept: (frame: Frame) => boolean): Promise<Frame> {
    for (;;) {
      const found = this.frames.find(accept)
      if (found !== undefined) return found
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}

test('prompt, subscribe, cancel and look-ups go over one socket, with the same events as SSE', async (t) => {
  const { api, daemon } = await rig(t, (asked) =>
    asked.messages.at(-1)?.content === 'slow' ? { text: 'x'.repeat(500), pauseMs: 30 } : { text: 'hi' },
  )
  const client = new Client(t, daemon.url, ['breakfall.v1', `breakfall.token.${daemon.token}`])
  await once(client.socket, 'open')
  assert.equal(client.socket.protocol, 'breakfall.v1')
  const { id } = await api.session()
  client.send({ id: 1, method: 'subscribe', params: { sessionId: id, after: 0 } })
  client.send({ id: 'two', method: 'prompt', params: { sessionId: id, prompt: 'quick', idempotencyKey: 'k' } })
  const receipt = await client.until((frame) => frame.id === 'two')
  assert.equal(receipt.result?.['seq'], 1)
  await client.until((frame) => frame.event?.type === 'turn-end')
  assert.deepEqual(
    client.frames.flatMap((frame) => frame.event ?? []),
    await api.events(id),
  )
  client.send({ id: 3, method: 'prompt', params: { sessionId: id, prompt: 'slow' } })
  const slow = await client.until((frame) => frame.id === 3)
  client.send({ id: 4, method: 'cancel', params: { turnId: slow.result?.['turnId'], reason: 'enough' } })
  const error = await client.until((frame) => frame.event?.type === 'turn-error')
  assert.ok(error.event?.type === 'turn-error' && error.event.category === 'cancelled')
  client.send({ id: 5, method: 'sessions', params: {} })
  client.send({ id: 6, method: 'session', params: { sessionId: id } })
  client.send({ id: 7, method: 'resume', params: { turnId: slow.result?.['turnId'] } })
  client.send({ id: 8, method: 'session', params: { sessionId: 'nope' } })
  client.send({ id: 9, method: 'dance' })
  client.send({ id: 10, method: 'unsubscribe', params: { sessionId: id } })
  assert.equal((await client.until((frame) => frame.id === 6)).result?.['id'], id)
  assert.equal((await client.until((frame) => frame.id === 7)).error?.['category'], 'turn_not_parked')
  assert.equal((await client.until((frame) => frame.id === 8)).error?.['category'], 'not_found')
  assert.equal((await client.until((frame) => frame.id === 9)).error?.['category'], 'invalid_request')
  await client.until((frame) => frame.id === 10)
  const before = client.frames.length
  await api.ended(id, await api.prompt(id, 'unheard'))
  assert.equal(client.frames.length, before)
})

test('a frame that is no JSON gets an error and the connection stays', async (t) => {
  const { daemon } = await rig(t, () => ({}))
  const client = new Client(t, daemon.url, [], { headers: { authorization: `Bearer ${daemon.token}` } })
  await once(client.socket, 'open')
  client.socket.send('{not json')
  assert.equal((await client.until((frame) => frame.error !== undefined)).error?.['category'], 'invalid_request')
  client.send({ id: 1, method: 'sessions' })
  assert.deepEqual((await client.until((frame) => frame.id === 1)).result, { sessions: [] })
})

test('without the token, under a foreign name or on another path there is no socket', async (t) => {
  const { daemon } = await rig(t, () => ({}))
  const refused = async (protocols: string[], options: object, path = '/v1/ws'): Promise<number> => {
    const socket = new WebSocket(`${daemon.url.replace('http', 'ws')}${path}`, protocols, options)
    const [, res] = (await once(socket, 'unexpected-response')) as [unknown, { statusCode: number; resume(): void }]
    res.resume()
    return res.statusCode
  }
  const good = { authorization: `Bearer ${daemon.token}` }
  assert.equal(await refused([], {}), 401)
  assert.equal(await refused(['breakfall.v1', 'breakfall.token.wrong'], {}), 401)
  assert.equal(await refused([], { headers: { ...good, origin: 'https://evil.example' } }), 403)
  assert.equal(await refused([], { headers: { ...good, host: 'evil.example' } }), 403)
  assert.equal(await refused([], { headers: good }, '/v1/other'), 404)
})

test('every answer to a handshake has a request id and names the daemon, a refusal is a problem document, and another protocol is ignored', async (t) => {
  const { api, daemon } = await rig(t, () => ({}))
  const handshake = (path: string, changed: Record<string, string | null> = {}) => {
    const headers = {
      authorization: `Bearer ${daemon.token}`,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    }
    const sent = Object.entries({ ...headers, ...changed }).filter((entry) => entry[1] !== null) as [string, string][]
    return answerTo(t, daemon.url + path, Object.fromEntries(sent))
  }
  const good = await handshake('/v1/ws')
  assert.deepEqual([good.status, typeof good.headers['x-request-id']], [101, 'string'])
  const name = (await api.call('GET', '/v1/health')).headers.get('x-breakfall-daemon')
  assert.ok(name !== null && good.headers['x-breakfall-daemon'] === name)
  for (const [changed, status, category] of [
    [{ authorization: null }, 401, 'unauthorized'],
    [{ origin: 'https://evil.example' }, 403, 'forbidden'],
    [{ 'sec-websocket-key': 'short' }, 400, 'invalid_request'],
    [{ 'sec-websocket-version': '7' }, 400, 'invalid_request'],
  ] as const) {
    const { status: got, headers, body } = await handshake('/v1/ws', changed)
    const problem = JSON.parse(body) as Record<string, unknown>
    assert.deepEqual(
      [got, problem['category'], headers['content-type'], headers['x-breakfall-daemon']],
      [status, category, 'application/problem+json', name],
    )
    assert.equal(headers['x-request-id'], problem['requestId'])
  }
  const plain = await handshake('/v1/sessions', { upgrade: 'h2c', connection: 'Upgrade, HTTP2-Settings' })
  assert.deepEqual([plain.status, plain.body], [200, '{"sessions":[]}'])
})

test('who hangs up in the middle of a handshake ends nothing but its own connection', async (t) => {
  const { api, daemon } = await rig(t, () => ({}))
  const { port, host } = new URL(daemon.url)
  for (let n = 0; n < 100; n += 1) {
    const socket = connect(Number(port), '127.0.0.1')
    await once(socket, 'connect')
    socket.on('error', () => undefined) // it is we who reset it
    socket.write(
      `GET /v1/ws HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    )
    await new Promise(setImmediate)
    socket.resetAndDestroy()
  }
  assert.equal((await api.call('GET', '/v1/health')).status, 200)
})

type RawAnswer = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly body: string }

function answerTo(t: TestContext, url: string, headers: Record<string, string>): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const asking = request(url, { headers, agent: false })
    asking.on('upgrade', (res, socket) => {
      atEnd(t, () => socket.destroy())
      resolve({ status: res.statusCode ?? 0, headers: res.headers, body: '' })
    })
    asking.on('response', (res) => {
      let body = ''
      res.on('data', (chunk) => (body += String(chunk)))
      res.on('end', () => resolve({ status: res.statusCode ?? 0, headers: res.headers, body }))
    })
    asking.on('error', reject)
    asking.end()
  })
}

test('a silent session is kept alive: comments for event streams, pings for sockets', async (t) => {
  const { api, daemon } = await rig(t, () => ({}), { limits: { heartbeatMs: 20 } })
  const { id } = await api.session()
  const headers = { authorization: `Bearer ${daemon.token}` }
  const client = new Client(t, daemon.url, [], { headers })
  await once(client.socket, 'ping')
  const over = new AbortController()
  const stream = await fetch(`${daemon.url}/v1/sessions/${id}/events`, { headers, signal: over.signal })
  const reader = (stream.body as ReadableStream<Uint8Array>).getReader()
  const said = Buffer.from((await reader.read()).value ?? []).toString()
  over.abort()
  assert.match(said, /^: .*\n\n/, 'a comment, which no client takes for an event')
})

test('over a WebSocket, a token with scope=read may look and subscribe, and nothing else', async (t) => {
  const stateDir = tempFolder(t)
  writeFileSync(join(stateDir, 'daemon.token'), 'full-token\nreader-token scope=read\n', { mode: 0o600 })
  const { api, daemon } = await rig(t, () => ({ text: 'hi' }), { stateDir })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'x')
  const client = new Client(t, daemon.url, ['breakfall.v1', 'breakfall.token.reader-token'])
  await once(client.socket, 'open')
  client.send({ id: 1, method: 'subscribe', params: { sessionId: id, after: 0 } })
  await client.until((frame) => frame.event?.type === 'turn-end')
  client.send({ id: 2, method: 'sessions', params: { state: 'finished', counts: true } })
  assert.deepEqual((await client.until((frame) => frame.id === 2)).error, undefined)
  for (const [method, params] of [
    ['prompt', { sessionId: id, prompt: 'x' }],
    ['cancel', { turnId }],
    ['resume', { turnId }],
  ] as const) {
    client.send({ id: method, method, params })
    assert.equal((await client.until((frame) => frame.id === method)).error?.['category'], 'forbidden', method)
  }
})
