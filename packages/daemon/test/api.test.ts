import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { problemSchema, sessionSchema, turnSchema, type SseFrame } from '@breakfall/wire'
import { tempFolder } from '../../../test/kit/folder.ts'
import { Api, types } from './support/api.ts'
import { rig } from './support/setup.ts'

const talk = () => ({ text: 'hello there' })

function raw(url: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    request(url, { headers }, (res) => resolve(res.resume().statusCode ?? 0))
      .on('error', reject)
      .end()
  })
}

test('sessions and turns match their schemas, and an unknown id is a 404', async (t) => {
  const { api } = await rig(t, talk)
  const session = await api.session({ title: 'a title', policy: { attemptsMax: 2 } })
  sessionSchema.parse(session)
  assert.deepEqual(
    [session.title, session.state, session.turnId, session.model, session.lastSeq],
    ['a title', 'idle', null, 'scripted', 0],
  )
  assert.equal(session.boxId, session.id)
  const turnId = await api.prompt(session.id, 'hi')
  await api.ended(session.id, turnId)
  const turn = await api.turn(turnId)
  turnSchema.parse(turn)
  assert.deepEqual(
    [turn.id, turn.sessionId, turn.state, turn.prompt, turn.steps, turn.attempts],
    [turnId, session.id, 'finished', 'hi', 1, 1],
  )
  const list = await api.call<{ sessions: unknown[] }>('GET', '/v1/sessions')
  assert.equal(list.json.sessions.length, 1)
  for (const [method, path] of [
    ['GET', '/v1/sessions/nope'],
    ['GET', '/v1/turns/nope'],
    ['POST', '/v1/turns/nope/cancel'],
    ['POST', '/v1/turns/nope/resume'],
    ['GET', '/v1/sessions/nope/events'],
    ['DELETE', '/v1/sessions/nope'],
  ] as const) {
    const { status, json } = await api.call(method, path)
    assert.deepEqual([status, json['category']], [404, 'not_found'], path)
    problemSchema.parse(json)
  }
})

test('bad requests name the field, what was expected and what came', async (t) => {
  const { api } = await rig(t, talk)
  const { id } = await api.session()
  const bad = async (path: string, body: unknown): Promise<unknown> => {
    const { status, json, headers } = await api.call('POST', path, body)
    assert.equal(status, 400, JSON.stringify(json))
    assert.equal(headers.get('content-type'), 'application/problem+json')
    return (json['errors'] as { field: string }[]).map((error) => error.field)
  }
  assert.deepEqual(await bad('/v1/sessions', { nonsense: 1 }), ['nonsense'])
  assert.deepEqual(await bad('/v1/sessions', { policy: { attemptsMax: 0 } }), ['policy.attemptsMax'])
  assert.deepEqual(await bad('/v1/sessions', { tools: ['bash', 'rm'] }), ['tools.1'])
  assert.deepEqual(await bad(`/v1/sessions/${id}/turns`, { prompt: '  ' }), ['prompt'])
  assert.deepEqual(await bad(`/v1/sessions/${id}/turns`, { prompt: 'x', que: true }), ['que'])
  assert.equal((await api.call('GET', `/v1/sessions/${id}/events?after=not-a-cursor`)).status, 400)
  for (const [path, headers, says] of [
    ['/v1/sessions?cursor=zz', {}, /: cursor must be the "next" of an earlier page, got "zz"$/],
    ['/v1/sessions?page=2', {}, /: there is no query parameter page$/],
    ['/v1/sessions?limit=0', {}, /: limit must be an integer from 1 to 100, got 0$/],
    [
      '/v1/sessions?state=finished,odd',
      {},
      /: state must be one or more of needs, .*, separated by commas, got "finished,odd"$/,
    ],
    ['/v1/ws', {}, /: Upgrade must be websocket/],
  ] as const) {
    const { status, json } = await api.call('GET', path, undefined, headers)
    assert.deepEqual([status, json['category']], [400, 'invalid_request'], path)
    assert.match(String(json['detail']), says)
  }
  const long = await api.call(
    'POST',
    `/v1/sessions/${id}/turns`,
    { prompt: 'x' },
    { 'idempotency-key': 'k'.repeat(256) },
  )
  assert.match(String(long.json['detail']), /: Idempotency-Key must be 1 to 255 characters, got 256 characters$/)
  const wrong = await api.call('PUT', '/v1/sessions')
  assert.deepEqual([wrong.status, wrong.headers.get('allow')], [405, 'POST, GET'])
})

test('a request without the token, with a foreign Host or from a foreign page is refused', async (t) => {
  const { daemon } = await rig(t, talk)
  const url = `${daemon.url}/v1/sessions`
  const authorization = `Bearer ${daemon.token}`
  assert.equal(await raw(url, {}), 401)
  assert.equal(await raw(url, { authorization: 'Bearer wrong' }), 401)
  assert.equal(await raw(url, { authorization, host: 'evil.example' }), 403)
  assert.equal(await raw(url, { authorization, origin: 'https://evil.example' }), 403)
  assert.equal(await raw(url, { authorization }), 200)
  assert.equal(await raw(`${daemon.url}/v1/health`, {}), 200)
  assert.equal(await raw(`${daemon.url}/v1/ready`, {}), 200)
  assert.equal(await raw(`${daemon.url}/metrics`, {}), 401)
})

test('a token with scope=read may read, and any other request is forbidden; an allowed host is served', async (t) => {
  const stateDir = tempFolder(t)
  writeFileSync(join(stateDir, 'daemon.token'), 'reader-token scope=read\nfull-token\n', { mode: 0o600 })
  const { daemon, api } = await rig(t, talk, { stateDir, hosts: ['Agents.example.com'] })
  assert.equal(daemon.token, 'full-token', "the daemon's own token may do everything")
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'hi')
  await api.ended(id, turnId)
  const reader = new Api({ url: daemon.url, token: 'reader-token' })
  assert.equal((await reader.call('GET', `/v1/sessions/${id}`)).status, 200)
  assert.equal((await reader.events(id)).at(-1)?.type, 'turn-end')
  for (const [method, path, body] of [
    ['POST', '/v1/sessions', {}],
    ['POST', `/v1/sessions/${id}/turns`, { prompt: 'x' }],
    ['POST', `/v1/turns/${turnId}/cancel`, {}],
    ['DELETE', `/v1/sessions/${id}`, undefined],
  ] as const) {
    const { status, json } = await reader.call(method, path, body)
    assert.deepEqual([status, json['category']], [403, 'forbidden'], `${method} ${path}`)
  }
  const url = `${daemon.url}/v1/sessions`
  const authorization = 'Bearer reader-token'
  assert.equal(await raw(url, { authorization, host: 'agents.example.com' }), 200)
  assert.equal(await raw(url, { authorization, host: 'agents.example.com:8443' }), 200)
  assert.equal(await raw(url, { authorization, host: 'other.example.com' }), 403)
})

/** Schemas that allow anything, which a generator turns into `unknown`. */
function emptySchemas(node: unknown, path = ''): readonly string[] {
  if (typeof node !== 'object' || node === null) return []
  return Object.entries(node).flatMap(([key, value]: [string, unknown]) => {
    const isSchema = path.endsWith('/properties') || ['schema', 'items', 'additionalProperties'].includes(key)
    const isEmpty = isSchema && typeof value === 'object' && value !== null && !hasWords(value)
    return [...(isEmpty ? [`${path}/${key}`] : []), ...emptySchemas(value, `${path}/${key}`)]
  })
}

const hasWords = (schema: object): boolean => Object.keys(schema).some((key) => key !== 'description')

test('every body, answer and event of the API has a type: a generator of types yields no unknown', async (t) => {
  const { api } = await rig(t, talk)
  const { json } = await api.call<{ paths: object }>('GET', '/v1/openapi.json')
  const wrong = { a: { properties: { b: {}, c: { type: 'string' } }, additionalProperties: {} } }
  assert.deepEqual(emptySchemas(wrong), ['/a/properties/b', '/a/additionalProperties'])
  assert.deepEqual(emptySchemas(json), [])
})

test('the API documents its routes, faults and metrics', async (t) => {
  const { api } = await rig(t, talk)
  const { json } = await api.call<{ paths: Record<string, object>; openapi: string }>('GET', '/v1/openapi.json')
  assert.equal(json.openapi, '3.1.0')
  const ready = await api.call<{ checks: object }>('GET', '/v1/ready')
  const shared = { store: 'sqlite', lease: 'held', hints: 'ok' }
  assert.deepEqual(ready.json.checks, { journal: 'ok', runner: 'not_connected', closing: false, ...shared })
  for (const path of [
    '/v1/ws',
    '/v1/sessions',
    '/v1/sessions/{id}/turns',
    '/v1/sessions/{id}/events',
    '/v1/turns/{id}/cancel',
    '/v1/console/tickets',
    '/v1/console/tokens',
  ])
    assert.ok(json.paths[path], path)
  const faults = await api.call<{ faults: { category: string }[] }>('GET', '/v1/faults')
  assert.ok(faults.json.faults.some(({ category }) => category === 'runner_unreachable'))
  const { id } = await api.session()
  await api.ended(id, await api.prompt(id, 'hi'))
  const metrics = await (
    await fetch(`${api.url}/metrics`, { headers: { authorization: `Bearer ${api.token}` } })
  ).text()
  assert.match(metrics, /breakfall_turns_total\{outcome="finished",category="none"\} 1/)
})

test('the same key gets the same receipt, at once, at the same time and after a restart; another body is a conflict', async (t) => {
  const first = await rig(t, talk)
  const { id } = await first.api.session()
  const post = (api = first.api, prompt = 'hi') =>
    api.call('POST', `/v1/sessions/${id}/turns`, { prompt }, { 'idempotency-key': 'k1' })
  const answers = await Promise.all([post(), post(), post()])
  assert.deepEqual(
    answers.map(({ status }) => status),
    [202, 202, 202],
  )
  assert.equal(new Set(answers.map(({ json }) => JSON.stringify(json))).size, 1)
  await first.api.ended(id, String(answers[0]?.json['turnId']))
  const { api } = await first.restart()
  assert.deepEqual((await post(api)).json, answers[0]?.json)
  const other = await post(api, 'something else')
  assert.deepEqual([other.status, other.json['category']], [409, 'idempotency_conflict'])
  const events = await api.events(id)
  assert.equal(types(events).filter((type) => type === 'turn-start').length, 1)
})

test('a busy session names its turn, and a queue survives a restart in order', async (t) => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  const first = await rig(t, () => ({ text: 'ok', until: held }))
  const { id } = await first.api.session()
  const one = await first.api.prompt(id, 'one')
  const busy = await first.api.call('POST', `/v1/sessions/${id}/turns`, { prompt: 'two' })
  assert.deepEqual([busy.status, busy.json['category'], busy.json['turnId']], [409, 'session_busy', one])
  const two = await first.api.prompt(id, 'two', { queue: true })
  const three = await first.api.prompt(id, 'three', { queue: true })
  const { api } = await first.restart()
  release()
  const events = await api.ended(id, three)
  const starts = events.filter((event) => event.type === 'turn-start').map((event) => event.turnId)
  assert.deepEqual(starts, [one, two, three])
  assert.deepEqual(types(events.filter((event) => event.turnId === one)).slice(1, 6), [
    'step-start',
    'parked',
    'resumed',
    'text-delta',
    'turn-end',
  ])
})

test('a reader resumes by cursor without gap or repetition, and a cursor that does not fit is reset', async (t) => {
  const first = await rig(t, () => ({ text: 'many words in many pieces', pauseMs: 30, pieceChars: 4 }))
  const { api } = first
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'hi')
  const head: SseFrame[] = []
  const over = new AbortController()
  for await (const frame of api.frames(id, 0, over.signal)) {
    head.push(frame)
    if (head.length === 3) break
  }
  over.abort()
  const cursor = head.at(-1)?.id ?? ''
  assert.match(cursor, /^[\w-]+-3$/)
  const rest = await api.ended(id, turnId, cursor)
  const all = await api.ended(id, turnId)
  assert.deepEqual([...head.map((frame) => JSON.parse(frame.data)), ...rest], all)
  const again = await first.restart()
  assert.deepEqual(await again.api.ended(id, turnId, cursor), rest)
  assert.deepEqual(await again.api.ended(id, turnId, 3), rest)
  for (const [bad, reason] of [
    ['999', 'beyond_the_head'],
    ['another-journal-2', 'another_journal'],
  ] as const) {
    const frames: SseFrame[] = []
    for await (const frame of again.api.frames(id, bad)) {
      frames.push(frame)
      if (frames.length === 1 + all.length) break
    }
    assert.deepEqual(
      [frames[0]?.event, JSON.parse(frames[0]?.data ?? '').reason, frames[0]?.id],
      ['reset', reason, undefined],
    )
    assert.deepEqual(
      frames.slice(1).map((frame) => JSON.parse(frame.data)),
      all,
    )
  }
})

test('a running session can be deleted: its readers get the reason, and it is gone', async (t) => {
  const { api } = await rig(t, () => ({ text: 'x'.repeat(1000), pauseMs: 20 }))
  const { id } = await api.session()
  await api.prompt(id, 'hi')
  const frames: SseFrame[] = []
  const reading = (async () => {
    for await (const frame of api.frames(id)) frames.push(frame)
  })()
  await api.events(id, (event) => event.type === 'text-delta')
  assert.equal((await api.call('DELETE', `/v1/sessions/${id}`)).status, 204)
  await reading
  assert.deepEqual(
    frames.slice(-2).map((frame) => frame.event),
    ['turn-error', 'closed'],
  )
  assert.equal((await api.call('GET', `/v1/sessions/${id}`)).status, 404)
})

test('a second daemon on the same state folder is refused with a clear message', async (t) => {
  const { stateDir } = await rig(t, talk)
  await assert.rejects(rig(t, talk, { stateDir }), /Another daemon owns the state folder/)
})

test('a key that created a session creates another one when that session is deleted', async (t) => {
  const { api } = await rig(t, () => ({ text: 'done' }))
  const create = () => api.call('POST', '/v1/sessions', { title: 'nightly' }, { 'idempotency-key': 'nightly' })
  const [first, same] = [await create(), await create()]
  assert.deepEqual([first.status, same.json['id']], [201, first.json['id']])
  assert.equal((await api.call('DELETE', `/v1/sessions/${String(first.json['id'])}`)).status, 204)
  const next = await create()
  assert.equal(next.status, 201)
  assert.notEqual(next.json['id'], first.json['id'])
})
