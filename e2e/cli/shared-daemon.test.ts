/** Runs that share a daemon, and what a failed run leaves behind. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { checked, Desk, endedWith, whole } from './desk.ts'
import { ask, bash, say, sayWhen } from '../answers.ts'
import { httpServer } from '../../test/kit/http-server.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const { version: VERSION } = JSON.parse(
  readFileSync(new URL('../../packages/cli/package.json', import.meta.url), 'utf8'),
) as { version: string }

test('a run ends with its own turn, even while its daemon serves another run', LIMIT, async () => {
  await using desk = await Desk.start()
  const second = Promise.withResolvers<void>()
  const both = Promise.withResolvers<void>()
  desk.model.script('first', [sayWhen(both.promise, 'wait ', 'first')])
  desk.model.script('second', [sayWhen(second.promise, 'wait ', 'second')])
  const owner = desk.begin(['go', '--model', 'first'])
  await owner.seen(({ type }) => type === 'text-delta')
  const guest = desk.begin(['go', '--model', 'second', '--share'])
  await guest.seen(({ type }) => type === 'text-delta')
  both.resolve()
  endedWith(checked(await whole(owner)), 0, 'finished')
  assert.equal(guest.child.exitCode, null, 'the first run did not wait for its daemon, which stays for the other one')
  second.resolve()
  endedWith(checked(await whole(guest)), 0, 'finished')
})

test("a run that finds another run's daemon just as it stops continues with its own daemon", LIMIT, async () => {
  await using desk = await Desk.start([say('done')])
  await using ending = await httpServer((request, response) => {
    if (request.url === '/v1/health') response.end(JSON.stringify({ status: 'ok', version: VERSION }))
    else void ending.close()
  })
  const { url } = ending
  const tokenFile = desk.write(join(desk.stateDir, 'daemon.token'), 'a-token-of-another-run-0123456789\n', 0o600)
  desk.write(join(desk.stateDir, 'daemon.json'), JSON.stringify({ url, pid: 1, tokenFile, untilIdle: true }))
  const run = await desk.run()
  endedWith(run, 0, 'finished')
  assert.deepEqual(desk.place.leftovers(), [])
})

test('a turn whose daemon died together with the run that owned it still ends', LIMIT, async () => {
  await using desk = await Desk.start()
  const later = Promise.withResolvers<void>()
  desk.model.script('owner', [sayWhen(later.promise, 'wait ', 'owner')])
  desk.model.script('guest', [
    ask([bash('echo once >> ledger')]),
    sayWhen(later.promise, 'wait ', 'lost'),
    say('guest'),
  ])
  const owner = desk.begin(['go', '--share', '--model', 'owner'])
  await owner.seen(({ type }) => type === 'text-delta')
  const guest = desk.begin(['go', '--share', '--model', 'guest'])
  await guest.seen(({ type }) => type === 'text-delta')
  const { pid } = desk.daemon()
  owner.child.kill('SIGKILL')
  process.kill(pid, 'SIGKILL')
  const run = checked(await whole(guest))
  endedWith(run, 0, 'finished')
  assert.equal(run.result.text, 'guest')
  assert.deepEqual(desk.lines('ledger'), ['once'])
  await owner.ended
  later.resolve()
})

test('a damaged token file is reported by name, and nothing is left running', LIMIT, async () => {
  await using desk = await Desk.start([say('hi')])
  assert.equal((await desk.run()).code, 0)
  const file = join(desk.stateDir, 'daemon.token')
  for (const bytes of [Buffer.of(), Buffer.from([0xff, 0xfe, 0x7b])]) {
    writeFileSync(file, bytes)
    const { code, stderr } = await whole(desk.begin())
    assert.equal(code, 2, stderr)
    assert.match(stderr, /the token file .*daemon\.token (?:contains no token|is damaged.*); remove it, and a new one/)
    assert.deepEqual(desk.place.leftovers(), [])
  }
})

test('runs that start at the same moment all finish', LIMIT, async () => {
  await using desk = await Desk.start()
  desk.model.script('any', Array(8).fill(say('done')))
  const runs = await Promise.all(Array.from({ length: 4 }, () => whole(desk.begin())))
  for (const run of runs) endedWith(checked(run), 0, 'finished')
})
