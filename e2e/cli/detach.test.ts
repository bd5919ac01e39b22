/** Terminals that close, and others that attach: the turn continues, and each of them sees all of it. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { ask, bash, refuse, say, sayWhen } from '../answers.ts'
import { hasTerminals, isolation } from '../breakfall.ts'
import { checked, Desk, serverIsolation, whole } from './desk.ts'

/** A turn whose answer waits for `go`. */
async function waiting(ownGroup = false): Promise<{ desk: Desk; go: () => void }> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const desk = await Desk.start([sayWhen(promise, 'I begin ', 'well.')], {}, ownGroup)
  return { desk, go: resolve }
}

const stateOf = async (desk: Desk, turnId: unknown): Promise<unknown> =>
  (await desk.command(['show', String(turnId), '--json'])).json.at(-1)?.['state']

/** The daemon of the run has ended, with its runner. */
const rested = (desk: Desk): Promise<boolean> =>
  eventually('the daemon has ended', () => desk.place.leftovers().length === 0)

describe('a closed terminal', { ...LIMIT, concurrency: 2 }, () => {
  test('SIGHUP, twice, leaves the turn running; its daemon ends when the turn does', async () => {
    const { desk, go } = await waiting()
    await using _ = desk
    const running = desk.begin()
    await running.seen(({ type }) => type === 'text-delta')
    running.child.kill('SIGHUP') // the kernel and the shell each send one
    running.child.kill('SIGHUP')
    const { code, result } = checked(await whole(running))
    assert.deepEqual([code, result.outcome, result['left']], [130, 'cancelled', true])
    assert.match(result.fault.error, /^The terminal was closed, and this run stopped following the turn/)
    assert.equal(await stateOf(desk, result.turnId), 'running')
    go()
    await rested(desk)
    assert.equal(await stateOf(desk, result.turnId), 'finished')
  })

  test('the same under up, which keeps running', async () => {
    const { desk, go } = await waiting()
    await using _ = desk
    const up = desk.start(['up', '--port', '0', '--json', ...serverIsolation])
    await up.seen(({ event }) => event === 'listening')
    const running = desk.begin()
    const { turnId } = await running.seen(({ type }) => type === 'text-delta')
    running.child.kill('SIGHUP')
    assert.equal((await whole(running)).code, 130)
    go()
    await eventually('it has finished', async () => (await stateOf(desk, turnId)) === 'finished')
    assert.equal(up.isOver, false)
  })

  test('SIGHUP while the daemon starts: the turn starts all the same', async () => {
    await using desk = await Desk.start([say('done')])
    const running = desk.begin()
    await eventually('the daemon starts', () => desk.place.leftovers().some((line) => line.includes(' up --json')))
    running.child.kill('SIGHUP')
    const { json } = await whole(running)
    const { turnId } = json.at(-1) ?? {}
    await rested(desk)
    assert.equal(await stateOf(desk, turnId), 'finished')
  })

  test('kill -9 of the process group ends the run and nothing else', async () => {
    const { desk, go } = await waiting(true)
    await using _ = desk
    const running = desk.begin()
    const { turnId } = await running.seen(({ type }) => type === 'text-delta')
    process.kill(-running.pid, 'SIGKILL')
    await running.ended
    assert.equal(await stateOf(desk, turnId), 'running')
    go()
    await rested(desk)
    assert.equal(await stateOf(desk, turnId), 'finished')
  })

  test('a turn that waits for its model continues after SIGHUP, and is not left with a daemon that ended', async () => {
    await using desk = await Desk.start([refuse(429, { message: 'later' }, { 'retry-after': '600' }), say('done')])
    const running = desk.begin()
    const { turnId } = await running.seen(({ type }) => type === 'parked')
    running.child.kill('SIGHUP')
    const { result } = checked(await whole(running))
    assert.equal(result.outcome, 'parked')
    const resumed = await desk.command(['resume', String(turnId)])
    assert.equal(resumed.code, 0, resumed.stderr)
    await rested(desk)
    assert.equal(await stateOf(desk, turnId), 'finished')
  })

  test('a terminal that disappears, with the shell in it', { skip: !hasTerminals }, async () => {
    const { desk, go } = await waiting()
    await using _ = desk
    const { url: baseUrl } = desk.model
    const env = { BREAKFALL_MODEL_BASE_URL: baseUrl, BREAKFALL_MODEL_NAME: 'any' }
    const terminal = desk.place.startInTerminal(['run', 'go', ...isolation], env)
    await terminal.shown(/I begin/)
    terminal.child.kill('SIGKILL') // as sshd does when the connection is gone: the session gets SIGHUP
    await eventually('the run is gone', () => desk.place.leftovers().every((line) => !line.includes('main.ts run ')))
    const { json } = await desk.command(['sessions', '--json'])
    const { turn } = json[0] as { turn: { id: string; state: string } }
    assert.equal(turn.state, 'running')
    go()
    await rested(desk)
    assert.equal(await stateOf(desk, turn.id), 'finished')
  })
})

describe('run --detach and attach', { ...LIMIT, concurrency: 2 }, () => {
  test('the turn starts without its reader; attach shows what happened, then the rest, and has the result', async () => {
    const { promise, resolve: go } = Promise.withResolvers<void>()
    await using desk = await Desk.start([ask([bash('echo one >> ledger')]), sayWhen(promise, 'then ', 'done')])
    const started = checked(await whole(desk.begin(['--detach', 'go'])))
    assert.deepEqual([started.code, started.result.outcome, started.events], [0, 'detached', []])
    const { sessionId, turnId } = started.result
    await eventually('it has worked', () => desk.lines('ledger').length === 1)
    const attached = desk.start(['attach', '--json'])
    const text = desk.start(['attach', String(sessionId)])
    await attached.seen(({ type }) => type === 'text-delta')
    await text.line((line) => line.startsWith('prompt   go'))
    go()
    const [program, person] = [checked(await whole(attached)), await whole(text)]
    assert.deepEqual(
      [program.code, program.result.outcome, program.result.text, program.result.turnId],
      [0, 'finished', 'then done', turnId],
    )
    assert.equal(program.events[0]?.type, 'turn-start')
    assert.equal(person.code, 0, person.stderr)
    assert.match(person.stderr, new RegExp(`attached to turn ${String(turnId)}\\. Ctrl-C stops following`))
    assert.match(person.lines.join('\n'), /tools    bash\n[^]*then done\n[^]*✓ finished in 2 steps/)
    assert.doesNotMatch(person.lines.join('\n'), /● bash/, 'an earlier step is told in short')
    await rested(desk)
    const late = await desk.command(['attach', String(turnId), '--json'])
    assert.deepEqual([late.code, late.json.at(-1)?.['text']], [0, 'then done'])
  })

  test('Ctrl-C of a reader that attached leaves the turn running', async () => {
    const { desk, go } = await waiting()
    await using _ = desk
    checked(await whole(desk.begin(['--detach', 'go'])))
    const attached = desk.start(['attach', '--json'])
    await attached.seen(({ type }) => type === 'text-delta')
    attached.child.kill('SIGINT')
    const { code, result } = checked(await whole(attached))
    assert.deepEqual([code, result['left']], [130, true])
    go()
    await rested(desk)
    assert.equal(await stateOf(desk, result.turnId), 'finished')
  })

  test('without a turn it says so; a rehearsal ends with its program', async () => {
    await using desk = await Desk.start()
    const none = await desk.command(['attach'])
    assert.deepEqual([none.code, none.lines], [0, ['no turn is running or parked']])
    const rehearsal = await desk.command(['run', '--rehearsal', '--detach'])
    assert.equal(rehearsal.code, 2)
    assert.match(rehearsal.stderr, /so it ends with it; omit --detach/)
  })

  test(
    'two terminals show the same approval; the answer in one of them is seen in both',
    { skip: !hasTerminals },
    async () => {
      await using desk = await Desk.start([ask([bash('echo allowed >> ledger')]), say('done')])
      const how = ['--approve', 'always', '--detach', 'go']
      checked(
        await whole(
          desk.start([
            'run',
            '--json',
            ...isolation.filter((flag) => flag !== 'never' && flag !== '--approve'),
            ...how,
          ]),
        ),
      )
      const terminals = [desk.place.startInTerminal(['attach']), desk.place.startInTerminal(['attach'])]
      for (const terminal of terminals) await terminal.shown(/\[y\] allow/)
      terminals[1]?.press('y')
      for (const terminal of terminals) {
        await terminal.shown(/✓ approved/)
        await terminal.shown(/✓ finished/)
        assert.equal(await terminal.code, 0)
      }
      assert.deepEqual(desk.lines('ledger'), ['allowed'])
      await rested(desk)
    },
  )
})
