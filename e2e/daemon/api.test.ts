/** The daemon's HTTP API, tested against the contract alone: sessions, turns, events, keys and queue. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { shared } from '../shared.ts'
import { present } from './client.ts'
import { assembled, Rig, sleeps } from './rig.ts'
import { ask, bash, say, sayWhen, stallAfter } from '../answers.ts'
import { isHistory, isProblem, isSession, isTurn } from './shapes.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

const rig = await shared(Rig.start())

describe('sessions', LIMIT, () => {
  test('the listening line contains the url, the pid, the runner and the token file', () => {
    assert.match(rig.listening.url, /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.ok(Number.isInteger(rig.listening.pid))
    assert.match(rig.listening.runner.url, /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.equal(typeof rig.listening.runner.runnerId, 'string')
    assert.ok(rig.token.length >= 16)
  })

  test('a new session is idle, empty and has the settings of its request', async () => {
    const made = await rig.call('POST', '/v1/sessions', { body: { title: 'first', model: 'some-model' } })
    assert.equal(made.status, 201, made.text)
    assert.ok(made.headers['x-request-id'])
    isSession(made.json)
    const { id, ...rest } = made.json
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-/)
    assert.equal(rest.title, 'first')
    assert.equal(rest.model, 'some-model')
    assert.equal(rest.state, 'idle')
    assert.equal(rest.turnId, null)
    assert.equal(rest.lastSeq, 0)
    assert.equal(rest.boxId, id, 'the box id is the session id')
  })

  test('a session created without settings has no title and the configured model', async () => {
    const made = await rig.call('POST', '/v1/sessions', { body: {} })
    assert.equal(made.status, 201, made.text)
    assert.equal(made.json.title, null)
    assert.equal(made.json.model, 'any')
  })

  test('a session is found by its id and in the list', async () => {
    const { id } = await rig.session([])
    const one = await rig.call('GET', `/v1/sessions/${id}`)
    assert.equal(one.status, 200)
    isSession(one.json)
    const list = await rig.call('GET', '/v1/sessions')
    assert.equal(list.status, 200)
    assert.ok(Array.isArray(list.json.sessions))
    for (const session of list.json.sessions) isSession(session)
    assert.ok(list.json.sessions.some((session: { id: string }) => session.id === id))
  })

  test('a deleted session is gone, and deleting it again is 404', async () => {
    const { id } = await rig.session([say('x')])
    await rig.wholeTurn(id)
    assert.equal((await rig.call('DELETE', `/v1/sessions/${id}`)).status, 204)
    isProblem(await rig.call('GET', `/v1/sessions/${id}`), 404, 'not_found')
    isProblem(await rig.call('DELETE', `/v1/sessions/${id}`), 404, 'not_found')
    isProblem(await rig.prompt(id, 'more'), 404, 'not_found')
    isProblem(await rig.call('GET', `/v1/sessions/${id}/events`), 404, 'not_found')
  })

  test('a session with a running tool can be deleted, and its process ends', async () => {
    const { id } = await rig.session([ask([bash('sleep 7001.25')])])
    const { events } = await rig.turn(id)
    await events.type('tool-call')
    await eventually('the tool runs', () => sleeps('7001.25'))
    assert.equal((await rig.call('DELETE', `/v1/sessions/${id}`)).status, 204)
    await eventually('the tool is gone', () => !sleeps('7001.25'))
    isProblem(await rig.call('GET', `/v1/sessions/${id}`), 404, 'not_found')
  })
})

describe('turns', LIMIT, () => {
  test('a turn of text: receipt, events in order, answer, usage', async () => {
    const { id } = await rig.session([say('Hello ', 'there', '.')])
    const receipt = await rig.prompt(id, 'greet me')
    assert.equal(receipt.status, 202)
    assert.equal(receipt.json.seq, 1, "the receipt's seq is that of turn-start")
    const { turnId } = receipt.json
    const stream = await rig.events(id)
    const last = await stream.ended(turnId)
    isHistory(stream.events)
    assert.deepEqual(
      [...new Set(stream.events.map(({ type }) => type))],
      ['turn-start', 'step-start', 'text-delta', 'turn-end'],
    )
    assert.equal(stream.events[0]?.['prompt'], 'greet me')
    assert.equal(last['text'], 'Hello there.')
    assert.equal(last['steps'], 1)
    assert.equal(last['faultsSurvived'], 0)
    assert.deepEqual(last['usage'].inputTokens, { value: 120, quality: 'known' })
    assert.deepEqual(last['usage'].outputTokens, { value: 80, quality: 'known' })
    assert.deepEqual([...assembled(stream.events, turnId)], [[1, 'Hello there.']])
    const turn = await rig.call('GET', `/v1/turns/${turnId}`)
    isTurn(turn.json, 'finished')
    assert.equal(turn.json.sessionId, id)
    assert.equal(turn.json.prompt, 'greet me')
    assert.equal(turn.json.steps, 1)
    assert.equal(turn.json.attempts, 1)
    assert.deepEqual(turn.json.result, { text: 'Hello there.' })
    assert.equal(turn.json.fault, null)
    assert.equal(turn.json.parked, null)
    const session = await rig.call('GET', `/v1/sessions/${id}`)
    assert.equal(session.json.state, 'idle')
    assert.equal(session.json.lastSeq, last.seq)
  })

  test('a turn with tools: call, output and result in order, and the model gets the result', async () => {
    const { id, model } = await rig.session([
      ask([bash('echo out; echo err >&2'), bash('exit 3')], 'Let me look. '),
      say('Seen.'),
    ])
    const { turnId, events, last } = await rig.wholeTurn(id)
    isHistory(events)
    const calls = events.filter(({ type }) => type === 'tool-call')
    assert.deepEqual(
      calls.map((event) => event['tool']),
      ['bash', 'bash'],
    )
    assert.deepEqual(calls[0]?.['arguments'], { command: 'echo out; echo err >&2' })
    const results = events.filter(({ type }) => type === 'tool-result')
    assert.deepEqual(
      results.map((event) => event['outcome']),
      ['ok', 'failed'],
      'a non-zero exit code is a failure',
    )
    assert.equal(results[0]?.['exit'].cause, 'exited')
    assert.equal(results[0]?.['exit'].code, 0)
    assert.equal(results[1]?.['exit'].code, 3)
    assert.ok(present(results[0]).seq < present(results[1]).seq, "a step's tools run in order")
    const output = (stream: string): string =>
      events
        .filter(
          (event) =>
            event.type === 'tool-output' && event['callId'] === calls[0]?.['callId'] && event['stream'] === stream,
        )
        .map((event) => event['text'])
        .join('')
    assert.ok(output('stdout').includes('out\n'))
    assert.equal(last['steps'], 2)
    assert.equal(last['text'], 'Seen.', "turn-end.text is the last step's text")
    assert.deepEqual(
      [...assembled(events, turnId)],
      [
        [1, 'Let me look. '],
        [2, 'Seen.'],
      ],
    )
    const told = rig.model.received(model)[1]?.messages.filter(({ role }) => role === 'tool') ?? []
    assert.equal(told.length, 2)
    assert.match(JSON.stringify(told[0]), /out/)
    assert.match(JSON.stringify(told[1]), /3/)
  })

  test('an unknown tool and bad arguments are reported to the model, and the turn continues', async () => {
    const { id, model } = await rig.session([ask([{ tool: 'teleport', arguments: { to: 'moon' } }]), say('I cannot.')])
    const { events, last } = await rig.wholeTurn(id)
    isHistory(events)
    assert.equal(last.type, 'turn-end')
    assert.match(JSON.stringify(rig.model.received(model)[1]?.messages), /teleport/)
  })

  test('GET shows a running turn as running and an older turn with its outcome', async () => {
    const gate = Promise.withResolvers<void>()
    const { id } = await rig.session([say('old answer'), sayWhen(gate.promise, 'new ', 'answer')])
    const old = await rig.wholeTurn(id, 'first')
    const { turnId, events } = await rig.turn(id, 'second')
    await events.until((event) => event.turnId === turnId && event.type === 'text-delta')
    const now = await rig.call('GET', `/v1/turns/${turnId}`)
    isTurn(now.json, 'running')
    assert.match(now.json.startedAt, /Z$/)
    const session = await rig.call('GET', `/v1/sessions/${id}`)
    assert.equal(session.json.state, 'busy')
    assert.equal(session.json.turnId, turnId)
    const before = await rig.call('GET', `/v1/turns/${old.turnId}`)
    isTurn(before.json, 'finished')
    assert.deepEqual(before.json.result, { text: 'old answer' })
    gate.resolve()
    await events.ended(turnId)
    isHistory(events.events)
    isTurn((await rig.call('GET', `/v1/turns/${old.turnId}`)).json, 'finished')
  })

  test('the second turn sends the first one to the model', async () => {
    const { id, model } = await rig.session([say('Pleased.'), say('Ada.')])
    await rig.wholeTurn(id, 'my name is Ada')
    await rig.wholeTurn(id, 'what is my name?')
    const messages = rig.model.received(model)[1]?.messages.filter(({ role }) => role !== 'system') ?? []
    assert.deepEqual(
      messages.map(({ role }) => role),
      ['user', 'assistant', 'user'],
    )
    assert.match(JSON.stringify(messages), /my name is Ada.*Pleased\..*what is my name/)
  })
})

describe('Idempotency-Key', LIMIT, () => {
  test('the same key while the turn runs gives the receipt, not session_busy', async () => {
    const { id } = await rig.session([stallAfter('…')])
    const key = { 'idempotency-key': 'k-busy' }
    const first = await rig.prompt(id, 'go', {}, key)
    const again = await rig.prompt(id, 'go', {}, key)
    assert.equal(again.status, 202, again.text)
    assert.deepEqual(again.json, first.json)
    await rig.call('POST', `/v1/turns/${first.json.turnId}/cancel`)
  })

  test('ten concurrent requests with one key make one turn', async () => {
    const { id } = await rig.session([say('once'), say('twice')])
    const replies = await Promise.all(
      Array.from({ length: 10 }, () => rig.prompt(id, 'go', {}, { 'idempotency-key': 'k-3' })),
    )
    assert.deepEqual(
      replies.map(({ status }) => status),
      Array(10).fill(202),
    )
    assert.equal(new Set(replies.map(({ text }) => text)).size, 1)
    const stream = await rig.events(id)
    await stream.ended(present(replies[0]).json.turnId)
    assert.equal(stream.events.filter(({ type }) => type === 'turn-start').length, 1)
  })

  test('a key belongs to its session', async () => {
    const one = await rig.session([say('a')])
    const two = await rig.session([say('b')])
    const key = { 'idempotency-key': 'k-shared' }
    const first = await rig.prompt(one.id, 'go', {}, key)
    const second = await rig.prompt(two.id, 'go', {}, key)
    assert.equal(second.status, 202, second.text)
    assert.notEqual(first.json.turnId, second.json.turnId)
  })
})

describe('a busy session', LIMIT, () => {
  test('queues a turn on request and runs queued turns in order', async () => {
    const gate = Promise.withResolvers<void>()
    const { id } = await rig.session([sayWhen(gate.promise, 'fir', 'st'), say('second'), say('third')])
    const first = await rig.turn(id, 'one')
    const second = await rig.prompt(id, 'two', { queue: true })
    const third = await rig.prompt(id, 'three', { queue: true })
    assert.equal(second.status, 202, second.text)
    const queued = await first.events.until(({ turnId }) => turnId === second.json.turnId)
    assert.equal(queued.type, 'turn-queued')
    assert.equal(queued['prompt'], 'two')
    assert.equal(queued.seq, second.json.seq, "the receipt's seq is that of turn-queued")
    isTurn((await rig.call('GET', `/v1/turns/${second.json.turnId}`)).json, 'queued')
    gate.resolve()
    const last = await first.events.ended(third.json.turnId)
    assert.equal(last['text'], 'third')
    isHistory(first.events.events)
    assert.deepEqual(
      first.events.events.filter(({ type }) => type === 'turn-start').map((event) => event['prompt']),
      ['one', 'two', 'three'],
    )
  })

  test('queue: true on an idle session starts immediately', async () => {
    const { id } = await rig.session([say('now')])
    const receipt = await rig.prompt(id, 'go', { queue: true })
    const stream = await rig.events(id)
    await stream.ended(receipt.json.turnId)
    assert.equal(stream.events[0]?.type, 'turn-start')
  })
})
