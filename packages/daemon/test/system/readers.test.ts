import { LIMIT, WAIT_MS } from '../../../../test/kit/wait.ts'
import { atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { assertNoGap, type Api } from '../support/api.ts'
import { rig } from '../support/setup.ts'

/** A reader that asks for the events and then takes nothing. */
async function stuckReader(api: Api, sessionId: string): Promise<Socket> {
  const { hostname, port } = new URL(api.url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  socket.write(
    `GET /v1/sessions/${sessionId}/events HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${api.token}\r\n\r\n`,
  )
  await once(socket, 'readable')
  socket.pause()
  return socket
}

test(
  'readers that read nothing are closed with a reason, resume by cursor, and affect no other reader',
  LIMIT,
  async (t) => {
    const text = 'a line of some length to fill the pipes with\n'.repeat(140_000)
    const { api, daemon } = await rig(t, () => ({ text, pieceChars: 250_000 }), {
      limits: { readerLagBytesMax: 1_000_000, readerStallMsMax: WAIT_MS, readerLingerMs: WAIT_MS },
    })
    const { id } = await api.session()
    const slow = await stuckReader(api, id)
    const slowSocket = new WebSocket(`${daemon.url.replace('http', 'ws')}/v1/ws`, [
      'breakfall.v1',
      `breakfall.token.${daemon.token}`,
    ])
    atEnd(t, () => [slow.destroy(), slowSocket.terminate()])
    await once(slowSocket, 'open')
    slowSocket.send(JSON.stringify({ id: 1, method: 'subscribe', params: { sessionId: id } }))
    await once(slowSocket, 'message')
    slowSocket.pause()
    // The kernel takes megabytes on a reader's behalf before that reader is behind.
    let turnId = ''
    for (let turns = 0; turns < 4; turns += 1) {
      turnId = await api.prompt(id, 'talk')
      await api.ended(id, turnId)
    }
    const all = await api.ended(id, turnId)
    assertNoGap(all)
    const received: Buffer[] = []
    const answered = new Promise<void>((resolve) => {
      slow.on('data', (chunk: Buffer) => {
        received.push(chunk)
        if (chunk.subarray(-5).toString() === '0\r\n\r\n') resolve() // the last chunk of the answer
      })
    })
    const closing = once(slowSocket, 'close') as Promise<[number, Buffer]>
    slow.resume()
    slowSocket.resume()
    const [[code, reason]] = await Promise.all([closing, answered])
    assert.deepEqual([code, reason.toString()], [4008, 'slow_consumer'])
    const said = Buffer.concat(received).toString('utf8')
    assert.match(said.slice(-300), /event: closed\ndata: \{"reason":"slow_consumer"\}/)
    const lastId = [...said.matchAll(/^id: (\S+)$/gm)].at(-1)?.[1] ?? ''
    const rest = await api.ended(id, turnId, lastId)
    assert.deepEqual(rest, all.slice(all.length - rest.length))
    assert.equal(rest[0]?.seq, Number(lastId.split('-').at(-1)) + 1)
  },
)

test('twenty readers that stop in the middle of a giant event hold one copy of it', LIMIT, async (t) => {
  const READERS = 20
  const GIANT = 12_000_000 // more than the kernel takes on a reader's behalf
  const { api } = await rig(t, () => ({ text: 'g'.repeat(GIANT), pieceChars: GIANT }))
  const { id } = await api.session()
  const all = await api.ended(id, await api.prompt(id, 'talk'))
  assert.ok(all.some((event) => JSON.stringify(event).length > GIANT))
  const before = process.memoryUsage().arrayBuffers
  for (let n = 0; n < READERS; n += 1) {
    const slow = await stuckReader(api, id)
    atEnd(t, () => slow.destroy())
  }
  // What another reader takes whole was read and sent after all of them were given theirs.
  assert.deepEqual(await api.ended(id, all.at(-1)?.turnId ?? ''), all)
  const heldMb = (process.memoryUsage().arrayBuffers - before) / 1e6
  assert.ok(heldMb < (READERS * GIANT) / 2e6, `${Math.round(heldMb)} MB are held`)
})

test('a thousand subscribers all see the whole turn, in order', LIMIT, async (t) => {
  const { api } = await rig(t, () => ({ text: 'one two three four five six', pauseMs: 30, pieceChars: 5 }))
  const { id } = await api.session()
  const readers = Array.from({ length: 1_000 }, () => api.events(id))
  const turnId = await api.prompt(id, 'talk')
  const seen = await Promise.all(readers)
  const whole = JSON.stringify(await api.ended(id, turnId))
  assert.ok(seen.every((events) => JSON.stringify(events) === whole))
})

test('a client that sends requests and never reads is paused: its pending responses are bounded', LIMIT, async (t) => {
  const ASKED = 1_200
  const { api, daemon } = await rig(t, () => ({}))
  for (let n = 0; n < 40; n += 1) await api.session({ title: 'x'.repeat(500), model: 'y'.repeat(200) })
  const list = t.mock.method(daemon.sessions, 'list')
  const headers = { authorization: `Bearer ${daemon.token}` }
  const socket = new WebSocket(`${daemon.url.replace('http', 'ws')}/v1/ws`, { headers })
  atEnd(t, () => socket.terminate())
  await once(socket, 'open')
  const answered = new Set<unknown>()
  const all = new Promise<void>((resolve) => {
    socket.on('message', (data) => {
      answered.add((JSON.parse((data as Buffer).toString()) as { id: unknown }).id)
      if (answered.size === ASKED) resolve()
    })
  })
  socket.pause()
  for (let id = 0; id < ASKED; id += 1) socket.send(JSON.stringify({ id, method: 'sessions' }))
  // The kernel takes some megabytes on its behalf. All of its questions would have been answered before these.
  for (let n = 0; n < 100; n += 1) await api.call('GET', '/v1/sessions')
  assert.ok(list.mock.callCount() < ASKED / 2, `${list.mock.callCount()} were answered`)
  socket.resume()
  await all // each of them, once it reads
})

test('a tail claims nothing: reading a session over SSE, WebSocket and JSON leaves its epoch as it is', async (t) => {
  const first = await rig(t, () => ({ text: 'done' }))
  const { api, stateDir } = first
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  await api.ended(id, turnId)
  const { api: again, daemon } = await first.restart() // the session is not in memory any more
  const epochOf = (): unknown => {
    using journal = new DatabaseSync(join(stateDir, 'journal', 'journal.db'), { readOnly: true })
    return journal.prepare('SELECT epoch FROM sessions WHERE id = ?').get(id)
  }
  const before = epochOf()
  await again.ended(id, turnId)
  await again.turn(turnId)
  await again.call('GET', `/v1/sessions/${id}`)
  const socket = new WebSocket(`${daemon.url.replace('http', 'ws')}/v1/ws`, [
    'breakfall.v1',
    `breakfall.token.${daemon.token}`,
  ])
  atEnd(t, () => socket.terminate())
  await once(socket, 'open')
  socket.send(JSON.stringify({ id: 1, method: 'subscribe', params: { sessionId: id } }))
  await once(socket, 'message')
  assert.deepEqual(epochOf(), before)
  await again.ended(id, await again.prompt(id, 'go on'))
  assert.notDeepEqual(epochOf(), before)
})
