/** Toxics as a raw socket sees them, each in its direction. */
import assert from 'node:assert/strict'
import { createServer, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { startFaultProxy, startTcpProxy, type TcpProxy, type TcpProxyOptions } from '../src/index.ts'
import { dechunk, rawRequest } from './raw-client.ts'
import { sse, startUpstream, TEXT_EVENTS } from './sse-upstream.ts'

const TEXT = 'x'.repeat(4_000)

/** A server that waits for one line, answers with a text and closes. */
async function start(
  t: TestContext,
  toxics: TcpProxyOptions['toxics'],
  onSocket: (socket: Socket) => void = (socket) => socket.once('data', () => socket.end(TEXT)),
): Promise<TcpProxy> {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    onSocket(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const proxy = await startTcpProxy({
    upstream: { port: (server.address() as AddressInfo).port },
    toxics: toxics ?? [],
  })
  t.after(() => proxy.close())
  return proxy
}

async function timed<T>(run: () => Promise<T>): Promise<{ value: T; ms: number }> {
  const startedAt = performance.now()
  const value = await run()
  return { value, ms: performance.now() - startedAt }
}

test('without toxics every byte passes, and so does the end', async (t) => {
  const proxy = await start(t, [])
  assert.deepEqual(await rawRequest(proxy.port, 'go\n'), { text: TEXT, ending: 'end', error: null })
})

test('latency delays, and overlaps instead of adding up', async (t) => {
  const proxy = await start(t, [{ type: 'latency', attributes: { latency: 60, jitter: 0 } }])
  const { value, ms } = await timed(() => rawRequest(proxy.port, 'go\n'))
  assert.equal(value.text, TEXT)
  assert.ok(ms >= 59, String(ms))
})

test('latency with jitter keeps many small chunks in order', async (t) => {
  const text = Array.from({ length: 150 }, (_, i) => `${i} `).join('')
  const toxics: TcpProxyOptions['toxics'] = [
    { type: 'slicer', attributes: { average_size: 3, size_variation: 2, delay: 0 } },
    { type: 'latency', attributes: { latency: 4, jitter: 4 } },
  ]
  const proxy = await start(t, toxics, (socket) => socket.once('data', () => socket.end(text)))
  assert.equal((await rawRequest(proxy.port, 'go\n')).text, text)
})

test('bandwidth limits the speed', async (t) => {
  const proxy = await start(t, [{ type: 'bandwidth', attributes: { rate: 50 } }]) // 4,000 bytes at 50 KB/s: 80 ms
  const { value, ms } = await timed(() => rawRequest(proxy.port, 'go\n'))
  assert.equal(value.text, TEXT)
  assert.ok(ms >= 79, String(ms))
})

test('slicer splits data into small chunks and loses nothing', async (t) => {
  const proxy = await start(t, [{ type: 'slicer', attributes: { average_size: 40, size_variation: 20, delay: 1 } }])
  assert.equal((await rawRequest(proxy.port, 'go\n')).text, TEXT)
})

test('slow_close delays only the end', async (t) => {
  const proxy = await start(t, [{ type: 'slow_close', attributes: { delay: 70 } }])
  const { value, ms } = await timed(() => rawRequest(proxy.port, 'go\n'))
  assert.equal(value.text, TEXT)
  assert.ok(ms >= 69, String(ms))
})

test('limit_data passes that many bytes and closes', async (t) => {
  const proxy = await start(t, [{ type: 'limit_data', attributes: { bytes: 123 } }])
  const answer = await rawRequest(proxy.port, 'go\n')
  assert.deepEqual(answer, { text: 'x'.repeat(123), ending: 'end', error: null })
})

test('limit_data counts across chunks', async (t) => {
  const proxy = await start(t, [{ type: 'limit_data', attributes: { bytes: 150 } }], (socket) =>
    socket.once('data', () => {
      socket.write('x'.repeat(100))
      setTimeout(() => socket.write('y'.repeat(100)), 20)
    }),
  )
  assert.equal((await rawRequest(proxy.port, 'go\n')).text, 'x'.repeat(100) + 'y'.repeat(50))
})

test('timeout passes nothing and closes', async (t) => {
  const proxy = await start(t, [{ type: 'timeout', attributes: { timeout: 40 } }])
  const { value, ms } = await timed(() => rawRequest(proxy.port, 'go\n'))
  assert.deepEqual(value, { text: '', ending: 'end', error: null })
  assert.ok(ms >= 39, String(ms))
})

test('reset_peer passes nothing and resets', async (t) => {
  const proxy = await start(t, [{ type: 'reset_peer', attributes: { timeout: 10 } }])
  assert.deepEqual(await rawRequest(proxy.port, 'go\n'), { text: '', ending: 'reset', error: 'ECONNRESET' })
})

test('an upstream toxic keeps the request from the server', async (t) => {
  let received = 0
  const proxy = await start(t, [{ type: 'timeout', stream: 'upstream', attributes: { timeout: 30 } }], (socket) =>
    socket.on('data', (bytes) => (received += bytes.length)),
  )
  assert.equal((await rawRequest(proxy.port, 'go\n')).text, '')
  assert.equal(received, 0)
})

test('toxicity is decided per connection, and the same way for the same seed', async (t) => {
  const outcomes = async (): Promise<string[]> => {
    const proxy = await start(t, [{ type: 'reset_peer', toxicity: 0.5, attributes: { timeout: 0 } }])
    const list: string[] = []
    for (let i = 0; i < 12; i += 1) list.push((await rawRequest(proxy.port, 'go\n')).ending)
    return list
  }
  const first = await outcomes()
  assert.deepEqual(new Set(first), new Set(['end', 'reset']))
  assert.deepEqual(await outcomes(), first)
})

test('down refuses, up accepts again on the same port, new toxics apply to new connections', async (t) => {
  const proxy = await start(t, [])
  await proxy.down()
  assert.equal((await rawRequest(proxy.port, 'go\n')).error, 'ECONNREFUSED')
  await proxy.up()
  assert.equal((await rawRequest(proxy.port, 'go\n')).text, TEXT)
  proxy.setToxics([{ type: 'down' }])
  assert.equal((await rawRequest(proxy.port, 'go\n')).text, '')
})

test('toxics work below HTTP faults', async (t) => {
  const upstream = await startUpstream(sse(TEXT_EVENTS))
  t.after(() => upstream.close())
  const toxics = 'toxics=slicer:20:size_variation=5:delay=0+latency:5'
  const proxy = await startFaultProxy({ upstream: upstream.url, plan: `at=1.1:reset:3+2.1:fin:2,${toxics}` })
  t.after(() => proxy.close())
  const ask = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: h\r\n\r\n`
  assert.equal((await rawRequest(proxy.port, ask('/1'))).ending, 'reset')
  const cut = await rawRequest(proxy.port, ask('/2'))
  assert.deepEqual([dechunk(cut.text).body, cut.ending], [TEXT_EVENTS.slice(0, 2).join(''), 'end'])
  const whole = await rawRequest(proxy.port, ask('/3'), /\r\n0\r\n\r\n$/)
  assert.equal(dechunk(whole.text).body, TEXT_EVENTS.join(''))
})

test('an error on one side resets the other', async (t) => {
  const proxy = await start(t, [], (socket) => socket.once('data', () => socket.resetAndDestroy()))
  assert.equal((await rawRequest(proxy.port, 'go\n')).ending, 'reset')
})
