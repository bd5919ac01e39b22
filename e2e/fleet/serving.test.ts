/** Any daemon answers, also after the one that ran the turn was stopped or killed. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { types } from '../../packages/daemon/test/support/api.ts'
import { inOrder } from '../../packages/engine/test/support/scripted-model.ts'
import { framesOf } from '../../test/kit/sse.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { shared } from '../shared.ts'
import { sameEverywhere } from './agreement.ts'
import { type FleetDaemon, FleetRig } from './rig.ts'

/** Turns of the tests that kill and stop an owner continue when these are resolved. */
const [overload, missingKey, handedOver] = [1, 2, 3].map(() => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const gate = { isOpen: false, promise, open: () => resolve() }
  void promise.then(() => (gate.isOpen = true))
  return gate
})
assert.ok(overload !== undefined && missingKey !== undefined && handedOver !== undefined)

/** The steps that a tail at another daemon follows: each is answered when its reader has seen the step before. */
const FOLLOWED = [0, 1, 2].map(() => Promise.withResolvers<void>())

/** The prompt is the command of the one tool call; `talk` and `brief` need no tool. */
const rig = await shared(
  FleetRig.start((asked, request) => {
    const prompt = String(asked.messages.findLast((message) => message.role === 'user')?.content ?? '')
    if (prompt.startsWith('talk')) return { text: 'word '.repeat(200), pauseMs: 25, pieceChars: 10 }
    if (prompt === 'pause' && !overload.isOpen) return { status: 503, headers: { 'retry-after': '2' } }
    if (prompt === 'park' && !missingKey.isOpen) return { status: 401 }
    if (['brief', 'pause', 'park'].includes(prompt)) return { text: 'done' }
    if (prompt === 'follow') {
      const call = { tool: 'bash', arguments: { command: 'true' } }
      return inOrder(...FOLLOWED.map(({ promise }) => ({ until: promise, calls: [call] })), { text: 'done' })(
        asked,
        request,
      )
    }
    if (prompt === 'hold') return { text: 'done', until: handedOver.promise }
    return inOrder({ calls: [{ id: 'c1', tool: 'bash', arguments: { command: prompt } }] }, { text: 'done' })(
      asked,
      request,
    )
  }),
)
const [a, b, c] = await Promise.all(['a', 'b', 'c'].map((name) => rig.daemon(name)))
assert.ok(a !== undefined && b !== undefined && c !== undefined)

const SLEEP = `sleep 60.${process.pid}` // found among all processes of the machine

const isRunning = (command: string): boolean =>
  readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8') === `${command.replace(' ', '\0')}\0`
    } catch {
      return false // it ended meanwhile
    }
  })

const inShared = { box: { workspace: rig.workspace } }

/** The first turn of a session as it is sent: with its cursors, and unparsed. */
async function framesUntilEnd({ api }: FleetDaemon, id: string): Promise<readonly { id?: string; data: string }[]> {
  const over = new AbortController()
  const frames: { id?: string; data: string }[] = []
  for await (const { id: cursor, event, data } of api.frames(id, 0, over.signal)) {
    frames.push({ ...(cursor === undefined ? {} : { id: cursor }), data })
    if (event === 'turn-end') break
  }
  over.abort()
  return frames
}

test('created at one daemon, prompted at another, read at a third: all three have the same events', async () => {
  const { id } = await a.api.session(inShared)
  const reading = Promise.all([a, b, c].map((daemon) => framesUntilEnd(daemon, id)))
  const turnId = await b.api.prompt(id, 'echo one >> effects')
  const live = await reading
  for (const tail of live) assert.deepEqual(tail, live[0], 'the same cursors and the same bytes')
  const events = await sameEverywhere([a, b, c], id, turnId)
  assert.deepEqual(
    live[0]?.map(({ data }) => JSON.parse(data)),
    events,
  )
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.deepEqual(rig.effects(), ['one'])
  const answer = await c.api.call('GET', `/v1/sessions/${id}`)
  assert.equal(answer.headers.get('x-breakfall-daemon'), 'c')
  assert.equal(answer.json['owner'], null, 'an idle session has no owner')
})

test('one key at three daemons at once makes one turn and equal receipts; another body is refused', async () => {
  const { id } = await a.api.session()
  const key = { 'idempotency-key': 'same' }
  const send = (daemon: FleetDaemon, prompt: string) =>
    daemon.api.call('POST', `/v1/sessions/${id}/turns`, { prompt }, key)
  const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => send([a, b, c][i % 3] ?? a, 'brief')))
  assert.equal(new Set(answers.map(({ status, json }) => `${status} ${JSON.stringify(json)}`)).size, 1)
  assert.equal(answers[0]?.status, 202, JSON.stringify(answers[0]?.json))
  assert.equal((await send(b, 'other')).status, 409)
  const turnId = String(answers[0]?.json['turnId'])
  const events = await sameEverywhere([a, c], id, turnId)
  assert.equal(events.filter(({ type }) => type === 'turn-start').length, 1)
})

test('one key for a new session at two daemons makes one session', async () => {
  const key = { 'idempotency-key': 'new' }
  const made = await Promise.all([a, b].map(({ api }) => api.call('POST', '/v1/sessions', { title: 't' }, key)))
  assert.deepEqual(
    made.map(({ status }) => status),
    [201, 201],
  )
  assert.equal(made[0]?.json['id'], made[1]?.json['id'])
  assert.equal((await c.api.call('POST', '/v1/sessions', { title: 'other' }, key)).status, 409)
})

test('a cancel at another daemon than the one that runs the turn ends the process', async () => {
  const { id } = await a.api.session(inShared)
  const turnId = await a.api.prompt(id, SLEEP)
  await b.api.events(id, ({ type }) => type === 'tool-call')
  await eventually('the command runs', () => isRunning(SLEEP) || undefined)
  assert.equal((await c.api.call('POST', `/v1/turns/${turnId}/cancel`)).status, 202)
  const events = await sameEverywhere([a, b, c], id, turnId)
  const end = events.at(-1)
  assert.equal(end?.type === 'turn-error' && end.category, 'cancelled')
  assert.ok(!isRunning(SLEEP), 'its process is gone when the turn has ended')
})

test(
  'a tail at another daemon has each step before the model answers it, and continues at a third by Last-Event-ID',
  LIMIT,
  async () => {
    const { id } = await a.api.session(inShared)
    const turnId = await a.api.prompt(id, 'follow')
    const seen: string[] = []
    let steps = 0
    const see = ({ id: cursor = '', event }: { id?: string | undefined; event?: string | undefined }): void => {
      seen.push(cursor)
      if (event === 'step-start') FOLLOWED[steps++]?.resolve()
    }
    const over = new AbortController()
    for await (const frame of b.api.frames(id, 0, over.signal)) {
      see(frame)
      if (frame.event === 'tool-result' && steps === 2) break
    }
    over.abort()
    const headers = { authorization: `Bearer ${c.api.token}`, 'last-event-id': seen.at(-1) ?? '' }
    const response = await fetch(`${c.api.url}/v1/sessions/${id}/events`, { headers })
    for await (const frame of framesOf(response.body ?? [])) {
      see(frame)
      if (frame.event === 'turn-end') break
    }
    await sameEverywhere([a, b, c], id, turnId)
    const frames = await framesUntilEnd(a, id)
    assert.deepEqual(
      seen,
      frames.map((frame) => frame.id),
      'no gap, and no event twice',
    )
  },
)

// A daemon that is killed here may have taken over a turn of another test: none of them counts takeovers.
describe('side by side', { concurrency: true }, () => {
  test('the owner is killed in an answer, in a pause and after parking: others continue, a reader resumes at its cursor, and any daemon resumes', async () => {
    const killed = await rig.daemon('killed')
    const started = async (prompt: string, until: string) => {
      const { id } = await killed.api.session()
      const turnId = await killed.api.prompt(id, prompt)
      await killed.api.events(id, ({ type }) => type === until)
      return { id, turnId }
    }
    const [paused, parked] = await Promise.all([started('pause', 'retry'), started('park', 'parked')])
    const { id } = await killed.api.session(inShared)
    const turnId = await killed.api.prompt(id, 'talk')
    const seen = await killed.api.events(id, ({ type }) => type === 'text-delta')
    await killed.program.kill('SIGKILL')
    overload.open()
    missingKey.open()
    assert.equal((await c.api.call('POST', `/v1/turns/${parked.turnId}/resume`)).status, 202)
    const last = seen.at(-1)?.seq ?? 0
    const rest = await b.api.ended(id, turnId, last)
    assert.equal(rest[0]?.seq, last + 1)
    assert.ok(rest.some(({ type }) => type === 'taken-over'))
    assert.equal(rest.at(-1)?.type, 'turn-end')
    await sameEverywhere([a, b, c], id, turnId)
    for (const turn of [paused, parked]) {
      const events = await sameEverywhere([a, b, c], turn.id, turn.turnId)
      assert.equal(events.at(-1)?.type, 'turn-end')
      assert.equal(
        types(events).includes('taken-over'),
        turn === paused,
        'a parked turn has no owner to be taken over from',
      )
    }
  })

  test('the owner is killed while a command runs: the command ran once, and its end is found', async () => {
    const killed = await rig.daemon('killed-too')
    const { id } = await killed.api.session(inShared)
    const turnId = await killed.api.prompt(id, 'echo tool >> effects; sleep 4')
    await killed.api.events(id, ({ type }) => type === 'tool-call')
    await eventually('the command runs', () => rig.effects().includes('tool') || undefined)
    await killed.program.kill('SIGKILL')
    const events = await sameEverywhere([a, b, c], id, turnId)
    const [result] = events.filter((event) => event.type === 'tool-result')
    assert.equal(result?.outcome, 'ok')
    assert.equal(events.at(-1)?.type, 'turn-end')
    assert.equal(rig.effects().filter((line) => line === 'tool').length, 1)
  })

  test('a daemon that is restarted in its folder continues without waiting for its lease', async () => {
    const lease = ['--lease-ms', '3600000'] // no test waits that long
    const first = await rig.daemon('again', lease)
    const { id } = await first.api.session()
    const turnId = await first.api.prompt(id, 'talk')
    await first.api.events(id, ({ type }) => type === 'text-delta')
    await first.program.kill('SIGKILL')
    const second = await rig.daemon('again', lease)
    const events = await second.api.ended(id, turnId)
    assert.equal(events.at(-1)?.type, 'turn-end')
    await second.program.stop()
  })
})

test('a daemon that is stopped hands over its 200 turns, and no takeover counts', async () => {
  const leaving = await rig.daemon('leaving')
  const turns = await Promise.all(
    Array.from({ length: 200 }, async () => {
      const { id } = await leaving.api.session()
      return { id, turnId: await leaving.api.prompt(id, 'hold') }
    }),
  )
  const { code } = await leaving.program.stop()
  assert.equal(code, 0)
  handedOver.open()
  const ended = await Promise.all(turns.map(({ id, turnId }) => b.api.ended(id, turnId)))
  for (const events of ended) {
    assert.equal(events.at(-1)?.type, 'turn-end')
    assert.deepEqual(
      types(events).filter((type) => ['parked', 'resumed', 'taken-over'].includes(type)),
      ['parked', 'resumed'],
    )
  }
})
