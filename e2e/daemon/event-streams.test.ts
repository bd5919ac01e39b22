/** Events over SSE and WebSocket: cursors, replay, resets, tokens, slow readers. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { shared } from '../shared.ts'
import { type Event } from './client.ts'
import { Rig } from './rig.ts'
import { ask, bash, cutAfter, refuse, say, stallAfter } from '../answers.ts'
import { isFault, isHistory, isSession } from './shapes.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

const rig = await shared(Rig.start())

const seqs = (events: readonly Event[]): number[] => events.map(({ seq }) => seq)
const NO_SESSION = '01990000-0000-7000-8000-000000000000'

describe('server-sent events', LIMIT, () => {
  test('each frame has the id JOURNAL-SEQ, the type as event name, and JSON data', async () => {
    const { id } = await rig.session([say('a'), say('b')])
    await rig.wholeTurn(id)
    const stream = await rig.events(id)
    await stream.type('turn-end')
    assert.match(String(stream.headers['content-type']), /^text\/event-stream/)
    assert.ok(stream.headers['x-request-id'])
    const journals = new Set<string>()
    for (const { id: cursor, event, data } of stream.frames) {
      const [, journal, seq] = /^(.+)-(\d+)$/.exec(cursor ?? '') ?? []
      assert.ok(journal !== undefined, `${cursor} is JOURNAL-SEQ`)
      journals.add(journal)
      assert.equal(Number(seq), data.seq)
      assert.equal(event, data.type)
    }
    assert.equal(journals.size, 1)
  })

  test('after and Last-Event-ID accept a cursor or a bare seq, and continue right after it', async () => {
    const { id } = await rig.session([say('one'), say('two')])
    await rig.wholeTurn(id)
    const whole = await rig.events(id)
    await whole.type('turn-end')
    const cursor = whole.cursor(1)
    for (const stream of [
      await rig.events(id, '?after=2'),
      await rig.events(id, `?after=${encodeURIComponent(cursor)}`),
      await rig.events(id, '', { 'last-event-id': '2' }),
      await rig.events(id, '', { 'last-event-id': cursor }),
      await rig.events(id, '?after=0', { 'last-event-id': cursor }), // as a reconnecting EventSource does
    ]) {
      await stream.type('turn-end')
      assert.deepEqual(stream.frames, whole.frames.slice(2))
      stream.close()
    }
  })

  test('a stream opened at the head waits and then sends only new events', async () => {
    const { id } = await rig.session([say('one'), say('two')])
    const { last } = await rig.wholeTurn(id)
    const stream = await rig.events(id, `?after=${last.seq}`)
    const second = await rig.prompt(id, 'again')
    await stream.ended(second.json.turnId)
    assert.deepEqual(
      seqs(stream.events),
      seqs(stream.events).map((_, i) => last.seq + 1 + i),
    )
    assert.equal(stream.events[0]?.type, 'turn-start')
    assert.equal(stream.events[0]?.seq, second.json.seq)
  })

  test('a cursor beyond the head or from another journal gets one reset with a reason, then everything', async () => {
    const other = await rig.session([say('x')])
    await rig.wholeTurn(other.id)
    const foreign = await rig.events(other.id)
    await foreign.type('turn-end')
    const { id } = await rig.session([say('mine')])
    const { events } = await rig.wholeTurn(id)
    for (const after of ['9999', foreign.cursor(1), `${foreign.cursor().replace(/-\d+$/, '')}-9999`]) {
      for (const stream of [
        await rig.events(id, `?after=${encodeURIComponent(after)}`),
        await rig.events(id, '', { 'last-event-id': after }),
      ]) {
        await stream.type('turn-end')
        const [reset, ...rest] = stream.frames
        assert.equal(reset?.event, 'reset', JSON.stringify(reset))
        assert.equal(reset.id, undefined)
        assert.ok(typeof reset.data.reason === 'string' && reset.data.reason !== '', JSON.stringify(reset))
        assert.deepEqual(
          rest.map(({ data }) => data),
          events,
        )
        stream.close()
      }
    }
  })
})

describe('the WebSocket', LIMIT, () => {
  test('sends the same events in the same order as the event stream', async () => {
    const { id } = await rig.session([cutAfter('lost'), ask([bash('echo hi')], 'so: '), say('done')])
    const stream = await rig.events(id)
    const socket = await rig.socket()
    const subscribed = await socket.call('subscribe', { sessionId: id, after: 0 })
    assert.ok('result' in subscribed, JSON.stringify(subscribed))
    const reply = await socket.call('prompt', { sessionId: id, prompt: 'go' })
    assert.equal(typeof reply.result.turnId, 'string')
    assert.equal(reply.result.seq, 1)
    await stream.ended(reply.result.turnId)
    await socket.until(({ type }) => type === 'turn-end')
    isHistory(socket.events)
    assert.deepEqual(socket.events, stream.events)
  })

  test('replays from a bare seq or a cursor, then continues live', async () => {
    const { id } = await rig.session([say('one'), say('two')])
    const { last } = await rig.wholeTurn(id)
    const stream = await rig.events(id)
    await stream.type('turn-end')
    for (const after of [2, stream.cursor(1)]) {
      const socket = await rig.socket()
      const subscribed = await socket.call('subscribe', { sessionId: id, after })
      assert.ok('result' in subscribed, JSON.stringify(subscribed))
      await socket.until(({ type }) => type === 'turn-end')
      assert.deepEqual(seqs(socket.events), seqs(stream.events).slice(2))
      socket.close()
    }
    const socket = await rig.socket()
    await socket.call('subscribe', { sessionId: id, after: last.seq })
    const reply = await socket.call('prompt', { sessionId: id, prompt: 'again' })
    await socket.until((event) => event.turnId === reply.result.turnId && event.type === 'turn-end')
    assert.equal(socket.events[0]?.seq, last.seq + 1)
  })

  test('lists sessions and shows one, like HTTP', async () => {
    const { id } = await rig.session([], { title: 'over the socket' })
    const socket = await rig.socket()
    const list = await socket.call('sessions', {})
    for (const session of list.result.sessions) isSession(session)
    assert.ok(list.result.sessions.some((session: { id: string }) => session.id === id))
    const one = await socket.call('session', { sessionId: id })
    assert.deepEqual(one.result, (await rig.call('GET', `/v1/sessions/${id}`)).json)
  })

  test('prompts once per idempotency key', async () => {
    const { id } = await rig.session([say('once'), say('twice')])
    const socket = await rig.socket()
    const params = { sessionId: id, prompt: 'go', idempotencyKey: 'ws-1' }
    const first = await socket.call('prompt', params)
    const again = await socket.call('prompt', params)
    assert.deepEqual(again.result, first.result)
    const http = await rig.prompt(id, 'go', {}, { 'idempotency-key': 'ws-1' })
    assert.deepEqual(http.json, first.result, 'the same key over HTTP means the same prompt')
    isFault((await socket.call('prompt', { ...params, prompt: 'other' })).error, 'idempotency_conflict')
  })

  test('cancels and resumes turns', async () => {
    const { id } = await rig.session([
      refuse(401, { message: 'Incorrect API key provided', type: 'invalid_request_error', code: 'invalid_api_key' }),
      stallAfter('woken'),
    ])
    const socket = await rig.socket()
    await socket.call('subscribe', { sessionId: id, after: 0 })
    const { turnId } = (await socket.call('prompt', { sessionId: id, prompt: 'go' })).result
    await socket.until(({ type }) => type === 'parked')
    const resumed = await socket.call('resume', { turnId })
    assert.ok('result' in resumed, JSON.stringify(resumed))
    await socket.until(({ type }) => type === 'text-delta')
    isFault((await socket.call('resume', { turnId })).error, 'turn_not_parked')
    const cancelled = await socket.call('cancel', { turnId, reason: 'by socket' })
    assert.ok('result' in cancelled, JSON.stringify(cancelled))
    const last = await socket.until(({ type }) => type === 'turn-error')
    assert.equal(last['category'], 'cancelled')
    assert.equal(last['actor'], 'user')
    assert.equal(last['reason'], 'by socket')
  })

  test('answers every mistake with a fault report under the same id, and stays open', async () => {
    const { id } = await rig.session([stallAfter('…')])
    const socket = await rig.socket()
    const { turnId } = (await socket.call('prompt', { sessionId: id, prompt: 'go' })).result
    const busy = await socket.call('prompt', { sessionId: id, prompt: 'me too' })
    isFault(busy.error, 'session_busy')
    assert.equal(busy.error.turnId, turnId)
    for (const [method, params, category] of [
      ['prompt', { sessionId: NO_SESSION, prompt: 'x' }, 'not_found'],
      ['session', { sessionId: NO_SESSION }, 'not_found'],
      ['subscribe', { sessionId: NO_SESSION, after: 0 }, 'not_found'],
      ['cancel', { turnId: NO_SESSION }, 'not_found'],
      ['resume', { turnId: NO_SESSION }, 'not_found'],
      ['prompt', { sessionId: id }, 'invalid_request'],
      ['prompt', { sessionId: id, prompt: 'x', promt: 'y' }, 'invalid_request'],
      ['subscribe', {}, 'invalid_request'],
    ] as const)
      isFault((await socket.call(method, params)).error, category)
    isFault((await socket.call('dance', {})).error)
    socket.ws.send('this is not JSON')
    isFault(
      (await socket.message((message) => message.error !== undefined && typeof message.id !== 'number')).error,
      'invalid_request',
    )
    assert.ok('result' in (await socket.call('session', { sessionId: id })), 'the socket stays open')
    await socket.call('cancel', { turnId })
  })

  test('unsubscribe stops the events and nothing else', async () => {
    const { id } = await rig.session([say('one'), say('two')])
    const socket = await rig.socket()
    await socket.call('subscribe', { sessionId: id, after: 0 })
    const first = (await socket.call('prompt', { sessionId: id, prompt: 'a' })).result
    await socket.until((event) => event.turnId === first.turnId && event.type === 'turn-end')
    const gone = await socket.call('unsubscribe', { sessionId: id })
    assert.ok('result' in gone, JSON.stringify(gone))
    const count = socket.events.length
    const second = (await socket.call('prompt', { sessionId: id, prompt: 'b' })).result
    await eventually(
      'the turn ends',
      async () => (await rig.call('GET', `/v1/turns/${second.turnId}`)).json.state === 'finished',
    )
    await socket.call('sessions', {})
    assert.equal(socket.events.length, count)
  })

  test('accepts the token as a header or as subprotocols, and answers with breakfall.v1', async () => {
    const socket = await rig.socket({ protocols: ['breakfall.v1', `breakfall.token.${rig.token}`] })
    assert.equal(socket.ws.protocol, 'breakfall.v1')
    assert.ok('result' in (await socket.call('sessions', {})))
    for (const how of [
      { headers: {} },
      { headers: { authorization: 'Bearer wrong' } },
      { protocols: ['breakfall.v1'] },
      { protocols: ['breakfall.v1', 'breakfall.token.wrong'] },
    ])
      await assert.rejects(rig.socket(how), { status: 401 })
  })

  test('refuses a foreign Origin or Host, even with a valid token', async () => {
    const authorization = `Bearer ${rig.token}`
    await assert.rejects(rig.socket({ headers: { authorization, origin: 'http://evil.example' } }), { status: 403 })
    await assert.rejects(rig.socket({ headers: { authorization, host: 'evil.example' } }), { status: 403 })
    const own = await rig.socket({ headers: { authorization, origin: rig.url } })
    assert.ok('result' in (await own.call('sessions', {})))
  })
})
