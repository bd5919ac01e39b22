/** A remote runner as a run sees it: where it is, and where it has moved to. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { Desk, endedWith, gone, ofType, serverIsolation } from './desk.ts'
import type { Json } from '../daemon/client.ts'
import type { Play } from '../../test/kit/plays.ts'
import { ask, bash, byProgress, say } from '../answers.ts'
import { LIMIT } from '../../test/kit/wait.ts'

type Listening = { readonly url: string; readonly runnerId: string; readonly pid: number }

/** A runner on a free port, with a state folder of the given name. */
async function runner(desk: Desk, name: string): Promise<Listening> {
  const where = ['--token-file', tokenFile(desk), '--state-dir', join(desk.place.home, name)]
  const args = ['runner', '--port', '0', '--json', ...where, '--allow-workspace', desk.folder, ...serverIsolation]
  const line = (await desk.start(args, { bare: true }).seen(({ event }) => event === 'listening')) as Json
  return line
}

const tokenFile = (desk: Desk): string => join(desk.place.home, 'runner-token')
const SCRIPT = byProgress([ask([bash('echo one >> ledger')]), ask([bash('echo two >> ledger')]), say('Both ran.')])

/**
 * A runner whose address is in a file, and which moves between the first command and the second: `move` stops it, and `at`
 * starts a runner with that state folder and writes its address to the file.
 */
async function deskOfMoving(
  move: (first: Listening, at: (name: string) => Promise<Listening>) => Promise<void>,
): Promise<Desk> {
  const moving: Play = async () => {
    await move(first, at)
    return ask([bash('echo two >> ledger')])
  }
  const desk = await Desk.start(byProgress([ask([bash('echo one >> ledger')]), moving, say('Both ran.')]))
  const where = join(desk.place.home, 'where')
  const at = async (name: string): Promise<Listening> => {
    const listening = await runner(desk, name)
    desk.write(where, listening.url)
    return listening
  }
  const first = await at('runner state')
  desk.config(
    `[runner]\nurl = "${first.url}"\nresolveCommand = ["cat", "${where}"]\ntokenFile = "${tokenFile(desk)}"\n`,
  )
  return desk
}

describe('a remote runner', { ...LIMIT, concurrency: 2 }, () => {
  test('is set by [remote_runner] endpoint', async () => {
    await using desk = await Desk.start(SCRIPT)
    const { url, pid } = await runner(desk, 'runner state')
    desk.config(`[remote_runner]\nendpoint = "${url}"\n[runner]\ntokenFile = "${tokenFile(desk)}"\n`)
    const run = await desk.run()
    endedWith(run, 0, 'finished')
    assert.equal(run.result.text, 'Both ran.')
    assert.deepEqual(desk.lines('ledger'), ['one', 'two'])
    process.kill(pid, 0) // a run does not stop a runner that it did not start
  })

  test('that moves during a run is resolved again, and each command runs once', async () => {
    await using desk = await deskOfMoving(async (first, at) => {
      process.kill(first.pid, 'SIGKILL')
      await gone(first.pid) // its port refuses connections from now on
      const second = await at('runner state')
      assert.equal(second.runnerId, first.runnerId)
    })
    const run = await desk.run()
    endedWith(run, 0, 'finished')
    assert.deepEqual(desk.lines('ledger'), ['one', 'two'])
    const retries = ofType(run, 'retry')
    assert.ok(retries.every((event) => event['action'] === 'resolve' || event['action'] === 'resume'))
    assert.ok(run.result.faultsSurvived >= 1, 'the move was noticed')
  })
})
