/** Every request works at any daemon, even if another daemon owns the session. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Session, SessionEvent, Turn } from '@breakfall/wire'
import { WebSocket } from 'ws'
import { type Api, assertNoGap } from '../../packages/daemon/test/support/api.ts'
import { inOrder } from '../../packages/engine/test/support/scripted-model.ts'
import type { Frame } from '../../test/kit/sse.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { shared } from '../shared.ts'
import { sameEverywhere } from './agreement.ts'
import { type FleetDaemon, FleetRig } from './rig.ts'

const opened = Promise.withResolvers<void>()

const STEPS = Array.from({ length: 20 }, (_, at) => at + 1)
const isGated = (nr: number): boolean => nr % 5 === 0 && nr < STEPS.length
const step = (nr: number) => {
  const gate = isGated(nr) ? `; until [ -e gate-${nr} ]; do sleep 0.05; done` : ''
  return { id: `step-${nr}`, tool: 'bash', arguments: { command: `echo step-${nr} >> effects${gate}` } }
}

/**
 * The prompt is the command of the one tool call; `talk` needs no tool, `wait` answers when `opened` says so, and `steps` has twenty
 * commands, of which every fifth waits for a file.
 */
const rig = await shared(
  FleetRig.start((asked, request) => {
    const prompt = String(asked.messages.findLast((message) => message.role === 'user')?.content ?? '')
    if (prompt.startsWith('talk')) return { text: prompt }
    if (prompt.startsWith('wait')) return { text: 'waited', until: opened.promise }
    if (prompt === 'steps')
      return inOrder(...STEPS.map((nr) => ({ calls: [step(nr)] })), { text: 'done' })(asked, request)
    const call = { calls: [{ id: 'c1', tool: 'bash', arguments: { command: prompt } }] }
    return inOrder(call, { text: 'done' })(asked, request)
  }),
)
const [a, b, c] = await Promise.all([rig.daemon('a'), rig.daemon('b'), rig.daemon('c')])

const inShared = { box: { workspace: rig.workspace } }

async function sessionOf(id: string): Promise<Session> {
  return (await c.api.call<Session>('GET', `/v1/sessions/${id}`)).json
}

/** A session whose turn runs at `a`. */
async function owned(prompt: string): Promise<{ id: string; turnId: string }> {
  const { id } = await a.api.session(inShared)
  const turnId = await a.api.prompt(id, prompt)
  await b.api.events(id, ({ type }) => type === 'step-start')
  assert.equal((await sessionOf(id)).owner?.name, 'a')
  return { id, turnId }
}

test(
  'a title and a model are changed at another daemon than the owner, and the next turn uses them',
  LIMIT,
  async () => {
    const { id, turnId } = await owned('wait')
    const changed = await b.api.call<Session>('PATCH', `/v1/sessions/${id}`, { title: 'new', model: 'other' })
    assert.equal(changed.status, 200, JSON.stringify(changed.json))
    assert.deepEqual([changed.json.title, changed.json.model], ['new', 'other'])
    const keyed = { provider: { baseUrl: 'http://127.0.0.1:9/v1', api: 'openai-chat', apiKey: 'secret' } }
    assert.equal((await b.api.call('PATCH', `/v1/sessions/${id}`, keyed)).status, 409, 'a key must not pass the store')
    const busy = await b.api.call('POST', `/v1/sessions/${id}/turns`, { prompt: 'not now' })
    assert.deepEqual([busy.status, busy.json['category']], [409, 'session_busy'], "the owner's refusal arrives")
    assert.equal((await c.api.call('POST', `/v1/turns/${turnId}/resume`)).status, 409)
    assert.equal((await c.api.call('POST', `/v1/turns/${turnId}/cancel`)).status, 202)
    await b.api.ended(id, turnId)
  },
)

test('a turn that waits for an approval has no owner, and any daemon answers it', LIMIT, async () => {
  const { id } = await a.api.session({ ...inShared, policy: { approve: 'always' } })
  const turnId = await a.api.prompt(id, 'echo approved >> effects')
  await b.api.events(id, ({ type }) => type === 'parked')
  assert.equal((await sessionOf(id)).owner, null)
  const call = (await c.api.call<Turn>('GET', `/v1/turns/${turnId}`)).json.approval?.callId
  const wrong = await b.api.call('POST', `/v1/turns/${turnId}/approve`, { callId: 'x', decision: 'allow' })
  assert.equal(wrong.status, 404)
  const answered = await c.api.call('POST', `/v1/turns/${turnId}/approve`, { callId: call, decision: 'allow' })
  assert.equal(answered.status, 202, JSON.stringify(answered.json))
  const events = await b.api.ended(id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.deepEqual(
    rig.effects().filter((line) => line === 'approved'),
    ['approved'],
  )
})

test('prompts that are queued at three daemons run in the order of their seqs', LIMIT, async () => {
  const { id, turnId } = await owned('until [ -e queue-on ]; do sleep 0.05; done')
  const queued: string[] = []
  for (const { api, name } of [b, c, a]) queued.push(await api.prompt(id, `talk ${name}`, { queue: true }))
  await c.api.session() // any other request goes through meanwhile
  const other = await b.api.session(inShared)
  await b.api.ended(other.id, await b.api.prompt(other.id, 'touch queue-on'))
  const events = await c.api.ended(id, queued[2] ?? '')
  assertNoGap(events)
  const started = events.filter(({ type }) => type === 'turn-start').map((event) => event.turnId)
  assert.deepEqual(started, [turnId, ...queued])
})

test('a busy session that is deleted at another daemon is gone everywhere at once, with its box', LIMIT, async () => {
  const { id } = await owned('sleep 300')
  await a.api.events(id, ({ type }) => type === 'tool-call')
  assert.equal((await b.api.call('DELETE', `/v1/sessions/${id}`)).status, 204)
  for (const { api } of [a, b, c]) assert.equal((await api.call('GET', `/v1/sessions/${id}`)).status, 404)
  await eventually('its box is gone', async () => {
    const { json } = await a.api.call<{ boxes: readonly { id: string }[] }>('GET', '/v1/boxes')
    return !json.boxes.some((box) => box.id === id)
  })
})

test('a WebSocket at one daemon has the same events as SSE at another', LIMIT, async () => {
  const { id } = await a.api.session()
  const socket = new WebSocket(`${b.api.url.replace('http', 'ws')}/v1/ws`, {
    headers: { authorization: `Bearer ${b.api.token}` },
  })
  const events: SessionEvent[] = []
  const ended = Promise.withResolvers<void>()
  socket.on('open', () =>
    socket.send(JSON.stringify({ id: 1, method: 'subscribe', params: { sessionId: id, after: 0 } })),
  )
  socket.on('error', ended.reject)
  socket.on('message', (data: Buffer) => {
    const { event, result }: { event?: SessionEvent; result?: unknown } = JSON.parse(data.toString())
    if (event !== undefined) events.push(event)
    if (event?.type === 'turn-end') ended.resolve()
    if (result !== undefined) void a.api.prompt(id, 'talk about it')
  })
  await ended.promise
  socket.close()
  assert.deepEqual(events, await c.api.events(id))
})

test('every daemon says who it is, and what its store and its lease are', LIMIT, async () => {
  for (const { api, name } of [a, b, c]) {
    const health = await api.call('GET', '/v1/health')
    assert.equal(health.json['api'], 1)
    const ready = await api.call<{ checks: Record<string, unknown> }>('GET', '/v1/ready')
    const { store, lease, hints } = ready.json.checks
    assert.deepEqual([store, lease, hints], ['postgres', 'held', 'ok'])
    const refused = await fetch(`${api.url}/v1/sessions`)
    assert.equal(refused.status, 401)
    for (const answer of [health, ready, refused]) assert.equal(answer.headers.get('x-breakfall-daemon'), name)
  }
  const environment = { BREAKFALL_URL: b.api.url, BREAKFALL_TOKEN: b.api.token }
  const { json, code } = await b.place.run(['daemons', '--json'], environment)
  assert.equal(code, 0)
  const listed = json.filter(({ name }) => ['a', 'b', 'c'].includes(String(name)))
  assert.deepEqual(
    listed.map(({ state }) => state),
    ['live', 'live', 'live'],
  )
  assert.equal(new Set(listed.map(({ configHash }) => configHash)).size, 1)
})

async function framesUntilClosed(api: Api, sessionId: string): Promise<readonly Frame[]> {
  const frames: Frame[] = []
  for await (const frame of api.frames(sessionId)) frames.push(frame)
  assert.equal(frames.at(-1)?.event, 'closed')
  return frames
}

test(
  'a daemon that joins gets its share of new turns; a daemon that is drained ends the step it is in, and another one continues with the next',
  LIMIT,
  async () => {
    const leaving = await rig.daemon('leaving', ['--drain-ms', '600000'])
    const all = [a, b, c, leaving]
    const crowd = await Promise.all(
      Array.from({ length: 60 }, async (_, at) => {
        const { api } = all[at % all.length] ?? a // as a balancer does
        const { id: sessionId } = await api.session()
        return { sessionId, turnId: await api.prompt(sessionId, 'wait') }
      }),
    )
    const { json } = await b.api.call<{ daemons: { name: string; held: number }[] }>('GET', '/v1/daemons')
    const held = json.daemons.find(({ name }) => name === 'leaving')?.held ?? 0
    assert.ok(held >= 9, `it has ${held} of 60 turns`)
    opened.resolve()
    await Promise.all(crowd.map(({ sessionId, turnId }) => c.api.ended(sessionId, turnId)))

    const { id } = await leaving.api.session(inShared)
    const turnId = await leaving.api.prompt(id, 'echo drained >> effects; until [ -e drain-on ]; do sleep 0.05; done')
    await eventually('the command runs', () => rig.effects().includes('drained'))
    const reader = framesUntilClosed(leaving.api, id)
    const environment = { BREAKFALL_URL: b.api.url, BREAKFALL_TOKEN: b.api.token }
    assert.equal((await b.place.run(['daemons', 'drain', 'leaving'], environment)).code, 0)
    await eventually('it drains', async () => (await leaving.api.call('GET', '/v1/ready')).status === 503)
    assert.equal((await leaving.api.call('GET', '/v1/ready')).headers.get('retry-after'), '1')
    assert.equal(
      (await leaving.api.call('POST', `/v1/sessions/${id}/turns`, { prompt: 'more', queue: true })).status,
      503,
    )
    assert.equal((await sessionOf(id)).owner?.name, 'leaving', 'the command is still its own')
    const other = await b.api.session(inShared)
    await b.api.ended(other.id, await b.api.prompt(other.id, 'touch drain-on'))
    const events = await c.api.ended(id, turnId)
    assert.equal(events.at(-1)?.type, 'turn-end')
    assert.ok(!events.some(({ type }) => type === 'taken-over'))
    const order = events.flatMap((event) =>
      ['tool-result', 'parked', 'resumed'].includes(event.type) ? [event.type] : [],
    )
    assert.deepEqual(order, ['tool-result', 'parked', 'resumed'])
    const frames = await reader
    assert.match(String(frames.at(-1)?.data), /draining/)
    assert.ok(
      frames.some(({ event }) => event === 'parked'),
      'it has read what was handed over',
    )
    const rest = await leaving.api.ended(id, turnId, frames.at(-2)?.id) // whoever comes back is served
    assert.equal(rest.at(-1)?.type, 'turn-end')
    assert.equal((await leaving.program.stop()).code, 0)
  },
)

test(
  'all three daemons are restarted one after another during a turn of twenty steps: it ends, and nothing was taken over',
  LIMIT,
  async () => {
    const { id } = await a.api.session(inShared)
    const turnId = await a.api.prompt(id, 'steps')
    const restarted: FleetDaemon[] = []
    for (const [at, { name, program }] of [a, b, c].entries()) {
      const gate = 5 * (at + 1)
      await eventually(`step ${gate} runs`, () => rig.effects().includes(`step-${gate}`))
      assert.equal((await program.stop()).code, 0)
      restarted.push(await rig.daemon(name))
      writeFileSync(join(rig.workspace, `gate-${gate}`), '')
    }
    const events = await sameEverywhere(restarted, id, turnId)
    assert.equal(events.at(-1)?.type, 'turn-end')
    assert.ok(!events.some(({ type }) => type === 'taken-over'))
    assert.ok(events.some(({ type }) => type === 'resumed'))
    assert.deepEqual(
      rig.effects().filter((line) => line.startsWith('step-')),
      STEPS.map((nr) => `step-${nr}`),
    )
  },
)
