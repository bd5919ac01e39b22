/** `breakfall run --json`: the session's events, one result, and the exit code of each outcome. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { isolation } from '../breakfall.ts'
import { checked, Desk, endedWith, filesWith, modeOf, REFUSING_URL, ofType, whole } from './desk.ts'
import { sleeps } from '../daemon/rig.ts'
import { ask, bash, byProgress, cutAfter, refuse, say, stallAfter } from '../answers.ts'
import { done, finish, role, text, usage } from '../../test/kit/openai-frames.ts'
import { stream } from '../../test/kit/plays.ts'
import { isHistory } from '../daemon/shapes.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

describe('run --json', { ...LIMIT, concurrency: 2 }, () => {
  test('prints the events of a turn with tools, then the result, and exits with 0', async () => {
    await using desk = await Desk.start(
      [ask([bash('echo made > made; cat README')], 'I look. '), say('It ', 'says hello.')],
      { README: 'hello\n' },
    )
    const run = await desk.run(['read', 'the', 'readme'])
    endedWith(run, 0, 'finished')
    isHistory(run.events)
    assert.equal(run.events[0]?.['prompt'], 'read the readme')
    assert.equal(run.result.text, 'It says hello.')
    assert.equal(run.result.faultsSurvived, 0)
    assert.equal(run.events.at(-1)?.type, 'turn-end')
    assert.equal(run.events.at(-1)?.['text'], run.result.text)
    assert.equal(run.events.at(-1)?.turnId, run.result.turnId)
    assert.match(ofType(run, 'tool-result')[0]?.['text'], /hello/)
    assert.deepEqual(desk.lines('made'), ['made'], 'it works in the current folder')
    const sent = desk.model.received('any')[0]
    assert.match(String(sent?.headers.authorization), /^Bearer sk-wire-cli/)
    assert.equal(desk.place.leftovers().length, 0, 'its daemon and runner end with it')
  })

  test('an answer that stops at the token limit is never called finished, and ends with 7', async () => {
    const answer = stream(role, text('Delete the old data folder, but only aft'), finish('length'), usage(9, 9), done)
    await using desk = await Desk.start([answer, answer])
    const run = await desk.run()
    endedWith(run, 7, 'finished')
    assert.equal(run.result['finish'], 'length')
    const told = await desk.command(['run', 'go', ...isolation])
    assert.equal(told.code, 7)
    const [, session = ''] = /--session (\S+) "go on"/.exec(told.lines.join('\n')) ?? assert.fail(told.lines.join('\n'))
    assert.match(
      told.lines.join('\n'),
      /◐ stopped at the model's token limit in 1 step, no faults\n {2}the answer is not complete/,
    )
    const shown = (await desk.command(['show', session])).lines.join('\n')
    assert.match(shown, /state +cut off,[^]*turn \S+: stopped at the model's token limit, 1 step[^]*go on/)
    const { json } = await desk.command(['sessions', '--json'])
    assert.match(JSON.stringify(json[0]?.['turn']), /"finish":"length"/)
    for (const args of [['sessions'], ['tail', '--no-follow', session]]) {
      const all = (await desk.command(args)).lines.join('\n')
      assert.match(all, /cut off|token limit/)
      assert.doesNotMatch(all, /finished/)
    }
  })

  test('counts survived faults', async () => {
    await using desk = await Desk.start([
      cutAfter('It ', 'goes '),
      refuse(503, { message: 'busy' }),
      say('It ', 'went well.'),
    ])
    const run = await desk.run()
    endedWith(run, 0, 'finished')
    assert.equal(run.result.text, 'It went well.')
    assert.equal(run.result.faultsSurvived, 2)
    assert.equal(ofType(run, 'retry').length, 2)
    assert.equal(ofType(run, 'part-discarded').length, 1)
  })

  test('a request that the model rejects fails with exit code 1', async () => {
    await using desk = await Desk.start([refuse(400, { message: 'bad tool schema', type: 'invalid_request_error' })])
    const run = await desk.run()
    endedWith(run, 1, 'failed', 'model_bad_request')
    assert.equal(run.events.at(-1)?.type, 'turn-error')
    assert.equal(desk.model.received('any').length, 1, 'a genuine 4xx is not tried again')
    assert.match(run.result.fault.errorRaw, /bad tool schema/)
  })

  for (const [what, args] of [
    ['an unknown flag', ['run', '--json', '--no-such-flag', 'go']],
    ['an unknown command', ['no-such-command']],
    ['a policy value that is no number', ['run', '--json', '--attempts-max', 'many', 'go']],
    ['a policy value out of range', ['run', '--json', '--attempts-max', '-1', 'go']],
    ['a network that is none', ['run', '--json', '--network', 'some', 'go']],
    ['a base URL that is none', ['run', '--json', '--base-url', 'not a url', 'go']],
    ['an API that is none', ['run', '--json', '--api', 'soap', 'go']],
    ['a port that is none', ['up', '--json', '--port', '99999']],
  ] as const)
    test(`${what} is a usage error with exit code 2 that says what was expected`, async () => {
      await using desk = await Desk.start([say('not asked')])
      const ended = await desk.command(args)
      assert.equal(ended.code, 2, ended.lines.join('\n') + ended.stderr)
      assert.notEqual(ended.stderr.trim(), '')
      assert.doesNotMatch(ended.stderr, /^\s+at /m, 'no stack trace')
      assert.equal(desk.model.received('any').length, 0)
    })

  test('the turn parks when no attempts are left, and without parking it fails with the exit code of a transient fault, 3', async () => {
    await using desk = await Desk.start(Array.from({ length: 9 }, () => refuse(500, { message: 'broken' })))
    const never = await desk.run(['--park', 'never', '--attempts-max', '2', 'go'])
    endedWith(never, 3, 'failed', 'model_server_error')
    assert.equal(desk.model.received('any').length, 2)
    const auto = await desk.run(['--attempts-max', '3', '--park-wait-ms', '1', 'go'])
    endedWith(auto, 3, 'parked', 'model_server_error')
    assert.equal(desk.model.received('any').length, 5)
    assert.equal(auto.events.at(-1)?.type, 'parked')
  })

  test('a deadline is a budget: exit code 7', async () => {
    await using desk = await Desk.start([stallAfter('I think')])
    const run = await desk.run(['--deadline-ms', '1500', 'go'])
    endedWith(run, 7, 'failed', 'deadline_exceeded')
    assert.equal(run.events.at(-1)?.type, 'turn-error')
  })

  test('a turn that has used its steps parks and asks: exit code 3', async () => {
    await using desk = await Desk.start(Array.from({ length: 9 }, () => ask([bash('echo step >> ledger')])))
    const run = await desk.run(['--steps-max', '3', 'go'])
    endedWith(run, 3, 'parked')
    assert.equal(desk.lines('ledger').length, 3)
    assert.partialDeepStrictEqual(run.events.at(-1), { type: 'parked', because: 'steps_spent' })
    assert.match(JSON.stringify(run.result.fault), /steps/i)
  })

  test('an unreachable runner is exit code 125, parked or failed', async () => {
    await using desk = await Desk.start(byProgress([ask([bash('echo ran >> ledger')]), say('never said')]))
    desk.config(`[runner]\nurl = "${REFUSING_URL}"\ntokenFile = "${desk.write('token', 'T'.repeat(40), 0o600)}"\n`)
    const run = await desk.run(['--park', 'never', 'go'])
    endedWith(run, 125, 'failed', 'runner_unreachable')
    assert.match(run.result.fault.error, /^the tool runner is not reachable yet/)
    assert.ok(ofType(run, 'retry').every((event) => event['action'] === 'resolve'))
    assert.equal(run.result.faultsSurvived, 0, 'what ended the turn was not survived')
    assert.deepEqual(desk.lines('ledger'), [], 'never a fall-back to local execution')
  })

  test('commands that need a running daemon exit with 125 if none answers', async () => {
    await using desk = await Desk.start()
    for (const args of [
      ['tail', 'x'],
      ['resume', 'x'],
    ]) {
      const ended = await desk.command([...args, '--json'])
      assert.equal(ended.code, 125, `${args.join(' ')}: ${ended.lines.join('\n')}${ended.stderr}`)
      assert.match(ended.lines.join('\n') + ended.stderr, /daemon_unreachable/)
    }
  })

  test('Ctrl-C cancels once, reaches the process in the box, and exits with 130', async () => {
    await using desk = await Desk.start(
      byProgress([ask([bash('echo started > started; sleep 8123')]), say('not said')]),
    )
    const running = desk.begin()
    await eventually('the tool runs', () => existsSync(join(desk.folder, 'started')) && sleeps('8123'))
    running.child.kill('SIGINT')
    const run = checked(await whole(running))
    endedWith(run, 130, 'cancelled', 'cancelled')
    assert.equal(ofType(run, 'tool-result')[0]?.['outcome'], 'cancelled')
    assert.equal(run.events.at(-1)?.type, 'turn-error')
    assert.equal(run.events.at(-1)?.['actor'], 'user')
    assert.equal(sleeps('8123'), false)
    assert.deepEqual(desk.place.leftovers(), [])
    assert.equal(desk.model.received('any').length, 1)
  })

  test('Ctrl-C in the middle of an answer exits with 130 too', async () => {
    await using desk = await Desk.start([stallAfter('I think', ' and think')])
    const running = desk.begin()
    await running.seen((line) => line['type'] === 'text-delta')
    running.child.kill('SIGINT')
    const run = checked(await whole(running))
    endedWith(run, 130, 'cancelled', 'cancelled')
  })

  test('without --json the answer is plain text on stdout, with the same exit code', async () => {
    await using desk = await Desk.start([ask([bash('echo from-the-tool')], 'I look. '), say('All is well.')])
    const ended = await desk.command(['run', ...isolation, 'go'], { env: { NO_COLOR: '1' } })
    assert.equal(ended.code, 0, ended.stderr)
    const text = ended.lines.join('\n') + ended.stderr
    assert.match(text, /All is well\./)
    assert.equal(text.includes('\u001b'), false, 'no colours without a terminal')
  })

  test('the tokens of daemon and runner are in files with mode 600 and nowhere else', async () => {
    await using desk = await Desk.start([say('done')])
    const run = await desk.run()
    endedWith(run, 0, 'finished')
    for (const name of ['daemon.token', 'runner.token']) {
      const file = join(desk.stateDir, name)
      const token = readFileSync(file, 'utf8').trim().split(/\s/)[0] ?? ''
      assert.ok(token.length >= 32)
      assert.equal(modeOf(file), '600')
      assert.equal(run.stdout.includes(token) || run.stderr.includes(token), false)
      assert.deepEqual(filesWith(desk.place.home, token), [file])
    }
  })
})
