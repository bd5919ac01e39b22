/** What a user sees of what was done: how runs ended, what they used, and everything that a command printed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask, bash, say, sayWhen } from '../answers.ts'
import { checked, Desk, endedWith, ofType, types, whole } from './desk.ts'
import { isolation } from '../breakfall.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const COUNT = (lines: number): string =>
  `i=0; while [ $i -lt ${lines} ]; do echo "line $i"; i=$((i+1)); done; echo problem >&2`
const lines = (count: number): string => Array.from({ length: count }, (_, n) => `line ${n}`).join('\n')

test(
  'after a run, its session says how it ended, what it used and cost, and each output is there whole',
  LIMIT,
  async () => {
    await using desk = await Desk.start([ask([bash(COUNT(100)), bash(COUNT(90_000))]), say('Counted.')])
    const prices = { BREAKFALL_MODEL_PRICE_IN: '3', BREAKFALL_MODEL_PRICE_OUT: '15' }
    const run = await desk.run(['count', 'for', 'me'], { env: prices })
    endedWith(run, 0, 'finished')
    assert.ok(run.result['cost'].value > 0 && run.result['durationMs'] >= 0, JSON.stringify(run.result))
    const [short = '', long = ''] = ofType(run, 'tool-call').map((event) => String(event['execId']))

    const listed = (await desk.command(['sessions'])).lines.join('\n')
    assert.match(listed, /SESSION +AGE +STATE +FOLDER +MODEL +TITLE\n\S+ +\d+ s +finished +\S.*count for me/)
    const shown = (await desk.command(['show', String(run.result['sessionId'])])).lines.join('\n')
    assert.match(shown, /prompt {3}count for me\n {2}tools {4}bash ×2\n {2}used .* tokens in, .* out, \$0\.\d+/)
    assert.match(shown, new RegExp(`^ {2}cut {6}a long output; all of it: breakfall output ${long}$`, 'm'))
    assert.ok(!shown.includes(short), 'the other one was not cut')
    const tail = (await desk.command(['tail', String(run.result['sessionId'])])).lines.join('\n')
    assert.match(tail, /^› count for me\n/)
    assert.match(tail, new RegExp(`omitted; all of it: breakfall output ${short}\\n`))
    assert.match(tail, /\n── turn-end \S+$/, 'it includes the last event')

    const small = await desk.command(['output', short])
    assert.deepEqual([small.code, small.lines.join('\n')], [0, lines(100)], small.stderr)
    assert.match(small.stderr, /^problem$/m)
    const large = await desk.command(['output', long, '--stream', 'stdout'])
    assert.deepEqual([large.code, large.lines.length, large.lines.join('\n') === lines(90_000)], [0, 90_000, true])

    const unknown = await desk.command(['output', `${short}9`])
    assert.deepEqual([unknown.code, /No turn has run a command/.test(unknown.stderr)], [1, true], unknown.stderr)
    const resumed = await desk.command(['resume', String(run.result['sessionId'])])
    assert.deepEqual([resumed.code, /is idle: it has no running or parked turn/.test(resumed.stderr)], [1, true])
    const cancelled = await desk.command(['cancel', String(run.result.turnId)])
    assert.equal(cancelled.code, 0)
    assert.match(cancelled.lines.join('\n'), /: finished,/)
    assert.match(cancelled.stderr, /The turn has already finished; nothing was cancelled\./)
    assert.deepEqual(desk.place.leftovers(), [], isolation.join())
  },
)

test(
  'kill -9 of the first of two runs in one folder, and of its daemon, does not hold up the second',
  LIMIT,
  async () => {
    await using desk = await Desk.start()
    desk.model.script('first', [sayWhen(new Promise(() => undefined), 'one', ' never'), say('one ends')])
    desk.model.script('second', [say('two')])
    const first = desk.begin(['first', '--model', 'first'])
    await first.seen((line) => line['type'] === 'text-delta')
    const second = desk.begin(['second', '--model', 'second'])
    await second.seen((line) => line['type'] === 'turn-queued')
    const { pid } = desk.daemon()
    first.child.kill('SIGKILL')
    process.kill(pid, 'SIGKILL')
    await first.ended
    const run = checked(await whole(second))
    endedWith(run, 0, 'finished')
    assert.equal(run.result.text, 'two')
    const rest = checked(await whole(desk.begin(['--session', String((await first.seen(() => true))['sessionId'])])))
    assert.equal(rest.result.text, 'one ends', 'the turn of the first run was not lost')
  },
)

test('a second run in the same folder says that it waits, and starts when the first has ended', LIMIT, async () => {
  const gate = Promise.withResolvers<void>()
  await using desk = await Desk.start([sayWhen(gate.promise, 'one', ' ends'), say('two')])
  const first = desk.begin(['first'])
  const { sessionId } = await first.seen((line) => line['type'] === 'text-delta')
  const second = desk.begin(['second'])
  const queued = await second.seen((line) => line['type'] === 'turn-queued')
  assert.deepEqual(queued['behind'], {
    sessionId,
    turnId: (await first.seen(() => true))['turnId'],
    workspace: desk.folder,
  })
  const refused = await desk.run(['third'], { env: { BREAKFALL_RUN_SAME_FOLDER: 'refuse' } })
  assert.equal(refused.result.fault.category, 'session_busy', refused.stderr)
  assert.match(refused.result.fault.error, /is working in .*--share/)
  const stopped = desk.begin(['fourth'])
  await stopped.seen((line) => line['type'] === 'turn-queued')
  stopped.child.kill('SIGINT')
  assert.equal(checked(await whole(stopped)).code, 130)
  gate.resolve()
  endedWith(checked(await whole(first)), 0, 'finished')
  const run = checked(await whole(second))
  endedWith(run, 0, 'finished')
  assert.deepEqual(types(run).slice(0, 2), ['turn-queued', 'turn-start'])
})
