/** kill -9 and clean stops of the daemon, kill -9 of its runner: nothing is lost or happens twice. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { type Event, present, type Frame } from './client.ts'
import { assembled, Rig } from './rig.ts'
import { ask, bash, byProgress, refuse, say, stallAfter } from '../answers.ts'
import { isHistory, isTurn } from './shapes.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { wholeLines } from '../../test/kit/whole-lines.ts'

const append = (n: number, more = ''): string => `echo line-${n} >> ledger; ${more} echo did ${n}`
const ledger = (rig: Rig): string[] => wholeLines(join(rig.place.folder, 'ledger'))
const lines = (count: number): string[] => Array.from({ length: count }, (_, i) => `line-${i + 1}`)

describe('kill -9', { ...LIMIT, concurrency: 2 }, () => {
  test('of the daemon at many points of one turn: each effect once, no gap, the same answer', async () => {
    await using rig = await Rig.start()
    const { id } = await rig.session(
      byProgress([
        ask([bash(append(1))], 'One. '),
        ask([bash(append(2, 'sleep 1;'))], 'Two. '),
        ask([bash(append(3)), bash(append(4, 'sleep 0.5;'))], 'Three. '),
        say('never asked for with three results'),
        ask([bash(append(5))], 'Four. '),
        say('All ', 'five ', 'done.'),
      ]),
      { box: { workspace: rig.place.folder } },
    )
    const receipt = await rig.prompt(id, 'count to five')
    const { turnId } = receipt.json
    const frames: Frame[] = []
    const points: ((event: Event) => boolean)[] = [
      ({ type }) => type === 'step-start',
      (event) => event.type === 'text-delta' && event['step'] === 1,
      (event) => event.type === 'tool-call' && event['step'] === 2,
      (event) => event.type === 'tool-result' && /did 2/.test(event['text']),
      (event) => event.type === 'tool-call' && event['step'] === 3,
      (event) => event.type === 'tool-result' && /did 4/.test(event['text']),
    ]
    for (const point of [...points, undefined]) {
      const cursor = frames.at(-1)?.id
      const stream = await rig.events(id, '', cursor === undefined ? {} : { 'last-event-id': cursor })
      await (point === undefined ? stream.ended(turnId) : seenIn(frames, point) || stream.until(point))
      if (point !== undefined) await rig.kill9()
      stream.close()
      frames.push(...stream.frames)
      if (point !== undefined) await rig.up()
    }
    const events = frames.map(({ data }) => data as Event)
    isHistory(events)
    const whole = await rig.events(id)
    await whole.ended(turnId)
    assert.deepEqual(whole.frames, frames, 'the pieces add up to the journal')
    assert.deepEqual(ledger(rig), lines(5))
    const last = present(events.at(-1))
    assert.equal(last.type, 'turn-end')
    assert.equal(last['text'], 'All five done.')
    assert.deepEqual([...assembled(events, turnId).values()], ['One. ', 'Two. ', 'Three. ', 'Four. ', 'All five done.'])
    const results = events.filter(({ type }) => type === 'tool-result')
    assert.deepEqual(
      results.map((event) => event['outcome']),
      Array(5).fill('ok'),
      'killing only the daemon leaves no outcome unknown',
    )
    const epochs = events.filter(({ type }) => type === 'taken-over').map((event) => event['epoch'])
    assert.ok(epochs.length > 0)
    assert.deepEqual(
      epochs,
      [...new Set(epochs)].sort((a, b) => a - b),
    )
    isTurn((await rig.call('GET', `/v1/turns/${turnId}`)).json, 'finished')
  })

  test('of the runner during a tool call: the exec is adopted, and its effect happened once', async () => {
    await using rig = await Rig.start()
    const { id } = await rig.session(
      byProgress([ask([bash(append(1, 'sleep 2; echo later >> ledger;'))]), say('ok')]),
      {
        box: { workspace: rig.place.folder },
      },
    )
    const { turnId, events } = await rig.turn(id)
    await events.type('tool-call')
    await eventually('the tool has started', () => ledger(rig).length === 1)
    process.kill(runnerPid(rig), 'SIGKILL')
    const last = await events.ended(turnId)
    isHistory(events.events)
    assert.equal(last.type, 'turn-end', JSON.stringify(last))
    const result = present(events.events.find(({ type }) => type === 'tool-result'))
    assert.ok(['ok', 'unknown'].includes(result['outcome']), JSON.stringify(result))
    if (result['outcome'] === 'ok') assert.match(result['text'], /did 1/)
    assert.deepEqual(ledger(rig), ['line-1', 'later'])
  })

  for (const policy of ['tell', 'stop'] as const) {
    test(`of the runner and everything in it: the outcome is unknown, and nothing runs again (${policy})`, async () => {
      await using rig = await Rig.start()
      const { id, model } = await rig.session(
        byProgress([ask([bash(append(1, 'sleep 600;'))]), say('I shall look.')]),
        {
          box: { workspace: rig.place.folder },
          policy: { outcomeUnknown: policy },
        },
      )
      const { turnId, events } = await rig.turn(id)
      await eventually('the tool has started', () => ledger(rig).length === 1)
      for (const line of rig.place.leftovers()) {
        const pid = Number(line.split(' ')[0])
        if (pid !== rig.pid) killIfThere(pid)
      }
      const last = await events.ended(turnId)
      isHistory(events.events)
      const result = present(events.events.find(({ type }) => type === 'tool-result'))
      assert.equal(result['outcome'], 'unknown', JSON.stringify(result))
      assert.deepEqual(ledger(rig), ['line-1'])
      if (policy === 'tell') {
        assert.equal(last['text'], 'I shall look.', JSON.stringify(last))
        const told = present(rig.model.received(model).at(-1)).messages.find(({ role }) => role === 'tool')
        assert.match(JSON.stringify(told), /unknown|not known|cannot (be )?know|may have/i)
      } else {
        assert.equal(last['category'], 'exec_outcome_unknown')
        assert.equal(last['class'], 'unknown_outcome')
        assert.equal(last['sideEffects'], 'unknown')
      }
    })
  }
})

describe('across a restart', { ...LIMIT, concurrency: 2 }, () => {
  test('keys, the queue, parked turns, cursors and old turns are kept', async () => {
    await using rig = await Rig.start()
    const parking = refuse(
      429,
      { message: 'slow down', type: 'requests', code: 'rate_limit_exceeded' },
      { 'retry-after': '3600' },
    )
    const { id, record } = await rig.session(
      [say('old'), parking, say('woken'), say('queued one'), say('queued two')],
      { title: 'kept' },
    )
    const old = await rig.prompt(id, 'old', {}, { 'idempotency-key': 'k-old' })
    const before = await rig.events(id)
    await before.ended(old.json.turnId)
    const { turnId } = (await rig.prompt(id, 'park')).json
    const parked = await before.type('parked')
    const one = await rig.prompt(id, 'one', { queue: true }, { 'idempotency-key': 'k-one' })
    const two = await rig.prompt(id, 'two', { queue: true })
    await before.until((event) => event.turnId === two.json.turnId)
    await rig.kill9()
    await rig.up()
    assert.deepEqual((await rig.prompt(id, 'old', {}, { 'idempotency-key': 'k-old' })).json, old.json)
    assert.deepEqual((await rig.prompt(id, 'one', { queue: true }, { 'idempotency-key': 'k-one' })).json, one.json)
    assert.equal(
      (await rig.prompt(id, 'other', {}, { 'idempotency-key': 'k-old' })).json.category,
      'idempotency_conflict',
    )
    const session = (await rig.call('GET', `/v1/sessions/${id}`)).json
    assert.equal(session.title, 'kept')
    assert.equal(session.createdAt, record.createdAt)
    assert.equal(session.state, 'parked')
    const waiting = (await rig.call('GET', `/v1/turns/${turnId}`)).json
    isTurn(waiting, 'parked')
    assert.equal(waiting.parked.resumeAt, parked['resumeAt'])
    isTurn((await rig.call('GET', `/v1/turns/${old.json.turnId}`)).json, 'finished')
    isTurn((await rig.call('GET', `/v1/turns/${two.json.turnId}`)).json, 'queued')
    const stream = await rig.events(id, '', { 'last-event-id': before.cursor() })
    assert.equal((await rig.call('POST', `/v1/turns/${turnId}/resume`)).status, 202)
    await stream.ended(two.json.turnId)
    assert.ok(!stream.frames.some(({ event }) => event === 'reset'))
    const all = [...before.events, ...stream.events]
    isHistory(all)
    assert.deepEqual(
      all.filter(({ type }) => type === 'turn-end').map((event) => event['text']),
      ['old', 'woken', 'queued one', 'queued two'],
    )
  })

  test('a stream cut by the crash is requested again, and its parts are discarded', async () => {
    await using rig = await Rig.start()
    const { id } = await rig.session([stallAfter('half an ans'), say('the answer')])
    const { turnId, events } = await rig.turn(id)
    await events.type('text-delta')
    await rig.kill9()
    await rig.up()
    const stream = await rig.events(id)
    const last = await stream.ended(turnId)
    isHistory(stream.events)
    assert.equal(last['text'], 'the answer')
    assert.deepEqual([...assembled(stream.events, turnId).values()], ['the answer'])
    assert.ok(stream.events.some(({ type }) => type === 'part-discarded'))
  })

  test('after a clean stop during a tool call, the next daemon continues with the same process', async () => {
    await using rig = await Rig.start()
    const { id } = await rig.session(byProgress([ask([bash(append(1, 'sleep 2;'))]), say('done')]), {
      box: { workspace: rig.place.folder },
    })
    const { turnId } = await rig.turn(id)
    await eventually('the tool has started', () => ledger(rig).length === 1)
    await rig.stop()
    await rig.up()
    const stream = await rig.events(id)
    assert.equal((await stream.ended(turnId))['text'], 'done')
    isHistory(stream.events)
    assert.equal(stream.events.find(({ type }) => type === 'tool-result')?.['outcome'], 'ok')
    assert.deepEqual(ledger(rig), lines(1))
  })

  test('a cancel survives: a turn cancelled right before the crash ends cancelled', async () => {
    await using rig = await Rig.start()
    const { id } = await rig.session([ask([bash("trap '' TERM; echo on; sleep 7005.25; sleep 7005.25")]), say('never')])
    const { turnId, events } = await rig.turn(id)
    await events.type('tool-output')
    assert.equal((await rig.call('POST', `/v1/turns/${turnId}/cancel`, { body: { reason: 'stop' } })).status, 202)
    await rig.kill9()
    await rig.up()
    const stream = await rig.events(id)
    const last = await stream.ended(turnId)
    isHistory(stream.events)
    assert.equal(last['category'], 'cancelled')
    assert.equal(last['reason'], 'stop')
  })

  test('a state folder has one owner: a second daemon says so and exits, the first keeps running', async () => {
    await using rig = await Rig.start()
    const second = await rig.place.run(['up', '--port', '0', '--json', '--state-dir', rig.stateDir, '--model', 'any'], {
      BREAKFALL_MODEL_BASE_URL: rig.model.url,
    })
    assert.notEqual(second.code, 0)
    assert.ok(!second.lines.some((line) => line.includes('"listening"')))
    const { id } = await rig.session([say('still here')])
    assert.equal((await rig.wholeTurn(id)).last['text'], 'still here')
  })
})

const seenIn = (frames: readonly Frame[], point: (event: Event) => boolean): boolean =>
  frames.some(({ data }) => point(data as Event))

function runnerPid(rig: Rig): number {
  return (JSON.parse(readFileSync(join(rig.stateDir, 'runner', 'runner.json'), 'utf8')) as { pid: number }).pid
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It ended together with a process that was killed earlier.
  }
}
