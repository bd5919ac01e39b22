/** Runners that join a fleet. */
import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import type { BoxOverview, RunnerView, SessionEvent, SessionEventOf, System } from '@breakfall/wire'
import { assertNoGap } from '../../packages/daemon/test/support/api.ts'
import type { ScriptedAnswer } from '../../packages/engine/test/support/scripted-model.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { shared } from '../shared.ts'
import { type FleetRunner, JoinedRig } from './joined-rig.ts'
import type { FleetDaemon } from './rig.ts'

/** The lines of the prompt are the commands of the turn, one a step. A line `hold NAME` holds the next step back until `gate`. */
const held = new Map<string, PromiseWithResolvers<void>>()
const gate = (name: string): PromiseWithResolvers<void> => {
  const known = held.get(name) ?? Promise.withResolvers<void>()
  held.set(name, known)
  return known
}

const rig = await shared(
  JoinedRig.start(({ messages }): ScriptedAnswer => {
    const from = messages.findLastIndex(({ role }) => role === 'user')
    const lines = String(messages[from]?.content ?? '').split('\n')
    const given = messages.slice(from).filter(({ role }) => role === 'assistant').length
    const command = lines.filter((line) => !line.startsWith('hold '))[given]
    if (command === undefined) return { text: 'done' }
    const [, name] = /^hold (.+)$/.exec(lines[lines.indexOf(command) - 1] ?? '') ?? []
    const until = name === undefined ? Promise.resolve() : gate(name).promise
    return { until, calls: [{ tool: 'bash', arguments: { command } }] }
  }),
)
const [a, b] = await Promise.all([rig.daemon('a'), rig.daemon('b')])
const inShared = { box: { workspace: rig.workspace } }
const file = (name: string): string => join(rig.workspace, name)

const joined = (runner: FleetRunner): Promise<string> => runner.program.line((line) => line.includes('"joined"'))

async function runnerView(id: string): Promise<RunnerView | undefined> {
  const { status, json } = await b.api.call<RunnerView>('GET', `/v1/runners/${id}`)
  return status === 200 ? json : undefined
}

const results = (events: readonly SessionEvent[]): readonly SessionEventOf<'tool-result'>[] =>
  events.filter((event) => event.type === 'tool-result')

const moves = (events: readonly SessionEvent[]): readonly SessionEventOf<'box-moved'>[] =>
  events.filter((event) => event.type === 'box-moved')

function assertFinished(events: readonly SessionEvent[]): void {
  assertNoGap(events)
  assert.equal(events.at(-1)?.type, 'turn-end', JSON.stringify(events.at(-1)))
}

const labelled = (label: string, flags: readonly string[] = []): readonly string[] => [
  '--fleet-key-file',
  rig.keyFile,
  '--label',
  label,
  ...flags,
]

/** Each test has its own runners, chosen by a label. */
suite('runners that join', { concurrency: 2 }, () => {
  test(
    'a runner that comes back at another port is found inside the call, and by an undo, whatever the configuration says',
    LIMIT,
    async () => {
      const first = await rig.runner('moves', [a, b], labelled('moves'))
      await joined(first)
      const { id } = await a.api.session({ placement: { labels: ['moves'] }, box: { checkpoints: 'auto' } })
      const turnId = await a.api.prompt(id, 'echo kept > file\nhold moved\ncat file')
      await b.api.events(id, ({ type }) => type === 'tool-result')
      assert.equal((await b.api.call('GET', `/v1/sessions/${id}`)).json['runnerId'], first.id)
      const moved = async (runner: FleetRunner): Promise<FleetRunner> => {
        await runner.program.stop()
        const next = await rig.runner('moves', [a, b], labelled('moves'))
        await joined(next)
        assert.notEqual(next.url, runner.url)
        return next
      }
      const second = await moved(first)
      gate('moved').resolve()
      const events = await b.api.ended(id, turnId)
      assertFinished(events)
      assert.equal(results(events)[1]?.text, 'kept')
      assert.ok(!events.some(({ type }) => type === 'parked' || type === 'box-moved'))
      const pauses = events.flatMap((event) => (event.type === 'retry' ? [event.delayMs] : []))
      assert.ok(
        pauses.every((delayMs) => delayMs === 0),
        `it is called there at once: ${pauses.join(', ')}`,
      )

      const { json: list } = await b.api.call<{ checkpoints: { turnId: string | null }[] }>(
        'GET',
        `/v1/sessions/${id}/checkpoints`,
      )
      assert.ok(list.checkpoints.some((checkpoint) => checkpoint.turnId === turnId))
      const third = await moved(second)
      const undone = await b.api.call('POST', `/v1/sessions/${id}/undo`, { toTurn: turnId })
      assert.deepEqual(
        [undone.status, undone.json['removed']],
        [200, 1],
        'undo works at any daemon, after another move',
      )
      const after = await a.api.ended(id, await a.api.prompt(id, 'cat file'))
      assert.match(results(after).at(-1)?.text ?? '', /No such file/)
      await third.program.stop()
    },
  )

  test('a runner that is killed and restarted still has the command that it ran', LIMIT, async () => {
    const first = await rig.runner('killed', [a], labelled('killed'))
    await joined(first)
    const { id } = await a.api.session({ ...inShared, placement: { labels: ['killed'] } })
    const turnId = await a.api.prompt(id, `echo killed >> effects; until [ -e go-on ]; do sleep 0.05; done; echo ended`)
    await eventually('the command runs', () => rig.effects().includes('killed'))
    await first.program.kill('SIGKILL')
    writeFileSync(file('go-on'), '')
    const second = await rig.runner('killed', [a], labelled('killed'))
    const events = await b.api.ended(id, turnId)
    assertFinished(events)
    assert.deepEqual(
      results(events).map(({ outcome, text }) => [outcome, text]),
      [['ok', 'ended']],
    )
    assert.equal(rig.effects().filter((line) => line === 'killed').length, 1)
    await second.program.stop()
  })

  test('a session without a box does not wait for a runner that was killed while another one fits', LIMIT, async () => {
    const [stays, dies] = await Promise.all([
      rig.runner('stays', [a], labelled('gone')),
      rig.runner('dies', [a], labelled('gone')),
    ])
    await Promise.all([joined(stays), joined(dies)])
    await dies.program.kill('SIGKILL')
    let isSurvived = false
    for (let session = 0; session < 40 && !isSurvived; session += 1) {
      const { id } = await a.api.session({ placement: { labels: ['gone'] } }) // the registry still has both
      const events = await b.api.ended(id, await a.api.prompt(id, 'echo here'))
      assertFinished(events)
      assert.equal(results(events)[0]?.text, 'here')
      assert.equal((await b.api.call('GET', `/v1/sessions/${id}`)).json['runnerId'], stays.id)
      isSurvived = events.some((event) => event.type === 'retry' && event.fault.category === 'runner_unreachable')
    }
    assert.ok(isSurvived, 'one of them was placed at the runner that is gone')
    await stays.program.stop()
  })

  test(
    'a runner is used once it answers at the address it gave; a turn that needs its label waits until then',
    LIMIT,
    async () => {
      writeFileSync(file('address'), 'http://127.0.0.1:9')
      const flags = labelled('gpu', ['--advertise-command', 'cat', file('address')])
      const runner = await rig.runner('late', [a], flags)
      const { id } = await a.api.session({ placement: { labels: ['gpu'] } })
      const turnId = await a.api.prompt(id, 'echo at last')
      const waiting = await b.api.events(id, ({ type }) => type === 'parked')
      const parked = waiting.at(-1)
      assert.equal(parked?.type === 'parked' && parked.fault.category, 'runner_not_available')
      assert.equal(await runnerView(runner.id), undefined)
      writeFileSync(file('address'), JSON.stringify({ url: runner.url }))
      const events = await b.api.ended(id, turnId)
      assertFinished(events)
      assert.equal((await runnerView(runner.id))?.url, runner.url)
      assert.equal((await a.api.call('GET', `/v1/sessions/${id}`)).json['runnerId'], runner.id)
      await runner.program.stop()
    },
  )

  test('another runner at the old address is never used', LIMIT, async () => {
    const first = await rig.runner('left', [a], labelled('left'))
    await joined(first)
    const { id } = await a.api.session({ placement: { labels: ['left'] } })
    const turnId = await a.api.prompt(id, 'echo mine > file\nhold taken\ncat file')
    await a.api.events(id, ({ type }) => type === 'tool-result')
    await first.program.stop()
    const { port } = new URL(first.url)
    const other = await rig.runner('taker', [a], labelled('taker', ['--port', port]))
    await joined(other)
    gate('taken').resolve()
    await a.api.events(id, ({ type }) => type === 'retry')
    const second = await rig.runner('left', [a], labelled('left'))
    const events = await b.api.ended(id, turnId)
    assertFinished(events)
    assert.equal(results(events)[1]?.text, 'mine')
    await Promise.all([other.program.stop(), second.program.stop()])
  })

  test(
    'what ran at a dropped runner is unknown, its sessions move openly, and it is swept when it comes back',
    LIMIT,
    async () => {
      const first = await rig.runner('dropped', [a], labelled('pair'))
      await joined(first)
      const create = { placement: { labels: ['pair'] } }
      const [alone, together] = await Promise.all([a.api.session(create), a.api.session({ ...create, ...inShared })])
      const turns = await Promise.all([
        a.api.prompt(alone.id, 'echo lost > file\nsleep 300\ncat file'),
        b.api.prompt(together.id, 'echo kept > kept\nsleep 300\ncat kept'),
      ])
      const running = (id: string): Promise<unknown> =>
        a.api.events(id, (event) => event.type === 'tool-call' && event.arguments['command'] === 'sleep 300')
      await Promise.all([running(alone.id), running(together.id)])
      const second = await rig.runner('taking', [b], labelled('pair'))
      await joined(second)
      first.program.child.kill('SIGSTOP') // it hangs: its connections stay open
      assert.equal((await b.api.call('POST', `/v1/runners/${first.id}/drop`, {})).status, 200)
      const [lost, kept] = await Promise.all([b.api.ended(alone.id, turns[0]), a.api.ended(together.id, turns[1])])
      for (const events of [lost, kept]) assertFinished(events)
      const move = { from: first.id, to: second.id, because: 'dropped' }
      for (const [events, filesKept] of [
        [lost, false],
        [kept, true],
      ] as const) {
        assert.deepEqual(
          moves(events).map(({ from, to, because, filesKept: isKept }) => ({ from, to, because, isKept })),
          [{ ...move, isKept: filesKept }],
        )
        assert.equal(results(events)[1]?.outcome, 'unknown')
      }
      assert.match(results(lost)[1]?.text ?? '', /every file in it/)
      assert.match(results(lost)[2]?.text ?? '', /No such file/)
      assert.equal(results(kept)[2]?.text, 'kept')

      await first.program.kill('SIGKILL')
      const back = await rig.runner('dropped', [a], labelled('pair'))
      await eventually('it is used again', async () => (await runnerView(back.id))?.state === 'live')
      const { json } = await a.api.call<{ boxes: readonly { id: string }[] }>('GET', '/v1/boxes')
      assert.equal(
        json.boxes.filter((box) => [alone.id, together.id].includes(box.id)).length,
        2,
        'at the second runner only',
      )
      await Promise.all([back.program.stop(), second.program.stop()])
    },
  )

  test('a draining runner gets no new box and finishes the old ones; the command line says so', LIMIT, async () => {
    const runner = await rig.runner('draining', [a], labelled('drain'))
    await joined(runner)
    const create = { placement: { labels: ['drain'] } }
    const old = await a.api.session(create)
    const oldTurn = await a.api.prompt(old.id, 'echo one\nhold drained\necho two')
    await a.api.events(old.id, ({ type }) => type === 'tool-result')
    const environment = { BREAKFALL_URL: b.api.url, BREAKFALL_TOKEN: b.api.token }
    const drained = await b.place.run(['runners', 'drain', runner.id.slice(0, 23)], environment)
    assert.equal(drained.code, 0, drained.stderr)
    const fresh = await b.api.session(create)
    const freshTurn = await b.api.prompt(fresh.id, 'echo three')
    await a.api.events(fresh.id, ({ type }) => type === 'parked')
    gate('drained').resolve()
    assertFinished(await b.api.ended(old.id, oldTurn))
    const { json } = await b.place.run(['runners', '--json'], environment)
    assert.equal(json.find(({ runnerId }) => runnerId === runner.id)?.['state'], 'draining')
    await runner.program.stop()
    const again = await rig.runner('draining', [a], labelled('drain'))
    assertFinished(await a.api.ended(fresh.id, freshTurn))
    await again.program.stop()
  })

  test('without its own token nothing is registered, and nothing is called back', LIMIT, async () => {
    const runner = await rig.runner('stranger', [a], ['--label', 'stranger'])
    await runner.program.line((line) => line.includes('listening'))
    await eventually('it is refused', () => runner.program.stderr.includes('does not know its token'))
    assert.equal(await runnerView(runner.id), undefined)
    const put = (headers: Record<string, string>) =>
      a.api.call('PUT', `/v1/runners/${runner.id}`, { url: 'http://127.0.0.1:1' }, headers)
    assert.equal((await put({ authorization: '' })).status, 401)
    assert.equal((await put({})).status, 401, "the daemon's own token is no runner's token")
    await runner.program.stop()

    const environment = { BREAKFALL_FLEET_KEY_FILE: rig.keyFile }
    const { json } = await a.place.run(['fleet', 'enroll', '--json'], environment)
    const code = String(json.at(-1)?.['code'])
    const enrolled = await rig.runner('stranger', [b], ['--label', 'stranger', '--enroll', code])
    await joined(enrolled)
    assert.equal((await runnerView(enrolled.id))?.state, 'live')
    const second = await a.api.call(
      'POST',
      '/v1/runners/enroll',
      { runnerId: 'r2' },
      { authorization: `Bearer ${code}` },
    )
    assert.equal(second.status, 401, 'a code works once')
    assert.ok(existsSync(enrolled.tokenFile))
    await enrolled.program.stop()
  })
})

/** This daemon has called no runner itself. */
async function assertSeesAll({ api }: FleetDaemon, boxId: string, runnerId: string): Promise<void> {
  const { boxes } = (await api.call<BoxOverview>('GET', '/v1/boxes')).json
  const box = boxes.find(({ id }) => id === boxId)
  assert.deepEqual([box?.runnerId, box?.execs.length], [runnerId, 1], 'boxes that other daemons made')
  const { json: system } = await api.call<System>('GET', '/v1/system')
  assert.equal(system.runner.state, 'connected')
  assert.deepEqual(new Set(system.daemons?.map(({ name }) => name)), new Set(['a', 'b', 'strict']))
  assert.equal(system.runners?.find((runner) => runner.runnerId === runnerId)?.state, 'live')
  const ready = await api.call<{ checks: Record<string, unknown> }>('GET', '/v1/ready')
  assert.equal(ready.json.checks['runner'], 'ok')
}

test('replaceAfterMs: a runner that is silent for so long is declared lost, and the session moves', LIMIT, async () => {
  const strict = await rig.daemon('strict', { BREAKFALL_FLEET_REPLACE_AFTER_MS: '3000' })
  const first = await rig.runner('silent', [strict], labelled('silent'))
  await joined(first)
  const { id } = await a.api.session({ ...inShared, placement: { labels: ['silent'] } })
  const turnId = await a.api.prompt(id, 'echo silent >> effects; sleep 300\necho moved')
  await eventually('the command runs', () => rig.effects().includes('silent'))
  await assertSeesAll(strict, id, first.id)
  const second = await rig.runner('heard', [strict], labelled('silent'))
  await joined(second)
  first.program.child.kill('SIGSTOP')
  const events = await b.api.ended(id, turnId)
  assertFinished(events)
  assert.deepEqual(
    moves(events).map(({ from, to, because }) => [from, to, because]),
    [[first.id, second.id, 'silent']],
  )
  assert.deepEqual(
    results(events).map(({ outcome }) => outcome),
    ['unknown', 'ok'],
  )
  assert.equal(rig.effects().filter((line) => line === 'silent').length, 1)
  await first.program.kill('SIGKILL')
  await second.program.stop()
})
