/** A run and the turns that others have left or are at work on: it does its own, and says what it finds. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checked, Desk, endedWith, gone, LIMIT, whole } from './wire-cli-kit.ts'
import { say, sayWhen } from './wire-daemon-model.ts'

test(
  'a run takes up no turn that another has left, parked or in the middle, and does not wait for it',
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
    const mine = desk.begin(['go', '--model', 'mine'])
    await mine.seen(({ type }) => type === 'text-delta')
    const looked = await desk.command(['show', sessionId as string])
    assert.match(looked.lines.join('\n'), /running[^]*but no daemon runs it/)
    later.resolve()
    endedWith(checked(await whole(mine)), 0, 'finished')
    assert.equal(desk.model.asked('theirs').length, 1, 'nobody has asked for it')
    assert.deepEqual(
      desk.place.leftovers().filter((line) => /until-idle/.test(line)),
      [],
    )
    const taken = await desk.run(['--session', sessionId as string], { env: { BREAKFALL_MODEL_NAME: 'theirs' } })
    endedWith(taken, 0, 'finished')
    assert.equal(taken.result.text, 'taken up')
  },
)
