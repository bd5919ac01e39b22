/** A run beside turns that other runs left behind or are working on: it does its own turn and reports the others. */
import type { Program } from '../../test/kit/program.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checked, Desk, endedWith, gone, serverIsolation, whole } from './desk.ts'
import { type Script, startModelServer } from '../../test/kit/model-server.ts'
import { json } from '../../test/kit/plays.ts'
import { refuse, say, sayWhen } from '../answers.ts'
import { LIMIT } from '../../test/kit/wait.ts'

test(
  'a run neither resumes nor waits for a turn that another run left unfinished; explain and show say that no one works on it',
  LIMIT,
  async () => {
    await using desk = await Desk.start()
    const never = new Promise<void>(() => undefined)
    const later = Promise.withResolvers<void>()
    desk.model.script('theirs', [sayWhen(never, 'wait ', 'lost'), say('taken up')])
    desk.model.script('mine', [sayWhen(later.promise, 'wait ', 'mine')])
    const killed = desk.begin(['left in the middle', '--model', 'theirs'])
    const { sessionId } = await killed.seen(({ type }) => type === 'text-delta')
    const { pid } = desk.daemon()
    killed.child.kill('SIGKILL')
    process.kill(pid, 'SIGKILL')
    await Promise.all([killed.ended, gone(pid)])
    const { lines } = await desk.command(['explain', sessionId as string])
    const said = /was running when its daemon ended, and no daemon is working on it now; to continue it: /
    assert.match(lines.join('\n'), said)
    const mine = desk.begin(['go', '--model', 'mine'])
    await mine.seen(({ type }) => type === 'text-delta')
    const looked = await desk.command(['show', sessionId as string])
    assert.match(looked.lines.join('\n'), /running[^]*but no daemon is working on it/)
    later.resolve()
    endedWith(checked(await whole(mine)), 0, 'finished')
    assert.equal(desk.model.received('theirs').length, 1, 'nobody has asked for it')
    assert.deepEqual(
      desk.place.leftovers().filter((line) => /until-idle/.test(line)),
      [],
    )
    const taken = await desk.run(['--session', sessionId as string], { env: { BREAKFALL_MODEL_NAME: 'theirs' } })
    endedWith(taken, 0, 'finished')
    assert.equal(taken.result.text, 'taken up')
  },
)

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  test(
    `a run says that it waits for a parked turn and for how long; ${signal} leaves the turn parked`,
    LIMIT,
    async () => {
      await using desk = await Desk.start([refuse(429, { message: 'later' }, { 'retry-after': '600' }), say('done')])
      const running = desk.begin()
      const talk = saidBy(running)
      await running.seen(({ type }) => type === 'parked')
      await talk(/waiting for up to 60 s; Ctrl-C leaves the turn parked/)
      running.child.kill(signal)
      const run = checked(await whole(running))
      endedWith(run, 3, 'parked', 'model_rate_limited')
      assert.doesNotMatch(run.stderr, /cancel/)
      assert.doesNotMatch(JSON.stringify(run.result.fault), /by itself/, 'no one resumes it')
      const taken = await desk.run(['--continue'])
      endedWith(taken, 0, 'finished')
      assert.equal(taken.result.turnId, run.result.turnId)
      assert.deepEqual(desk.place.leftovers(), [])
    },
  )

test(
  'a run does not wait after a rejected key: the key comes from the environment, which does not change',
  LIMIT,
  async () => {
    await using desk = await Desk.start([refuse(401, { message: 'no' })])
    const run = await whole(desk.start(['run', '--isolation', 'process', 'go']))
    assert.equal(run.code, 4, run.stderr)
    assert.doesNotMatch(run.stderr, /waiting here/)
    assert.match(
      run.lines.join('\n'),
      /still parked[^]*to continue it: breakfall run --continue .*; under breakfall up: breakfall resume/,
    )
  },
)

test('a prompt to a busy session is refused with the running turn and the commands that help', LIMIT, async () => {
  await using desk = await Desk.start([refuse(401, { message: 'no' })])
  const { result } = await desk.run()
  const parked = await desk.command(['run', '--continue', 'another'])
  assert.equal(parked.code, 1)
  const { turnId, sessionId } = result as { turnId: string; sessionId: string }
  assert.match(parked.stderr, new RegExp(`Turn ${turnId} of this session is parked, waiting for a valid key`))
  for (const command of ['run --continue', `run --session ${sessionId}`, `cancel ${sessionId}`, 'run "PROMPT"'])
    assert.ok(parked.stderr.includes(`breakfall ${command}`), parked.stderr)
  assert.equal(desk.model.received('any').length, 1, 'to be asked for something else does not take it up')
})

test('continuing a turn that another run works on says so, and leaves it running on exit', LIMIT, async () => {
  const later = Promise.withResolvers<void>()
  await using desk = await Desk.start([sayWhen(later.promise, 'wait ', 'done')])
  const owner = desk.begin()
  await owner.seen(({ type }) => type === 'text-delta')
  const follower = desk.begin(['--continue'])
  await saidBy(follower)(/another run started this turn.*to cancel it: breakfall cancel/)
  const busy = await desk.command(['run', '--continue', 'another'])
  assert.match(busy.stderr, /is running, so the session takes no new prompt yet; to follow it: breakfall attach/)
  follower.child.kill('SIGINT')
  const left = checked(await whole(follower))
  endedWith(left, 130, 'cancelled')
  assert.equal(left.result['left'], true)
  later.resolve()
  endedWith(checked(await whole(owner)), 0, 'finished')
})

test(
  'when the daemon dies, a run and a tail report it immediately and both continue with the next daemon',
  LIMIT,
  async () => {
    const later = Promise.withResolvers<void>()
    await using desk = await Desk.start([
      sayWhen(new Promise(() => undefined), 'wait ', 'lost'),
      sayWhen(later.promise, '', 'done'),
    ])
    const args = ['up', '--json', '--port', '0', ...serverIsolation]
    const up = desk.start(args)
    await up.seen(({ event }) => event === 'listening')
    const running = desk.begin()
    const { sessionId } = await running.seen(({ type }) => type === 'text-delta')
    const tail = desk.start(['tail', sessionId as string, '--json'])
    await tail.seen(({ type }) => type === 'text-delta')
    const talks = [saidBy(running), saidBy(tail)]
    const { pid } = desk.daemon()
    process.kill(pid, 'SIGKILL')
    await gone(pid)
    for (const talk of talks) await talk(/The daemon at \S+ stopped answering\. Waiting .* are saved/)
    await desk.start(args).seen(({ event }) => event === 'listening')
    later.resolve()
    endedWith(checked(await whole(running)), 0, 'finished')
    await tail.seen(({ type }) => type === 'turn-end')
  },
)

test(
  'an unreachable server parks the turn even without a model name, and its first model is used later',
  LIMIT,
  async () => {
    await using desk = await Desk.start()
    const { port } = new URL(desk.model.url)
    await desk.model.close()
    const how = { bare: true, env: { OPENAI_BASE_URL: desk.model.url } }
    const parked = await desk.run(['--attempts-max', '1', '--park-wait-ms', '0', 'go'], how)
    endedWith(parked, 3, 'parked', 'model_unreachable')
    assert.match(parked.stderr, /model: the first model that \S+ lists, once it answers/)
    const listing: Script = ({ method }) => (method === 'GET' ? json(200, { data: [{ id: 'listed' }] }) : say('done'))
    await using server = await startModelServer(listing, { port: Number(port) })
    const taken = await desk.run(['--continue'], how)
    endedWith(taken, 0, 'finished')
    assert.equal(taken.result.turnId, parked.result.turnId)
    const prompts = server.requests.filter(({ method }) => method === 'POST')
    assert.deepEqual(
      prompts.map(({ body }) => body.model),
      ['listed'],
    )
  },
)

// ---- details ----

/** Waits for a message on stderr. */
function saidBy({ child, ended }: Program): (sentence: RegExp) => Promise<void> {
  let text = ''
  let look = (): void => undefined
  child.stderr?.on('data', (chunk: Buffer) => {
    text += chunk.toString()
    look()
  })
  return (sentence) =>
    new Promise((resolve, reject) => {
      look = () => void (sentence.test(text) && resolve())
      look()
      void ended.then(() => reject(new Error(`it ended without saying ${String(sentence)}:\n${text}`)))
    })
}
