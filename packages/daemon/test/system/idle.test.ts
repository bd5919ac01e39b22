/** Idle sessions: what stays in memory. */
import { LIMIT } from '../../../../test/kit/wait.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OwnedSession } from '../../../engine/src/session/owned-session.ts'
import { types } from '../support/api.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

test('idle sessions with long conversations are evicted from memory, and continue later', LIMIT, async (t) => {
  const LONG = 100_000
  const script = inOrder({ text: 'w'.repeat(LONG), pieceChars: LONG })
  const { api, daemon, model } = await rig(t, script, { limits: { idleCharsMax: 10 * LONG } })
  const ids: string[] = []
  for (let n = 0; n < 100; n += 1) {
    const { id } = await api.session({ tools: [] })
    await api.ended(id, await api.prompt(id, 'talk'))
    ids.push(id)
  }
  const { count } = daemon.sessions.loader
  assert.ok(count < 80, `${count} sessions are in memory`)
  const first = ids[0] ?? ''
  const events = await api.ended(first, await api.prompt(first, 'go on'))
  assert.ok(!types(events).includes('taken-over'), 'it was not taken over')
  assert.deepEqual(
    model.asked
      .at(-1)
      ?.messages.map(({ content }) => content?.length)
      .slice(-3),
    ['talk'.length, LONG, 'go on'.length],
  )
})

test('a session opened while memory is full of idle sessions stays in memory for its caller', LIMIT, async (t) => {
  const asked = Promise.withResolvers<void>()
  const { api } = await rig(t, () => ({ text: 'here', until: asked.promise }), { limits: { sessionsIdleMax: 0 } })
  const { id } = await api.session({ tools: [] })
  const turnId = await api.prompt(id, 'go')
  await api.events(id, (event) => event.type === 'step-start')
  asked.resolve()
  const events = await api.ended(id, turnId)
  assert.deepEqual(types(events), ['turn-start', 'step-start', 'text-delta', 'turn-end'])
})

test('a session that a request uses stays in memory, and a second request waits for the first', LIMIT, async (t) => {
  const { api, daemon } = await rig(t, inOrder({ text: 'done' }), { limits: { sessionsIdleMax: 0 } })
  const { loader } = daemon.sessions
  const { id } = await api.session({ title: 'before', tools: [] })
  const others = await Promise.all(Array.from({ length: 70 }, () => api.session({ tools: [] })))
  const isUsed = Promise.withResolvers<OwnedSession>()
  const goOn = Promise.withResolvers<void>()
  const used = loader.use(id, async (session) => {
    isUsed.resolve(session)
    await session.admission.run(() => goOn.promise)
    await session.setData({ title: 'by the first' })
  })
  const session = await isUsed.promise
  for (const other of others) await api.call('PATCH', `/v1/sessions/${other.id}`, { title: 'other' })
  assert.equal(loader.peek(id), session)
  const renamed = api.call('PATCH', `/v1/sessions/${id}`, { title: 'by the second' })
  goOn.resolve()
  await used
  assert.equal((await renamed).status, 200)
  assert.equal(session.isLost, false)
  assert.ok(loader.count <= 2, `${loader.count} sessions are in memory`)
})
