/** Clients that do not finish sending, and clients that do not read. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { answer, finish, role, text } from '../../../../test/kit/openai-frames.ts'
import { head, json, lastChunk, perform, type Play } from '../../../../test/kit/plays.ts'
import { eventually } from '../../../../test/kit/wait.ts'
import { CHAT, post, stand } from '../client.ts'

test('a body that does not arrive is cut off after its time limit, and its place is free again', async (t) => {
  const { gateway } = await stand(t, [answer('hi')], { limits: { requestMs: 300, requestsMax: 1 } })
  const socket = connect(gateway.port, '127.0.0.1')
  socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000\r\n\r\n{')
  const [said] = (await once(socket, 'data')) as [Buffer]
  assert.match(said.toString(), /^HTTP\/1\.1 408 /)
  await once(socket, 'close')
  const res = await post(`${gateway.url}/chat/completions`, CHAT)
  assert.equal(res.status, 200)
  assert.match(await res.text(), /hi/)
})

test('a client that does not read an answer in one piece counts until it is disconnected', async (t) => {
  const content = 'x'.repeat(20_000_000) // more than the kernel holds between the two ends
  const whole = json(200, { choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }] })
  const { gateway } = await stand(t, [whole], { limits: { clientStuckMs: 300, requestsMax: 1 } })
  const socket = connect(gateway.port, '127.0.0.1')
  const body = JSON.stringify({ ...CHAT, stream: false })
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  await once(socket, 'readable')
  assert.equal((await post(`${gateway.url}/chat/completions`, CHAT)).status, 429)
  await eventually('the client is disconnected', () => gateway.stats().live.length === 0)
  socket.on('error', () => undefined) // it was cut off in the middle
  socket.resume()
  await once(socket, 'close')
  assert.ok(socket.bytesRead < content.length)
})

test('a slow client holds the upstream back instead of filling memory', async (t) => {
  const piecesMax = 40_000 // 160 MB: more than all buffers of any kernel between the two ends
  const big = 'x'.repeat(4_000)
  let written = 0
  let isReading = false
  const pour: Play = async (exchange) => {
    while (!isReading && written < piecesMax) {
      await perform(text(big), exchange)
      written++
    }
  }
  const { gateway } = await stand(t, [[head(), role, pour, finish('stop'), lastChunk]])
  const { port } = gateway
  const socket = connect(port, '127.0.0.1')
  const body = JSON.stringify(CHAT)
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  await once(socket, 'readable')
  socket.read(10)
  let before = -1
  // Until nothing moves: all buffers between the two ends are full.
  while (written !== before) {
    before = written
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  assert.ok(written < piecesMax, 'everything was taken from the upstream')
  isReading = true
  let got = 0
  let tail = ''
  socket.on('data', (chunk: Buffer) => {
    got += chunk.length
    tail = (tail + chunk.toString('latin1')).slice(-200)
    if (tail.includes('[DONE]')) socket.end()
  })
  socket.resume()
  await once(socket, 'close')
  assert.ok(got > written * big.length)
})
