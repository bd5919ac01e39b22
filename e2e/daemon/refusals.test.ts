/** Every refusal of the daemon's HTTP API, and the routes that describe the daemon. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { shared } from '../shared.ts'
import { call } from './client.ts'
import { Rig } from './rig.ts'
import { say, stallAfter } from '../answers.ts'
import { isProblem, isTurn } from './shapes.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const rig = await shared(Rig.start())

describe('refusals', LIMIT, () => {
  test('without a valid token everything is 401 and reveals nothing', async () => {
    const { id } = await rig.session([])
    const known = await call(rig.url, 'GET', `/v1/sessions/${id}`)
    const unknown = await call(rig.url, 'GET', '/v1/sessions/nothing')
    isProblem(known, 401, 'unauthorized')
    isProblem(unknown, 401, 'unauthorized')
    assert.equal(known.json.detail, unknown.json.detail)
    isProblem(await call(rig.url, 'GET', '/v1/sessions', { token: 'wrong' }), 401, 'unauthorized')
    isProblem(await call(rig.url, 'POST', '/v1/sessions', { token: 'wrong', body: {} }), 401, 'unauthorized')
    isProblem(await call(rig.url, 'GET', '/v1/no-such-route'), 401, 'unauthorized')
    isProblem(
      await call(rig.url, 'GET', '/v1/sessions', { headers: { authorization: `Basic ${rig.token}` } }),
      401,
      'unauthorized',
    )
  })

  test('a foreign Host or Origin is 403, even with a valid token', async () => {
    for (const headers of [
      { host: 'evil.example' },
      { host: `evil.example:${new URL(rig.url).port}` },
      { origin: 'http://evil.example' },
    ])
      isProblem(await rig.call('GET', '/v1/sessions', { headers }), 403, 'forbidden')
    const own = await rig.call('GET', '/v1/sessions', { headers: { origin: rig.url } })
    assert.equal(own.status, 200)
    assert.equal(own.headers['access-control-allow-origin'], undefined, 'no CORS by default')
  })

  test('missing routes, sessions and turns are 404 not_found', async () => {
    const id = '01990000-0000-7000-8000-000000000000'
    for (const [method, path] of [
      ['GET', '/v1/nothing'],
      ['GET', `/v1/sessions/${id}`],
      ['GET', `/v1/sessions/${id}/events`],
      ['GET', `/v1/turns/${id}`],
      ['POST', `/v1/turns/${id}/cancel`],
      ['POST', `/v1/turns/${id}/resume`],
      ['GET', '/v1/turns/..%2f..%2fetc%2fpasswd'],
    ] as const)
      isProblem(await rig.call(method, path), 404, 'not_found')
    isProblem(await rig.prompt(id, 'x'), 404, 'not_found')
  })

  test('a wrong method is 405 and names the allowed ones', async () => {
    const { id } = await rig.session([])
    const put = await rig.call('PUT', `/v1/sessions/${id}`, { body: {} })
    isProblem(put, 405, 'method_not_allowed')
    assert.match(put.text, /GET/)
    assert.match(put.text, /DELETE/)
    assert.match(String(put.headers['allow']), /GET/)
    isProblem(await rig.call('PUT', `/v1/sessions/${id}/turns`, { body: {} }), 405, 'method_not_allowed')
    isProblem(await rig.call('DELETE', '/v1/sessions'), 405, 'method_not_allowed')
  })

  test('a body over 1 MiB is 413 and names the limit', async () => {
    const { id } = await rig.session([])
    const big = await rig.call('POST', `/v1/sessions/${id}/turns`, {
      raw: JSON.stringify({ prompt: 'x'.repeat(1_100_000) }),
    })
    isProblem(big, 413, 'payload_too_large')
    assert.match(big.json.detail, /1048576|1 MiB/)
  })

  test('another content type is 415 and names the expected one', async () => {
    const { id } = await rig.session([])
    const reply = await rig.call('POST', `/v1/sessions/${id}/turns`, {
      raw: 'prompt=x',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    })
    isProblem(reply, 415, 'unsupported_media_type')
    assert.match(reply.json.detail, /application\/json/)
  })

  test('broken JSON, a missing prompt, a wrong type and an unknown field are 400 and name the field', async () => {
    const { id } = await rig.session([])
    isProblem(await rig.call('POST', `/v1/sessions/${id}/turns`, { raw: '{"prompt":' }), 400, 'invalid_request')
    for (const [path, body, field] of [
      [`/v1/sessions/${id}/turns`, {}, 'prompt'],
      [`/v1/sessions/${id}/turns`, { prompt: 7 }, 'prompt'],
      [`/v1/sessions/${id}/turns`, { prompt: 'x', queue: 'yes' }, 'queue'],
      [`/v1/sessions/${id}/turns`, { prompt: 'x', promt: 'y' }, 'promt'],
      ['/v1/sessions', { titel: 'x' }, 'titel'],
      ['/v1/sessions', { title: 5 }, 'title'],
      ['/v1/sessions', { policy: { attemptsMax: 0 } }, 'policy.attemptsMax'],
      ['/v1/sessions', { policy: { park: 'sometimes' } }, 'policy.park'],
      ['/v1/sessions', { policy: { retries: 3 } }, 'policy.retries'],
      ['/v1/sessions', { box: { limits: { memoryMb: -1 } } }, 'box.limits.memoryMb'],
    ] as const) {
      const reply = await rig.call('POST', path, { body })
      isProblem(reply, 400, 'invalid_request')
      const error = reply.json.errors?.find((one: { field: string }) => one.field === field)
      assert.ok(error, `${field} is not named in ${reply.text}`)
      assert.equal(typeof error.expected, 'string')
      assert.equal(typeof error.got, 'string')
    }
    assert.equal((await rig.call('GET', `/v1/sessions/${id}`)).json.lastSeq, 0, 'nothing was started')
  })

  test('a cancel with an unknown field is 400 and cancels nothing', async () => {
    const { id } = await rig.session([stallAfter('…')])
    const { turnId } = await rig.turn(id)
    isProblem(await rig.call('POST', `/v1/turns/${turnId}/cancel`, { body: { why: 'x' } }), 400, 'invalid_request')
    isTurn((await rig.call('GET', `/v1/turns/${turnId}`)).json, 'running')
    await rig.call('POST', `/v1/turns/${turnId}/cancel`)
  })

  test('resume of a turn that is not parked is 409 turn_not_parked', async () => {
    const { id } = await rig.session([say('x')])
    const { turnId } = await rig.wholeTurn(id)
    isProblem(await rig.call('POST', `/v1/turns/${turnId}/resume`), 409, 'turn_not_parked')
  })
})

describe('about itself', LIMIT, () => {
  test('health and ready answer, and the catalogue lists every fault in the contract', async () => {
    assert.equal((await rig.call('GET', '/v1/health')).json.status, 'ok')
    assert.equal((await rig.call('GET', '/v1/ready')).status, 200)
    const faults = await rig.call('GET', '/v1/faults')
    assert.equal(faults.status, 200)
    for (const category of [
      'runner_unreachable',
      'cancelled',
      'other',
      'model_stream_interrupted',
      'tool_call_truncated',
      'turn_not_parked',
    ])
      assert.ok(faults.text.includes(`"${category}"`), category)
  })

  test('the metrics are Prometheus text, and the OpenAPI document names the routes', async () => {
    const metrics = await rig.call('GET', '/metrics')
    assert.equal(metrics.status, 200)
    assert.match(String(metrics.headers['content-type']), /^text\/plain/)
    assert.match(metrics.text, /^# TYPE breakfall_\w+ (counter|gauge|histogram)/m)
    const openapi = await rig.call('GET', '/v1/openapi.json')
    assert.match(openapi.json.openapi, /^3\./)
    for (const path of [
      '/v1/sessions',
      '/v1/sessions/{id}',
      '/v1/sessions/{id}/turns',
      '/v1/sessions/{id}/events',
      '/v1/turns/{id}',
      '/v1/turns/{id}/cancel',
      '/v1/turns/{id}/resume',
    ])
      assert.ok(path in openapi.json.paths, `${path} is not in ${Object.keys(openapi.json.paths).join(' ')}`)
  })
})
