/** What the daemon does when the model fails, and what cancelling does in every phase. */
import assert from 'node:assert/strict'
import { lstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { shared } from '../shared.ts'
import { type Event, present } from './client.ts'
import { API_KEY, Rig, sleeps } from './rig.ts'
import { ask, bash, refuse, say, stallAfter } from '../answers.ts'
import { isHistory, isTurn } from './shapes.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

const rig = await shared(Rig.start())

const RATE_LIMIT = { message: 'Rate limit reached', type: 'requests', param: null, code: 'rate_limit_exceeded' }
const BAD_KEY = {
  message: `Incorrect API key provided: ${API_KEY}. You can find your API key at the provider's page.`,
  type: 'invalid_request_error',
  param: null,
  code: 'invalid_api_key',
}
const cancel = (turnId: string, reason?: string): ReturnType<Rig['call']> =>
  rig.call('POST', `/v1/turns/${turnId}/cancel`, reason === undefined ? {} : { body: { reason } })
const turnOf = async (turnId: string): Promise<Record<string, never>> =>
  (await rig.call('GET', `/v1/turns/${turnId}`)).json as Record<string, never>

describe('parking', { ...LIMIT, concurrency: true }, () => {
  test('a short Retry-After is respected and never shortened', async () => {
    const { id } = await rig.session([refuse(429, RATE_LIMIT, { 'retry-after': '1' }), say('ok')])
    const { events, last } = await rig.wholeTurn(id)
    assert.equal(last.type, 'turn-end')
    const retry = present(events.find(({ type }) => type === 'retry'))
    assert.ok(retry['delayMs'] >= 1_000)
    const next = present(events[events.indexOf(retry) + 1])
    const nextAt = Date.parse(present(retry['nextAt']))
    assert.ok(nextAt - Date.parse(retry['fault'].at) >= 1_000)
    assert.ok(Date.parse(next.at) >= nextAt - 10, 'a timer may be a moment early')
  })

  test('a parked session refuses or queues the next prompt, and cancel frees it', async () => {
    const { id } = await rig.session([refuse(401, BAD_KEY), say('next')])
    const { turnId, events } = await rig.turn(id)
    await events.type('parked')
    const refused = await rig.prompt(id, 'more')
    assert.equal(refused.status, 409)
    assert.equal(refused.json.category, 'session_busy')
    assert.equal(refused.json.turnId, turnId)
    await cancel(turnId)
    await events.ended(turnId)
    assert.equal((await rig.wholeTurn(id)).last.type, 'turn-end')
  })
})

describe('limits', { ...LIMIT, concurrency: true }, () => {
  test('stepsMax ends a runaway loop that may not park', async () => {
    const step = ask([bash('true')])
    const { id, model } = await rig.session(Array(9).fill(step), { policy: { stepsMax: 3, park: 'never' } })
    const { events, last } = await rig.wholeTurn(id)
    isHistory(events)
    assert.equal(last.type, 'turn-error')
    assert.equal(rig.model.received(model).length, 3)
    assert.match(`${last['error']} ${last['stopped']}`, /step/)
  })

  test('deadlineMs ends a turn during its stream', async () => {
    const { id } = await rig.session([stallAfter('thinking')], { policy: { deadlineMs: 600 } })
    const { turnId, events, last } = await rig.wholeTurn(id)
    isHistory(events)
    assert.equal(last['category'], 'deadline_exceeded')
    isTurn(await turnOf(turnId), 'failed')
  })

  test('deadlineMs ends a turn and its process during a tool call', async () => {
    const { id } = await rig.session([ask([bash('sleep 7003.25')])], { policy: { deadlineMs: 1_500 } })
    const { events, last } = await rig.wholeTurn(id)
    isHistory(events)
    assert.deepEqual([last['category'], last['actor']], ['deadline_exceeded', 'deadline'])
    await eventually('the process is gone', () => !sleeps('7003.25'))
  })

  test('deadlineMs ends a parked turn', async () => {
    const { id } = await rig.session([refuse(429, RATE_LIMIT, { 'retry-after': '3600' })], {
      policy: { deadlineMs: 800 },
    })
    const { events, last } = await rig.wholeTurn(id)
    isHistory(events)
    assert.equal(last.type, 'turn-error')
  })

  test('a genuine 4xx is never retried', async () => {
    for (const [status, error, category] of [
      [
        400,
        { message: 'bad tool schema', type: 'invalid_request_error', param: 'tools', code: null },
        'model_bad_request',
      ],
      [
        404,
        {
          message: "The model 'x' does not exist",
          type: 'invalid_request_error',
          param: null,
          code: 'model_not_found',
        },
        'model_not_found',
      ],
    ] as const) {
      const { id, model } = await rig.session([refuse(status, error)])
      const { events, last } = await rig.wholeTurn(id)
      isHistory(events)
      assert.equal(last['category'], category)
      assert.equal(last['next'], 'never')
      assert.equal(rig.model.received(model).length, 1)
    }
  })
})

describe('cancel', { ...LIMIT, concurrency: true }, () => {
  const ended = (event: Event, reason: string): void => {
    assert.equal(event.type, 'turn-error')
    assert.equal(event['category'], 'cancelled')
    assert.equal(event['class'], 'cancelled')
    assert.equal(event['actor'], 'user')
    assert.equal(event['reason'], reason)
  }

  test('during the stream ends it, hangs up on the model, and is idempotent', async () => {
    let hungUp = false
    const { id } = await rig.session([
      ({ socket }) => {
        socket.on('close', () => (hungUp = true))
        return stallAfter('begin')
      },
      say('next'),
    ])
    const { turnId, events } = await rig.turn(id)
    await events.type('text-delta')
    const first = await cancel(turnId, 'enough')
    assert.equal(first.status, 202, first.text)
    isTurn(first.json)
    ended(await events.ended(turnId), 'enough')
    await eventually('the model is hung up on', () => hungUp)
    const again = await cancel(turnId, 'another reason')
    assert.equal(again.status, 200)
    isTurn(again.json, 'cancelled')
    assert.equal(again.json.fault.reason ?? 'enough', 'enough')
    isHistory(events.events)
    assert.equal((await rig.wholeTurn(id)).last['text'], 'next', 'the session is free')
  })

  test('right after the receipt, before anything else happens', async () => {
    for (let i = 0; i < 5; i++) {
      const { id } = await rig.session([say('a')])
      const receipt = await rig.prompt(id, 'go')
      await cancel(receipt.json.turnId, 'at once')
      const events = await rig.events(id)
      const last = await events.ended(receipt.json.turnId)
      isHistory(events.events)
      if (last.type === 'turn-error') ended(last, 'at once')
    }
  })

  test('of a finished turn changes nothing and shows its outcome', async () => {
    const { id } = await rig.session([say('done')])
    const { turnId, last } = await rig.wholeTurn(id)
    const reply = await cancel(turnId, 'too late')
    assert.equal(reply.status, 200, reply.text)
    isTurn(reply.json, 'finished')
    assert.equal((await rig.call('GET', `/v1/sessions/${id}`)).json.lastSeq, last.seq)
  })

  test('without a reason leaves the reason out or null, and the actor is still the user', async () => {
    const { id } = await rig.session([stallAfter('begin')]) // a short word may be the start of a token, and is held
    const { turnId, events } = await rig.turn(id)
    await events.type('text-delta')
    assert.ok([200, 202].includes((await cancel(turnId)).status), '202 while it ends, 200 if it has ended')
    const last = await events.ended(turnId)
    assert.equal(last['actor'], 'user')
  })

  test('a client that disconnects cancels nothing', async () => {
    const { id } = await rig.session([ask([bash('sleep 0.3; echo on')]), say('finished alone')])
    const { turnId, events } = await rig.turn(id)
    await events.type('tool-call')
    events.close()
    await eventually('the turn finishes', async () => (await turnOf(turnId))['state'] === 'finished')
  })
})

describe('secrets', LIMIT, () => {
  test('the key reaches only the model: no event, file, log line, metric or box', async () => {
    const { id, model } = await rig.session([
      ask([bash('env; cat /proc/*/environ 2>/dev/null | tr "\\0" "\\n"')]),
      refuse(401, BAD_KEY),
    ])
    const { events } = await rig.turn(id)
    const parked = await events.type('parked')
    assert.equal(rig.model.received(model)[0]?.headers.authorization, `Bearer ${API_KEY}`)
    assert.ok(!JSON.stringify(events.frames).includes(API_KEY), 'in an event')
    assert.ok(parked['fault'].errorRaw.includes('Incorrect API key'), 'the raw error is kept, redacted')
    assert.ok(!JSON.stringify(events.frames).includes(rig.token), "the daemon's own token reached a box")
    assert.ok(!(await rig.call('GET', '/metrics')).text.includes(API_KEY))
    const files = readdirSync(rig.stateDir, { recursive: true, encoding: 'utf8' }).map((name) =>
      join(rig.stateDir, name),
    )
    for (const file of files)
      if (lstatSync(file, { throwIfNoEntry: false })?.isFile() === true)
        // the runner still makes its copy of /etc
        assert.ok(!readFileSync(file).includes(API_KEY), file)
    for (const file of files) if (file.endsWith('.token')) assert.equal(statSync(file).mode & 0o777, 0o600, file)
    const log = await rig.stop()
    assert.ok(log.includes('"msg"'), 'there is a log')
    assert.ok(!log.includes(API_KEY), 'in the log')
    assert.ok(!log.includes('Bearer '), 'a token in the log')
    await rig.up()
  })
})
