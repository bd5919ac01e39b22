/** Viewing sessions while no daemon runs: what an earlier run left is read from disk. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { closedPort } from '../../test/kit/tcp-server.ts'
import { startRehearsalModel } from '@breakfall/chaos'
import { sessionEventSchema, sessionSchema, turnSchema } from '@breakfall/wire'
import { isolation, Place } from '../breakfall.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const AWAY = { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' }
const PARKS = ['--model', 'any', '--attempts-max', '2', '--backoff-ms', '1', '--park-wait-ms', '0', ...isolation]

test(
  'a turn that an earlier run left parked can be listed, shown, explained and tailed without a daemon, which changes nothing; and exported and resumed',
  LIMIT,
  async () => {
    await using place = new Place()
    const run = await place.run(['run', 'hello', '--json', ...PARKS], AWAY)
    assert.equal(run.code, 3, run.stderr)
    const { turnId, sessionId } = run.json.at(-1) as { turnId: string; sessionId: string }

    const journal = (): Buffer => readFileSync(join(place.stateDir, 'journal', 'journal.db'))
    const before = journal()
    const sessions = await place.run(['--json', 'sessions'])
    assert.equal(sessions.code, 0, sessions.stderr)
    assert.match(sessions.stderr, /no daemon is running/)
    const [session, result] = sessions.json
    assert.equal(sessionSchema.parse(session).id, sessionId)
    assert.deepEqual([session?.['state'], session?.['live']], ['parked', false])
    assert.deepEqual(result, { event: 'result', outcome: 'finished', count: 1 })
    const prefix = sessionId.slice(0, 13)
    const waits = 'waiting for the model server \\(model_unreachable\\)'
    const how = `to continue it: breakfall run --continue \\(in its folder\\) or breakfall run --session ${prefix}`
    const waiting = new RegExp(`${waits} since \\S+ \\S+ UTC\n  ${how}`)
    assert.match((await place.run(['sessions'])).lines.join('\n'), waiting)

    const turn = await place.run(['show', turnId, '--json'])
    assert.equal(turn.code, 0, turn.stderr)
    assert.equal(turnSchema.parse(turn.json[0]).parked?.category, 'model_unreachable')
    const shown = (await place.run(['show', prefix])).lines.join('\n')
    assert.match(shown, new RegExp(`turn ${turnId}: parked, 1 step, 2 attempts`))
    assert.match(shown, waiting)
    for (const id of [turnId, prefix])
      assert.match((await place.run(['explain', id])).lines.join('\n'), /category {3}model_unreachable/)

    const events = await place.run(['tail', sessionId, '--no-follow', '--json'])
    assert.deepEqual(
      events.json.slice(0, -1).map((event) => sessionEventSchema.parse(event)),
      run.json.slice(0, -1),
    )
    assert.deepEqual(
      (await place.run(['tail', sessionId, '--no-follow', '--json', '--after', '2'])).json.slice(0, -1),
      events.json.slice(2, -1),
    )

    const followed = await place.run(['tail', sessionId])
    assert.match(followed.lines.join('\n'), /^› hello\n[^]*parked/, 'the events so far')
    assert.equal(followed.code, 125, 'a turn without a daemon cannot be followed')
    assert.match(followed.stderr, new RegExp(`breakfall up.*Or continue it .*breakfall run --session ${sessionId}`))

    assert.ok(journal().equals(before))
    assert.ok(!existsSync(join(place.stateDir, 'daemon.json')))

    const bundle = join(place.folder, 'bundle.ndjson')
    writeFileSync(bundle, 'old', { mode: 0o644 })
    const mine = join(place.folder, 'mine')
    writeFileSync(mine, 'untouched')
    symlinkSync(mine, `${bundle}.part`) // a box can put links into the folder that the user exports to
    const exported = await place.run(['export', sessionId, '--output', bundle, '--json'])
    assert.equal(exported.code, 0, exported.stderr)
    assert.equal(exported.json.at(-1)?.['file'], bundle)
    const [head, ...rest] = readFileSync(bundle, 'utf8').trimEnd().split('\n')
    assert.equal((JSON.parse(head ?? '') as { event: string }).event, 'bundle')
    assert.deepEqual(
      rest.map((line) => JSON.parse(line) as unknown),
      run.json.slice(0, -1),
    )
    assert.equal(statSync(bundle).mode & 0o777, 0o600)
    assert.equal(readFileSync(mine, 'utf8'), 'untouched')
    const nowhere = await place.run(['export', sessionId, '--output', join(place.folder, 'no', 'file')])
    assert.equal(nowhere.code, 2)
    assert.match(nowhere.stderr, /Cannot write .*\/no\/file: its folder does not exist\. Nothing was kept\./)
    const unknown = await place.run(['export', 'nosuch'])
    assert.equal(unknown.code, 1)
    assert.match(unknown.stderr, /No session has the id nosuch\. Nothing was exported\./)
    assert.deepEqual(place.leftovers(), [])

    const again = await place.run(['run', '--continue', ...PARKS], AWAY)
    assert.equal(again.code, 3, again.stderr)
    assert.ok(again.stderr.includes(`session: ${sessionId}`), again.stderr)
    assert.match(again.lines.join('\n'), new RegExp(`still parked after 1 step: ${waits}\n  ${how}`))
  },
)

test(
  'an unfinished turn of a killed daemon is not shown as running without saying that no daemon runs it',
  LIMIT,
  async () => {
    await using place = new Place()
    const model = await startRehearsalModel({ chunkDelayMs: 5 })
    try {
      const running = place.start(['run', 'count', '--json', '--model', 'rehearsal/steps-40', ...isolation], {
        OPENAI_BASE_URL: model.url,
      })
      const { turnId } = await running.seen((line) => line['type'] === 'tool-result')
      const { pid } = JSON.parse(readFileSync(join(place.stateDir, 'daemon.json'), 'utf8')) as { pid: number }
      running.child.kill('SIGKILL')
      process.kill(pid, 'SIGKILL')
      await running.ended
      const sessions = await place.run(['sessions'])
      assert.equal(sessions.code, 0, sessions.stderr)
      assert.match(sessions.lines.join('\n'), /running, no daemon/)
      const shown = await place.run(['show', String(turnId)])
      assert.match(
        shown.lines.join('\n'),
        /running.*\n {2}but no daemon is working on it; to continue it: breakfall run --continue .*; breakfall up continues/,
      )
    } finally {
      await model.close()
    }
  },
)

test('before the first run there are no sessions and no known ids', LIMIT, async () => {
  await using place = new Place()
  const sessions = await place.run(['sessions'])
  assert.equal(sessions.code, 0)
  assert.match(sessions.lines.join(), /no sessions yet/)
  assert.equal((await place.run(['show', 'x'])).code, 1)
  assert.ok(!existsSync(place.stateDir), 'looking made a state folder')
})

test(
  'a parked turn can be cancelled without a daemon: only that turn, and nothing is started or left behind',
  LIMIT,
  async () => {
    await using place = new Place()
    const [mine, other] = [
      await place.run(['run', 'one', '--json', ...PARKS], AWAY),
      await place.run(['run', 'two', '--json', ...PARKS], AWAY),
    ].map((run) => run.json.at(-1) as { turnId: string; sessionId: string })
    const cancelled = await place.run(['cancel', String(mine?.turnId), '--json', '--reason', 'not needed'])
    assert.equal(cancelled.code, 0, cancelled.stderr)
    assert.equal(turnSchema.parse(cancelled.json[0]).state, 'cancelled')
    assert.match(String(turnSchema.parse(cancelled.json[0]).fault?.error), /not needed/)
    const shown = await place.run(['show', String(mine?.turnId).slice(0, -1)])
    assert.match(shown.lines[0] ?? '', /: cancelled, 1 step/)
    assert.match((await place.run(['show', String(other?.turnId)])).lines[0] ?? '', /: parked,/)
    assert.deepEqual(place.leftovers(), [])
    assert.ok(!existsSync(join(place.stateDir, 'daemon.json')))
    assert.ok(!existsSync(join(place.stateDir, 'runner', 'runner.json')))
    const again = await place.run(['cancel', String(mine?.sessionId)])
    assert.equal(again.code, 1)
    assert.match(again.stderr, /is idle/)
  },
)

test('commands that need a daemon exit with 125 without one and say how to start it', LIMIT, async () => {
  await using place = new Place()
  for (const args of [
    ['resume', 'x'],
    ['tail', 'x'],
  ]) {
    const { code, stderr } = await place.run(args)
    assert.equal(code, 125, args.join(' '))
    assert.match(stderr, /breakfall up/)
  }
  const named = await place.run(['sessions'], { BREAKFALL_URL: `http://127.0.0.1:${await closedPort()}` })
  assert.equal(named.code, 125, 'a daemon that was named is not replaced by what is on this disk')
})

test('an invalid daemon address is a usage error', LIMIT, async () => {
  await using place = new Place()
  for (const url of ['127.0.0.1:4711', 'http://127.0.0.1:4711/v1', 'ftp://x']) {
    const { code, stderr } = await place.run(['sessions'], { BREAKFALL_URL: url })
    assert.equal(code, 2, url)
    assert.match(stderr, /BREAKFALL_URL must be the address of a daemon, such as/)
  }
})

test('tail without following reaches the end of a session, also from its last event', LIMIT, async () => {
  await using place = new Place()
  await place.run(['run', 'hello', '--json', ...PARKS], AWAY)
  const daemon = place.start(['up', '--json'], {
    ...AWAY,
    BREAKFALL_MODEL_NAME: 'any',
    BREAKFALL_POLICY_ATTEMPTS_MAX: '1',
  })
  await daemon.seen((line) => line['event'] === 'listening')
  const { json } = await place.run(['sessions', '--json'])
  const { id, live } = json[0] as { id: string; live?: boolean }
  assert.equal(live, undefined)
  const tail = await place.run(['tail', id, '--no-follow', '--json', '--after', '1000'])
  assert.deepEqual([tail.code, tail.json], [0, [{ event: 'result', outcome: 'finished', sessionId: id, count: 0 }]])
})
