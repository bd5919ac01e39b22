/** What a kill of the daemon, or of its runner with everything in it, leaves to the next one. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { present } from './client.ts'
import { Rig } from './rig.ts'
import { ask, bash, byProgress, refuse, say } from '../answers.ts'
import { isHistory, isTurn } from './shapes.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { wholeLines } from '../../test/kit/whole-lines.ts'

const append = (n: number, more = ''): string => `echo line-${n} >> ledger; ${more} echo did ${n}`
const ledger = (rig: Rig): string[] => wholeLines(join(rig.place.folder, 'ledger'))

describe('kill -9', { ...LIMIT, concurrency: 2 }, () => {
  test('of the runner and everything in it: the outcome is unknown, and nothing runs again', async () => {
    await using rig = await Rig.start()
    const { id, model } = await rig.session(byProgress([ask([bash(append(1, 'sleep 600;'))]), say('I shall look.')]), {
      box: { workspace: rig.place.folder },
    })
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
    assert.equal(last['text'], 'I shall look.', JSON.stringify(last))
    const told = present(rig.model.received(model).at(-1)).messages.find(({ role }) => role === 'tool')
    assert.match(JSON.stringify(told), /unknown|not known|cannot (be )?know|may have/i)
  })
})

describe('across a restart', { ...LIMIT, concurrency: 2 }, () => {
  test('keys, the queue, parked turns, cursors and old turns outlive a kill', async () => {
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

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It ended together with a process that was killed earlier.
  }
}
