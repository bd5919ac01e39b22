/** Runs that share a daemon, and what is left of one that goes wrong. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { checked, Desk, endedWith, LIMIT, whole } from './wire-cli-kit.ts'
import { say, sayWhen } from './wire-daemon-model.ts'

test('a run ends with its own turn, also while its daemon serves another run', LIMIT, async () => {
  await using desk = await Desk.start()
  const second = Promise.withResolvers<void>()
  const both = Promise.withResolvers<void>()
  desk.model.script('first', [sayWhen(both.promise, 'wait ', 'first')])
  desk.model.script('second', [sayWhen(second.promise, 'wait ', 'second')])
  const owner = desk.begin(['go', '--model', 'first'])
  await owner.seen(({ type }) => type === 'text-delta')
  const guest = desk.begin(['go', '--model', 'second'])
  await guest.seen(({ type }) => type === 'text-delta')
  both.resolve()
  endedWith(checked(await whole(owner)), 0, 'finished')
  assert.equal(guest.child.exitCode, null, 'the other one goes on')
  second.resolve()
  endedWith(checked(await whole(guest)), 0, 'finished')
})

test('a damaged token file is named, and nothing is left running', LIMIT, async () => {
  await using desk = await Desk.start([say('hi')])
  assert.equal((await desk.run()).code, 0)
  const file = join(desk.stateDir, 'daemon.token')
  for (const bytes of [Buffer.of(), Buffer.from([0xff, 0xfe, 0x7b])]) {
    writeFileSync(file, bytes)
    const { code, stderr } = await whole(desk.begin())
    assert.equal(code, 2, stderr)
    assert.match(stderr, /the token file .*daemon\.token (?:has no token in it|is damaged.*); remove it, and a new one/)
    assert.deepEqual(desk.place.leftovers(), [])
  }
})

test('runs that start at the same moment all do their work', LIMIT, async () => {
  await using desk = await Desk.start()
  desk.model.script('any', Array(8).fill(say('done')))
  const runs = await Promise.all(Array.from({ length: 4 }, () => whole(desk.begin())))
  for (const run of runs) endedWith(checked(run), 0, 'finished')
})
