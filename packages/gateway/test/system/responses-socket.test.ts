/** The Responses API over a WebSocket: asked upstream over HTTP, healed there, and bounded. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { WebSocket } from 'ws'
import { fin, head, json, type Play, reset, silence } from '../../../../test/kit/plays.ts'
import { messageItem, responded, responseFrames, upToDelta } from '../../../../test/kit/responses-frames.ts'
import type { GatewayOptions } from '../../src/index.ts'
import { stand, type Stand } from '../client.ts'

type Event = {
  readonly type: string
  readonly status?: number
  readonly error?: { readonly code: string; readonly message: string }
  readonly headers?: Readonly<Record<string, string>>
  readonly response?: { readonly id: string }
  readonly delta?: string
  readonly sequence_number?: number
}

const ASK = '{"type":"response.create","model":"m","temperature":1.0,"seed":12345678901234567890,"input":[]}'
const HELLO = responseFrames([messageItem(['Hel', 'lo ', 'world'])])

async function open(t: TestContext, stood: Stand, headers: Record<string, string> = {}): Promise<Client> {
  const socket = new WebSocket(`ws://127.0.0.1:${stood.gateway.port}/v1/responses`, { headers })
  t.after(() => socket.terminate())
  await once(socket, 'open')
  return new Client(socket)
}

class Client {
  readonly socket: WebSocket
  readonly #events: Event[] = []
  #wake: () => void = () => undefined

  constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (data: Buffer) => {
      this.#events.push(JSON.parse(data.toString()) as Event)
      this.#wake()
    })
    socket.on('close', () => this.#wake())
  }

  /** The events up to the end of an answer, or of the connection. */
  async ask(message: string): Promise<readonly Event[]> {
    this.socket.send(message)
    const isEnd = ({ type }: Event): boolean => type === 'response.completed' || type === 'error'
    while (!this.#events.some(isEnd) && this.socket.readyState === WebSocket.OPEN)
      await new Promise<void>((resolve) => (this.#wake = resolve))
    return this.#events.splice(0)
  }
}

const textIn = (events: readonly Event[]): string =>
  events.map(({ type, delta }) => (type === 'response.output_text.delta' ? (delta ?? '') : '')).join('')

test('several turns over one socket: each is one HTTP request with the client’s bytes and headers', async (t) => {
  const stood = await stand(t, [responded('Hello')])
  const client = await open(t, stood, {
    authorization: 'Bearer mine',
    'chatgpt-account-id': 'a',
    'openai-beta': 'responses_websockets=2026-02-06, other=1',
  })
  for (let turn = 0; turn < 3; turn++) {
    const events = await client.ask(ASK)
    assert.deepEqual(
      [textIn(events), events[0]?.type, events.at(-1)?.type],
      ['Hello', 'response.created', 'response.completed'],
    )
  }
  const [request] = stood.model.requests
  assert.equal(stood.model.requests.length, 3)
  assert.equal(request?.text, ASK.replace('"type":"response.create",', '"stream":true,'))
  const headers = request?.headers ?? {}
  assert.deepEqual(
    [headers['authorization'], headers['chatgpt-account-id'], headers['openai-beta'], headers['upgrade']],
    ['Bearer mine', 'a', 'other=1', undefined],
  )
  assert.ok(Object.keys(headers).every((name) => !name.startsWith('sec-websocket')))
  assert.equal(stood.gateway.stats().totals.requests, 3)
})

test('a cut anywhere is healed, and the client gets one numbered answer', async (t) => {
  for (let cut = 1; cut < HELLO.length; cut++) {
    const stood = await stand(t, [[head(), ...HELLO.slice(0, cut), fin], responded('Hello world')])
    const events = await (await open(t, stood)).ask(ASK)
    assert.deepEqual([textIn(events), events.at(-1)?.type], ['Hello world', 'response.completed'], `cut after ${cut}`)
    assert.deepEqual(
      events.map(({ sequence_number }) => sequence_number),
      events.map((_, at) => at),
    )
  }
})

test('a continuation is refused as lost, a warm-up is empty, and the whole conversation is answered', async (t) => {
  const stood = await stand(t, [responded('Hello')])
  const client = await open(t, stood)
  const warm = await client.ask(ASK.replace('"input":[]', '"generate":false'))
  assert.deepEqual(
    warm.map(({ type }) => type),
    ['response.created', 'response.completed'],
  )
  const id = warm[1]?.response?.id
  const [lost] = await client.ask(ASK.replace('"input"', `"previous_response_id":"${id}","input"`))
  assert.equal(lost?.status, 400)
  assert.equal(lost?.error?.code, 'previous_response_not_found')
  assert.equal(stood.model.requests.length, 0)
  assert.equal(textIn(await client.ask(ASK)), 'Hello')
  const odd = '{"model":"m","stream_id":"s","previous_response_id":null,"type":"response.create","input":[]}'
  assert.equal(textIn(await client.ask(odd)), 'Hello')
  assert.deepEqual(JSON.parse(stood.model.requests[1]?.text ?? ''), { model: 'm', input: [], stream: true })
  for (const message of ['', '{', '[]', '{"type":"response.cancel"}', '"response.create"']) {
    const [error] = await client.ask(message)
    assert.deepEqual([error?.type, error?.status], ['error', 400], message)
  }
})

test('a refusal of the upstream is an error with its status, body and headers; the socket stays', async (t) => {
  const refusal = json(429, { error: { message: 'slow down', code: 'rate_limit_exceeded' } }, { 'retry-after': '3600' })
  const stood = await stand(t, [refusal, responded('Hello')])
  const client = await open(t, stood)
  const [error] = await client.ask(ASK)
  assert.deepEqual([error?.status, error?.error], [429, { message: 'slow down', code: 'rate_limit_exceeded' }])
  assert.equal(error?.headers?.['retry-after'], '3600')
  assert.equal(textIn(await client.ask(ASK)), 'Hello')
})

test('an answer that cannot be healed ends with an error and a closed socket', async (t) => {
  const broken: Play = [head(), ...upToDelta(HELLO, 2), fin]
  const other: Play = responded('Something else')
  const stood = await stand(t, [broken, other, other], { hold: 'none' })
  const client = await open(t, stood)
  const closed = once(client.socket, 'close')
  const events = await client.ask(ASK)
  assert.deepEqual([textIn(events), events.at(-1)?.type], ['Hello ', 'error'])
  assert.equal((await closed)[0], 1011)
})

test('a client that leaves ends its request, a second message waits, a third is refused, and a shutdown closes the socket', async (t) => {
  const stood = await stand(t, [[head(), ...upToDelta(HELLO, 1), silence]], { hold: 'none' })
  const client = await open(t, stood)
  const events = once(client.socket, 'message')
  client.socket.send(ASK)
  await events
  client.socket.send(ASK)
  const [busy] = await client.ask(ASK).then((all) => all.filter(({ type }) => type === 'error'))
  assert.deepEqual([busy?.status, busy?.error?.code], [409, 'response_in_progress'])
  client.socket.terminate()
  await stood.model.untilAbandoned(1)
  const idle = await open(t, stood)
  const closed = once(idle.socket, 'close')
  await stood.gateway.close()
  assert.equal((await closed)[0], 1001)
})

// ---- clients that do not keep to the protocol ----

async function raw(stood: Stand): Promise<Socket> {
  const socket = connect(stood.gateway.port, '127.0.0.1')
  socket.on('error', () => socket.destroy())
  socket.write(
    'GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n',
  )
  const [said] = (await once(socket, 'data')) as [Buffer]
  assert.match(said.toString(), /^HTTP\/1\.1 101 [^]*sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/)
  return socket
}

/** A masked frame. */
function frame(first: number, payload: Buffer | string, length = Buffer.byteLength(payload)): Buffer {
  const bytes = Buffer.from(payload)
  const mask = Buffer.of(1, 2, 3, 4)
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10)
  head[0] = first
  head[1] = 0x80 | (length < 126 ? length : length < 65_536 ? 126 : 127)
  if (head.length === 4) head.writeUInt16BE(length, 2)
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2)
  return Buffer.concat([head, mask, bytes.map((byte, at) => byte ^ (mask[at & 3] ?? 0))])
}

/** The code of the close frame that the gateway sends. */
async function closeCode(socket: Socket): Promise<number> {
  const pieces: Buffer[] = []
  socket.on('data', (piece: Buffer) => pieces.push(piece))
  await once(socket, 'close')
  const all = Buffer.concat(pieces)
  const at = all.lastIndexOf(Buffer.of(0x88, 2))
  return at === -1 ? 0 : all.readUInt16BE(at + 2)
}

const VIOLATIONS: Readonly<Record<string, readonly [Buffer, code: number]>> = {
  'an unmasked frame': [Buffer.from([0x81, 1, 0x7b]), 1002],
  'a reserved bit': [frame(0xc1, '{}'), 1002],
  'a binary message': [frame(0x82, '{}'), 1003],
  'an unknown opcode': [frame(0x83, '{}'), 1002],
  'a continuation of nothing': [frame(0x80, '{}'), 1002],
  'a message inside a message': [Buffer.concat([frame(0x01, '{'), frame(0x81, '}')]), 1002],
  'a ping in two frames': [frame(0x09, 'x'), 1002],
  'a long ping': [frame(0x89, 'x'.repeat(126)), 1002],
  'a message over the limit': [frame(0x81, 'x', 65 * 1024 * 1024), 1009],
  'a length of 2^63': [frame(0x81, 'x', 2 ** 63), 1009],
  'a goodbye': [frame(0x88, Buffer.of(0x03, 0xe9)), 1001],
}

for (const [what, [bytes, code]] of Object.entries(VIOLATIONS))
  test(`${what} ends the connection with ${code}`, async (t) => {
    const stood = await stand(t, [responded('Hello')])
    const socket = await raw(stood)
    socket.write(bytes)
    assert.equal(await closeCode(socket), code)
    assert.equal(stood.model.requests.length, 0)
  })

test('a message in many frames and bytes, with pings between them, is one message', async (t) => {
  const stood = await stand(t, [[reset], responded('Hello')])
  const socket = await raw(stood)
  const pieces = ASK.match(/.{1,7}/gs) ?? []
  const frames = pieces.flatMap((piece, at) => [
    frame((at === pieces.length - 1 ? 0x80 : 0) | (at === 0 ? 1 : 0), piece),
    ...(at === 3 ? [frame(0x89, 'hi'), frame(0, '')] : []),
  ])
  for (const byte of Buffer.concat(frames)) {
    socket.write(Buffer.of(byte))
    if (byte % 16 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  let got: Buffer = Buffer.alloc(0)
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    got = Buffer.concat([got, chunk])
    if (got.includes('response.completed')) break
  }
  assert.ok(got.includes(Buffer.from([0x8a, 2, 0x68, 0x69])), 'a pong')
  assert.equal(stood.model.requests.length, 2)
})

test('half messages of many clients hold no more than the memory for all, and others are answered', async (t) => {
  const limits = { memoryBytesMax: 4 * 1024 * 1024, closeMs: 50 } satisfies GatewayOptions['limits']
  const stood = await stand(t, [responded('Hello')], { limits })
  const sockets = await Promise.all(Array.from({ length: 12 }, () => raw(stood)))
  const half = frame(0x81, Buffer.alloc(1024 * 1024, 'x'), 2 * 1024 * 1024)
  const codes = sockets.map((socket) => closeCode(socket))
  for (const socket of sockets) socket.write(half)
  const refused = await Promise.race(codes)
  assert.equal(refused, 1013, 'there is no room for all of them')
  for (const socket of sockets) socket.destroy()
  await Promise.all(codes)
  const events = await (await open(t, stood)).ask(ASK)
  assert.equal(textIn(events), 'Hello', 'their memory is free again')
})

test('more sockets than allowed, a wrong token and a handshake without a key are sent to HTTP', async (t) => {
  const stood = await stand(t, [responded('Hello')], { limits: { socketsMax: 1, closeMs: 50 } })
  const first = await open(t, stood)
  const status = async (headers: Record<string, string>): Promise<number | undefined> => {
    const socket = new WebSocket(`ws://127.0.0.1:${stood.gateway.port}/v1/responses`, { headers })
    const [, response] = (await once(socket, 'unexpected-response')) as [unknown, { statusCode?: number }]
    return response.statusCode
  }
  assert.equal(await status({}), 426)
  assert.equal(textIn(await first.ask(ASK)), 'Hello')
  const guarded = await stand(t, [responded('Hello')], { token: 'secret' })
  const socket = new WebSocket(`ws://127.0.0.1:${guarded.gateway.port}/v1/responses`)
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, { statusCode?: number }]
  assert.equal(response.statusCode, 426)
  assert.equal(textIn(await (await open(t, guarded, { 'x-breakfall-token': 'secret' })).ask(ASK)), 'Hello')
})
