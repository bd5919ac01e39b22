/** Without a fault the proxy is invisible. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { request } from 'node:http'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { type FaultProxyOptions, type ProxyEvent, startFaultProxy, startRehearsalModel } from '../src/index.ts'
import { dechunk, post, rawRequest } from './raw-client.ts'
import { sse, startUpstream, TEXT_EVENTS } from './sse-upstream.ts'

async function proxyTo(t: TestContext, upstream: string, options: Partial<FaultProxyOptions> = {}) {
  const proxy = await startFaultProxy({ upstream, ...options })
  t.after(() => proxy.close())
  return proxy
}

test('headers keep their case and order, and nothing is added', async (t) => {
  const upstream = await startUpstream((_req, res) => {
    res.sendDate = false
    res.writeHead(200, ['X-B', '1', 'x-A', '2', 'X-B', '3', 'Content-Length', '2'])
    res.end('ok')
  })
  t.after(() => upstream.close())
  const proxy = await proxyTo(t, upstream.url)
  const { text } = await rawRequest(proxy.port, 'GET /a HTTP/1.1\r\nHost: h\r\n\r\n', /ok$/)
  assert.equal(
    text,
    'HTTP/1.1 200 OK\r\nX-B: 1\r\nx-A: 2\r\nX-B: 3\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok',
  )
})

test('the upstream sees the client request, with its own host name', async (t) => {
  let seen = ''
  const upstream = await startUpstream((req, res) => {
    seen = `${req.method} ${req.url} ${req.headers.host} ${req.rawHeaders.includes('X-Odd-Case')}`
    res.end()
  })
  t.after(() => upstream.close())
  const proxy = await proxyTo(t, `${upstream.url}/v1/`)
  assert.equal(new URL(proxy.url).pathname, '/v1')
  await rawRequest(proxy.port, 'DELETE /v1/x?q=1 HTTP/1.1\r\nHost: h\r\nX-Odd-Case: 1\r\nConnection: close\r\n\r\n')
  assert.equal(seen, `DELETE /v1/x?q=1 127.0.0.1:${upstream.port} true`)
})

test('a compressed answer stays compressed; one with a planned body fault is requested uncompressed', async (t) => {
  const packed = gzipSync(TEXT_EVENTS.join(''))
  const upstream = await startUpstream((req, res) => {
    if (req.headers['accept-encoding'] !== 'gzip') return sse(TEXT_EVENTS)(req, res)
    res.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' }).end(packed)
  })
  t.after(() => upstream.close())
  const proxy = await proxyTo(t, upstream.url, { plan: 'at=2.1:early_end:1' })
  const ask = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n`
  const whole = await rawRequest(proxy.port, ask('/1'), /\r\n0\r\n\r\n$/)
  assert.ok(Buffer.from(dechunk(whole.text).body, 'latin1').equals(packed))
  const cut = await rawRequest(proxy.port, ask('/2'), /\r\n0\r\n\r\n$/)
  assert.equal(dechunk(cut.text).body, TEXT_EVENTS[0])
})

test('an answer that is delimited by the end of its connection still is', async (t) => {
  const upstream = await startUpstream((_req, res) => {
    res.socket?.end('HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nto the end')
  })
  t.after(() => upstream.close())
  const proxy = await proxyTo(t, upstream.url)
  const answer = await rawRequest(proxy.port, 'GET / HTTP/1.1\r\nHost: h\r\n\r\n')
  assert.match(answer.text, /^HTTP\/1\.1 200 OK\r\nContent-Type: text\/plain\r\nConnection: close\r\n\r\nto the end$/)
  assert.equal(answer.ending, 'end')
})

test('when a client disconnects its upstream request is aborted, during a stall too', async (t) => {
  for (const plan of ['', 'at=1.1:stall:60000:afterEvents=1']) {
    let left: () => void = () => {}
    const hasLeft = new Promise<void>((resolve) => {
      left = resolve
    })
    const upstream = await startUpstream((_req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write(TEXT_EVENTS[0])
      res.write(TEXT_EVENTS[1])
      res.on('close', left)
    })
    t.after(() => upstream.close())
    const events: ProxyEvent[] = []
    const proxy = await proxyTo(t, upstream.url, { plan, onEvent: (event) => events.push(event) })
    await rawRequest(proxy.port, post('/v1/chat/completions', {}), /piece 0/)
    await hasLeft
    assert.equal(events.filter((event) => event.type === 'upstream_failed').length, 0)
  }
})

test('an unreachable upstream is reported as such, not as an injected fault', async (t) => {
  const upstream = await startUpstream(() => {})
  await upstream.close()
  const proxy = await proxyTo(t, upstream.url, { plan: 'rate=1,faults=reset' })
  const answer = await fetch(`${proxy.url}/x`)
  assert.equal(answer.status, 502)
  assert.equal(answer.headers.get('x-breakfall-chaos'), 'upstream_failed')
  assert.match(await answer.text(), /ECONNREFUSED/)
  assert.deepEqual(
    proxy.injected.map((injection) => injection.outcome),
    ['missed'],
  )
})

test('an upstream that is not a URL is refused, and the message names it', async () => {
  for (const upstream of ['localhost:80', '', 'ftp://x/']) {
    await assert.rejects(startFaultProxy({ upstream }), /The upstream must be an http or https URL, got /)
  }
})

test('an upstream that breaks inside its answer breaks the client too', async (t) => {
  const upstream = await startUpstream((_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(TEXT_EVENTS[0], () => setTimeout(() => res.socket?.resetAndDestroy(), 5))
  })
  t.after(() => upstream.close())
  const proxy = await proxyTo(t, upstream.url)
  const answer = await rawRequest(proxy.port, post('/v1/chat/completions', {}))
  assert.equal(dechunk(answer.text).body, TEXT_EVENTS[0])
  assert.equal(answer.ending, 'reset')
})

test('requests that do not match method and path are neither hit nor counted', async (t) => {
  const upstream = await startUpstream((_req, res) => res.end('ok'))
  t.after(() => upstream.close())
  const proxy = await proxyTo(t, upstream.url, { plan: 'rate=1,faults=status:503,method=POST,path=/v1/chat' })
  assert.equal((await fetch(`${proxy.url}/v1/models`)).status, 200)
  assert.equal((await fetch(`${proxy.url}/v1/chat/completions`, { method: 'POST', body: '1' })).status, 503)
  assert.deepEqual(
    proxy.injected.map(({ request: number }) => number),
    [1],
  )
})

test('the same body is another attempt at the same request, another body another request', async (t) => {
  const upstream = await startUpstream((_req, res) => res.end('ok'))
  t.after(() => upstream.close())
  const proxy = await proxyTo(t, upstream.url, { plan: 'rate=1,faults=status' })
  for (const body of ['a', 'a', 'b', 'a']) await fetch(proxy.url, { method: 'POST', body })
  assert.deepEqual(
    proxy.injected.map((injection) => [injection.request, injection.attempt]),
    [
      [1, 1],
      [1, 2],
      [2, 1],
      [1, 3],
    ],
  )
})

test('plain JSON answers can be cut too', async (t) => {
  const model = await startRehearsalModel()
  t.after(() => model.close())
  const proxy = await proxyTo(t, model.url, { plan: 'by=ordinal' })
  const body = { model: 'rehearsal/steps-3', messages: [{ role: 'user', content: 'go' }] }
  const whole = await (
    await fetch(`${model.url}/chat/completions`, { method: 'POST', body: JSON.stringify(body) })
  ).text()
  const ask = async (fault: string): Promise<string> => {
    proxy.use(`rate=1,faults=${fault}`)
    return (await rawRequest(proxy.port, post('/v1/chat/completions', body), /\r\n0\r\n\r\n$/)).text
  }
  assert.ok((await ask('reset')).endsWith(`\r\n\r\n${whole.slice(0, Math.floor(whole.length / 2))}`))
  assert.equal(dechunk(await ask('early_end')).body, whole.slice(0, Math.floor(whole.length / 2)))
  assert.deepEqual({ ...dechunk(await ask('missing_last_chunk')), head: '' }, { head: '', body: whole, isWhole: false })
  assert.match(dechunk(await ask('cut_tool_arguments:false')).body, /"finish_reason":null/)
  assert.match(dechunk(await ask('in_band_error')).body, /^\{"error":\{"message":"Overloaded"/)
  assert.deepEqual(
    proxy.injected.map((injection) => injection.outcome),
    Array.from({ length: 5 }, () => 'injected'),
  )
})

test('a body over the limit is refused before the upstream is contacted', async (t) => {
  const upstream = await startUpstream((_req, res) => res.end('ok'))
  t.after(() => upstream.close())
  const proxy = await proxyTo(t, upstream.url, { bodyBytesMax: 10 })
  assert.equal((await fetch(proxy.url, { method: 'POST', body: 'x'.repeat(11) })).status, 413)
  assert.equal(upstream.count, 0)
})

test('an upgraded connection passes bytes both ways', async (t) => {
  const { createServer } = await import('node:http')
  const server = createServer()
  server.on('upgrade', (req, socket) => {
    const accept = createHash('sha1').update(String(req.headers['sec-websocket-key'])).digest('hex')
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\nX-Key: ${accept}\r\n\r\n`)
    socket.pipe(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const { port } = server.address() as { port: number }
  const proxy = await proxyTo(t, `http://127.0.0.1:${port}`)
  const echoed = await new Promise<string>((resolve, reject) => {
    const req = request({
      port: proxy.port,
      headers: { connection: 'Upgrade', upgrade: 'x', 'sec-websocket-key': 'k' },
    })
    req.on('upgrade', (_res, socket) => {
      socket.on('data', (bytes: Buffer) => {
        socket.destroy()
        resolve(bytes.toString())
      })
      socket.write('there and back')
    })
    req.on('error', reject).end()
  })
  assert.equal(echoed, 'there and back')
})

test('close ends open connections and frees the port', async () => {
  const upstream = await startUpstream((_req, res) => void res.writeHead(200).write('begun'))
  const proxy = await startFaultProxy({ upstream: upstream.url })
  const open = rawRequest(proxy.port, 'GET / HTTP/1.1\r\nHost: h\r\n\r\n')
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      if (upstream.count === 0) return
      clearInterval(timer)
      resolve()
    }, 1)
  })
  await proxy.close()
  assert.equal((await open).ending, 'reset')
  await upstream.close()
  const refused = await new Promise((resolve) => connect(proxy.port, '127.0.0.1').on('error', resolve))
  assert.match(String(refused), /ECONNREFUSED/)
})

test('a fault for the next request comes once, before what the plan says, and a wrong one is refused', async (t) => {
  const upstream = await startUpstream((_req, res) => res.end('ok'))
  t.after(() => upstream.close())
  const proxy = await proxyTo(t, upstream.url, { plan: { method: 'POST' } })
  proxy.once('status:429:retryAfter=5s')
  proxy.once({ kind: 'status', status: 503 })
  assert.throws(() => proxy.once('explode'), /faults\.0/)
  assert.equal(proxy.waiting, 2)
  const ask = (method: string) => fetch(proxy.url, { method })
  assert.equal((await ask('GET')).status, 200, 'it is not counted')
  const first = await ask('POST')
  assert.deepEqual([first.status, first.headers.get('retry-after')], [429, '5'])
  assert.deepEqual([(await ask('POST')).status, (await ask('POST')).status, proxy.waiting], [503, 200, 0])
})
