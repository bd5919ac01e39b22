/** `GET /v1/faults/seen`: what went wrong, by fingerprint. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { faultOccurrencesSchema, faultsSeenSchema } from '@breakfall/wire/internal'
import { rig } from './support/setup.ts'

test('faults of all sessions are one group, its count is that of its occurrences and of the events, and each is a link', async (t) => {
  const { api } = await rig(t, ({ messages }, request) => {
    const isFirst = messages.at(-1)?.content === 'refused'
    if (isFirst) return { status: 401, body: { error: { message: `bad key, request req_${request}00000000` } } }
    return request % 2 === 1 ? { text: 'half an answer', cutAfter: 1 } : { text: 'done' }
  })
  const seen = async (query = '') => faultsSeenSchema.parse((await api.call('GET', `/v1/faults/seen${query}`)).json)
  assert.deepEqual(await seen(), { groups: [] })
  const sessions = [await api.session({ title: 'first' }), await api.session({})]
  const retries = []
  for (const { id } of sessions) {
    const events = await api.ended(id, await api.prompt(id, 'go'))
    retries.push(...events.filter(({ type }) => type === 'retry'))
  }
  assert.ok(retries.length >= 2)
  const { groups } = await seen()
  assert.equal(groups.length, 1, JSON.stringify(groups))
  const [group] = groups
  assert.ok(group !== undefined)
  assert.deepEqual(
    [group.category, group.class, group.count, group.sessions, group.survived, group.open],
    ['model_stream_interrupted', 'transient', retries.length, 2, retries.length, 0],
  )
  assert.equal(group.hours.length, 24)
  assert.equal(
    group.hours.reduce((sum, count) => sum + count, 0),
    retries.length,
  )
  const of = async (query = '') =>
    faultOccurrencesSchema.parse((await api.call('GET', `/v1/faults/seen/${group.fingerprint}${query}`)).json)
  const all = await of()
  assert.deepEqual(all.group, group)
  assert.deepEqual(
    all.occurrences.map(({ sessionId, seq, sessionTitle }) => [sessionId, seq, sessionTitle]).toReversed(),
    retries.map((event) => [event.sessionId, event.seq, event.sessionId === sessions[0]?.id ? 'first' : 'go']),
  )
  const page = await of('?limit=1')
  assert.equal(page.occurrences.length, 1)
  assert.equal((await of(`?cursor=${page.next}`)).occurrences.length, retries.length - 1)

  const { id } = await api.session({})
  await api.prompt(id, 'refused')
  await api.events(id, ({ type }) => type === 'parked')
  const first = await seen('?limit=1')
  assert.deepEqual([first.groups[0]?.category, first.groups[0]?.parked], ['model_auth_failed', 1])
  assert.deepEqual((await seen(`?cursor=${first.next}`)).groups, [group])
  assert.deepEqual((await seen('?open=1')).groups, first.groups)
  assert.deepEqual((await seen('?class=transient')).groups, [group])
  assert.deepEqual(await seen('?since=2999-01-01T00:00:00Z'), { groups: [] })
  await api.call('DELETE', `/v1/sessions/${id}`)
  assert.deepEqual(await seen(), { groups: [group] }, 'faults go with their session')

  for (const query of ['?since=yesterday', '?class=bad', '?open=perhaps', '?limit=0', '?cursor=x', '?more=1'])
    assert.equal((await api.call('GET', `/v1/faults/seen${query}`)).status, 400, query)
  assert.equal((await api.call('GET', '/v1/faults/seen/0123456789abcdef')).status, 404)
  assert.equal((await api.call('GET', `/v1/faults/seen/${group.fingerprint}?cursor=1_2`)).status, 400)
})
