/** Requests that never come to their end: their place is given to others. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { answer } from '../../model/test/fake-model.ts'
import { CHAT, post, stand } from './client.ts'

test('a body that does not come is cut off after its time, and its place is free again', async (t) => {
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
