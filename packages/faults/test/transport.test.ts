/** Every known way in which Node's fetch fails, produced with real sockets on loopback and classified. */
import assert from 'node:assert/strict'
import type dns from 'node:dns'
import { once } from 'node:events'
import net from 'node:net'
import test from 'node:test'
import { closedPort } from '../../../test/kit/tcp-server.ts'
import zlib from 'node:zlib'
import { classify } from '@breakfall/faults'
import {
  call,
  check,
  chunk,
  CHUNKED,
  dispatcher,
  EVENT,
  type Expected,
  reset,
  say,
  sayThenClose,
  sayThenReset,
  type Script,
  serve,
  SSE_HEAD,
  through,
} from './broken-servers.ts'

const RESET: Expected = {
  model: 'model_stream_interrupted',
  runner: 'runner_unreachable',
  phase: 'headers',
  raw: /ECONNRESET/,
}
const CLOSED: Expected = { ...RESET, raw: /other side closed.*UND_ERR_SOCKET/ }
const STREAM_RESET: Expected = { ...RESET, phase: 'stream' }
const STREAM_CLOSED: Expected = { ...CLOSED, phase: 'stream' }

const produced = (name: string, script: Script, expected: Expected): void =>
  void test(name, async () => {
    await using server = await serve(script)
    const outcome = await call(server.url, {}, server.arrived)
    assert.equal(outcome.ended, false)
    check(outcome.thrown, outcome.phase, expected)
  })

const REFUSED: Expected = {
  model: 'model_unreachable',
  runner: 'runner_unreachable',
  phase: 'connect',
  raw: /connect ECONNREFUSED 127\.0\.0\.1:\d+/,
}

test('the same refused connection is the model or the runner, by boundary and not by text', async () => {
  const port = await closedPort()
  const { thrown, phase } = await call(`http://127.0.0.1:${port}/`)
  check(thrown, phase, REFUSED)
  assert.match(classify(thrown, { boundary: 'runner' }).error, new RegExp(`nothing answers at 127.0.0.1:${port}`))
  assert.equal(classify(thrown, { boundary: 'daemon' }).category, 'daemon_unreachable')
  assert.equal(classify(thrown, { boundary: 'box' }).category, 'other', 'what a tool ran into is not our runner')
})

/** A pool whose look-up returns these addresses: it tries to connect to each of them. */
const lookingUp = (answer: (callback: (error: Error | null, addresses?: dns.LookupAddress[]) => void) => void) =>
  dispatcher({
    connect: {
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: 250,
      lookup: (
        _host: string,
        _options: object,
        callback: (error: Error | null, addresses?: dns.LookupAddress[]) => void,
      ) => answer(callback),
    },
  })

test('refused on several addresses is an AggregateError without a message, and still refused', async () => {
  const port = await closedPort()
  const pool = await lookingUp((callback) =>
    callback(null, [
      { address: '127.0.0.1', family: 4 },
      { address: '127.0.0.2', family: 4 },
    ]),
  )
  const { thrown, phase } = await call(`http://several.test:${port}/`, through(pool))
  const cause = (thrown as Error).cause as AggregateError
  assert.equal(cause.name, 'AggregateError')
  assert.equal(cause.message, '')
  check(thrown, phase, REFUSED)
  assert.match(classify(thrown, { boundary: 'model' }).errorRaw, /127\.0\.0\.2/, 'every address is in the raw error')
  await pool.close()
})

test('localhost refused on both address families is refused, with or without IPv6', async () => {
  const port = await closedPort()
  const { thrown, phase } = await call(`http://localhost:${port}/`)
  check(thrown, phase, { ...REFUSED, raw: /ECONNREFUSED/ })
})

test('an address without a route beside a refused one is not "no network"', () => {
  const noRoute = Object.assign(new Error('connect ENETUNREACH ::1:80'), { code: 'ENETUNREACH', syscall: 'connect' })
  const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:80'), {
    code: 'ECONNREFUSED',
    syscall: 'connect',
  })
  const both = Object.assign(new AggregateError([noRoute, refused], ''), { code: 'ENETUNREACH' })
  const classified = (cause: Error) =>
    classify(new TypeError('fetch failed', { cause }), { boundary: 'model' }).category
  assert.equal(classified(both), 'model_unreachable')
  assert.equal(classified(noRoute), 'network_down')
})

test('a name that does not exist: the real resolver error, for a name that never leaves this machine', async () => {
  // A label over 63 characters is refused by getaddrinfo itself.
  const { thrown, phase } = await call(`http://${'a'.repeat(64)}.invalid/`)
  check(thrown, phase, { ...REFUSED, raw: /getaddrinfo E(?:NOTFOUND|AI_\w+)/ })
})

test('a resolver that does not answer', async () => {
  const again = Object.assign(new Error('getaddrinfo EAI_AGAIN model.test'), {
    code: 'EAI_AGAIN',
    errno: -3001,
    syscall: 'getaddrinfo',
    hostname: 'model.test',
  })
  const pool = await lookingUp((callback) => callback(again))
  const { thrown, phase } = await call('http://model.test/', through(pool))
  check(thrown, phase, { ...REFUSED, raw: /getaddrinfo EAI_AGAIN/ })
  await pool.close()
})

// ---- before and during the headers ----

produced('a reset before the headers', reset, RESET)
produced(
  'a reset inside the headers',
  (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-')
    socket.resetAndDestroy()
  },
  RESET,
)
produced('a close before the headers', sayThenClose(''), CLOSED)
produced('a close inside the headers', sayThenClose('HTTP/1.1 200 OK\r\nContent-'), CLOSED)
produced('something that is not HTTP', say('220 mail.test ESMTP ready\r\n'), {
  model: 'model_server_error',
  runner: 'runner_protocol_error',
  phase: 'headers',
  raw: /does not match the HTTP\/1\.1 protocol/,
})

test('a stale keep-alive connection breaks on the second request', async () => {
  let requests = 0
  await using server = await serve((socket) => {
    requests += 1
    if (requests === 1) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok')
    else socket.resetAndDestroy()
  })
  const pool = await dispatcher({ connections: 1 })
  assert.equal((await call(server.url, through(pool))).text, 'ok')
  const { thrown, phase } = await call(server.url, through(pool))
  check(thrown, phase, { ...RESET, raw: /ECONNRESET|other side closed/ })
  await pool.destroy()
})

test('a peer that goes away during a streamed upload', async () => {
  await using server = await serve(reset)
  let over = false
  const body = new ReadableStream({
    async pull(controller) {
      await new Promise((resolve) => setImmediate(resolve)) // the connection breaks on a later turn of the event loop
      // Node's fetch keeps reading the upload after it has failed, so the test has to end it.
      if (over) controller.close()
      else controller.enqueue(new Uint8Array(1024))
    },
  })
  const { thrown, phase } = await call(server.url, { method: 'POST', body, duplex: 'half' } as RequestInit)
  over = true
  check(thrown, phase, { ...RESET, raw: /EPIPE|ECONNRESET|other side closed/ })
})

test('writing to a peer that has closed is EPIPE, and a broken connection', async () => {
  await using server = await serve((socket) => void socket.destroy(), true)
  const socket = net.connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true })
  const failed = once(socket, 'error')
  socket.resume().write('x')
  await once(socket, 'end')
  // The first write makes the peer's kernel answer with a reset; a later write then finds the pipe broken.
  const writing = setInterval(() => socket.write('x'), 1)
  const [broken] = (await failed) as [NodeJS.ErrnoException]
  clearInterval(writing)
  assert.equal(broken.code, 'EPIPE')
  check(new TypeError('fetch failed', { cause: broken }), 'headers', { ...RESET, raw: /write EPIPE/ })
})

// ---- in the body ----

produced('a reset in mid-body, chunked', sayThenReset(CHUNKED + chunk(EVENT)), STREAM_RESET)
produced(
  'a reset in mid-body, with a length',
  sayThenReset(`${SSE_HEAD}Content-Length: 500\r\n\r\n${EVENT}`),
  STREAM_RESET,
)
produced('a close in mid-body, chunked, without the last chunk', sayThenClose(CHUNKED + chunk(EVENT)), STREAM_CLOSED)
produced('a close inside a chunk', sayThenClose(`${CHUNKED}ff\r\n${EVENT}`), STREAM_CLOSED)
produced('a length larger than the body', sayThenClose(`${SSE_HEAD}Content-Length: 500\r\n\r\n${EVENT}`), STREAM_CLOSED)
produced('an invalid chunk size', say(`${CHUNKED}${chunk(EVENT)}zz\r\n`), { ...STREAM_RESET, raw: /chunk size/ })
produced(
  'a reset of a chunked answer with Connection: close, which undici shows as a parser error',
  sayThenReset(`${SSE_HEAD}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n${chunk(EVENT)}`),
  { ...STREAM_RESET, raw: /Invalid EOF state|ECONNRESET/ },
)

// ---- cut off, but without an error: why an answer needs proof of completion ----

const endsCleanly = (name: string, script: Script, arrived: string): void =>
  void test(`${name} ends without any error`, async () => {
    await using server = await serve(script)
    const outcome = await call(server.url, {}, server.arrived)
    assert.deepEqual(outcome, { phase: 'stream', thrown: undefined, text: arrived, ended: true })
  })

const LAST_CHUNK = '0\r\n\r\n'
const cutGzip = zlib.gzipSync(EVENT.repeat(50)).subarray(0, 60)

endsCleanly('a last chunk without the protocol’s own end', say(CHUNKED + chunk(EVENT) + LAST_CHUNK), EVENT)
endsCleanly('a cut inside an event', say(CHUNKED + chunk(EVENT.slice(0, 20)) + LAST_CHUNK), EVENT.slice(0, 20))
endsCleanly('a length smaller than the body', say(`${SSE_HEAD}Content-Length: 10\r\n\r\n${EVENT}`), EVENT.slice(0, 10))
endsCleanly('a body without a length, closed', sayThenClose(`${SSE_HEAD}\r\n${EVENT}`), EVENT)
endsCleanly('a body without a length, reset', sayThenReset(`${SSE_HEAD}Connection: close\r\n\r\n${EVENT}`), EVENT)

test('a cut gzip body in a proper chunked answer ends without any error', async () => {
  await using server = await serve((socket) => {
    socket.write(
      `${SSE_HEAD}Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n${cutGzip.length.toString(16)}\r\n`,
    )
    socket.write(cutGzip)
    socket.write(`\r\n${LAST_CHUNK}`)
  })
  const outcome = await call(server.url, {}, server.arrived)
  assert.equal(outcome.thrown, undefined)
  assert.equal(outcome.ended, true)
  assert.ok(outcome.text.length < EVENT.length * 50)
})

// ---- what cannot be called at all ----

const UNCALLABLE: readonly [string, string, RegExp][] = [
  ['a bad URL', 'http://', /Invalid URL/],
  ['an unknown scheme', 'gopher://127.0.0.1/', /unknown scheme/],
  ['a blocked port', 'http://127.0.0.1:1/', /bad port/],
]
for (const [name, url, raw] of UNCALLABLE) {
  test(`${name} is a configuration error and is never retried`, async () => {
    const { thrown } = await call(url)
    const fault = classify(thrown, { boundary: 'model' })
    assert.equal(fault.category, 'model_endpoint_invalid')
    assert.equal(fault.report.next, 'never')
    assert.match(fault.errorRaw, raw)
    assert.equal(classify(thrown, { boundary: 'runner' }).category, 'runner_protocol_error')
  })
}

test('a redirect loop is a configuration error', async () => {
  await using server = await serve(say('HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n'))
  const { thrown } = await call(server.url)
  assert.equal(classify(thrown, { boundary: 'model' }).category, 'model_endpoint_invalid')
})

test('an established connection that timed out is broken, not unconnected', () => {
  const late = Object.assign(new Error('read ETIMEDOUT'), { code: 'ETIMEDOUT', syscall: 'read' })
  const never = Object.assign(new Error('connect ETIMEDOUT 10.0.0.1:443'), { code: 'ETIMEDOUT', syscall: 'connect' })
  const classified = (cause: Error, phase: string) =>
    classify(new TypeError('terminated', { cause }), { boundary: 'model', phase }).category
  assert.equal(classified(late, 'stream'), 'model_stream_interrupted')
  assert.equal(classified(never, 'connect'), 'model_unreachable')
})
