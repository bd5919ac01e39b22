/** A remote runner: how its address is resolved, resolved again, and never confused with another runner. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { Desk, endedWith, gone, REFUSING_URL, ofType, serverIsolation } from './desk.ts'
import { httpServer } from '../../test/kit/http-server.ts'
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

/** Stops a runner for good: its port then refuses connections. */
async function end(pid: number, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  process.kill(pid, signal)
  await gone(pid)
}

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
  for (const [what, toml] of [
    ['[runner] url', (url: string) => `[runner]\nurl = "${url}"\n`],
    ['[remote_runner] endpoint', (url: string) => `[remote_runner]\nendpoint = "${url}"\n[runner]\n`],
  ] as const)
    test(`is set by ${what}`, async () => {
      await using desk = await Desk.start(SCRIPT)
      const { url, pid } = await runner(desk, 'runner state')
      desk.config(`${toml(url)}tokenFile = "${tokenFile(desk)}"\n`)
      const run = await desk.run()
      endedWith(run, 0, 'finished')
      assert.equal(run.result.text, 'Both ran.')
      assert.deepEqual(desk.lines('ledger'), ['one', 'two'])
      process.kill(pid, 0) // a run does not stop a runner that it did not start
    })

  for (const [kind, text] of [
    ['JSON', (url: string) => JSON.stringify({ url })],
    ['the bare URL', (url: string) => url],
  ] as const)
    test(`is resolved by a resolveCommand and a resolveUrl that return ${kind}`, async () => {
      await using desk = await Desk.start(SCRIPT)
      const { url } = await runner(desk, 'runner state')
      const answer = desk.write(join(desk.place.home, 'where'), `${text(url)}\n`)
      const token = `tokenFile = "${tokenFile(desk)}"`
      desk.config(`[runner]\nurl = "${REFUSING_URL}"\nresolveCommand = ["cat", "${answer}"]\n${token}\n`)
      endedWith(await desk.run(), 0, 'finished')
      assert.deepEqual(desk.lines('ledger'), ['one', 'two'])
      await using server = await httpServer((_, res) => res.end(text(url)))
      desk.config(`[runner]\nresolveUrl = "${server.url}/runner"\n${token}\n`)
      endedWith(await desk.run(), 0, 'finished')
      assert.deepEqual(desk.lines('ledger'), ['one', 'two', 'one', 'two'])
    })

  for (const signal of ['SIGTERM', 'SIGKILL'] as const)
    test(`that moves during a run (${signal}) is resolved again, and each command runs once`, async () => {
      await using desk = await deskOfMoving(async (first, at) => {
        await end(first.pid, signal)
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

  test('with another identity is never used: nothing runs there, and the run says why and exits with 125', async () => {
    await using desk = await deskOfMoving(async (first, at) => {
      await end(first.pid, 'SIGKILL')
      await at('another state')
    })
    const run = await desk.run(['--park', 'never', 'go'])
    endedWith(run, 125, 'failed')
    assert.match(run.result.fault.category, /^runner_(identity_mismatch|unreachable)$/)
    assert.deepEqual(desk.lines('ledger'), ['one'])
  })

  test('that rejects the token exits with 4, like other credential errors', async () => {
    await using desk = await Desk.start(SCRIPT)
    const { url } = await runner(desk, 'runner state')
    const wrong = desk.write(join(desk.place.home, 'wrong'), `${'w'.repeat(43)}\n`, 0o600)
    desk.config(`[runner]\nurl = "${url}"\ntokenFile = "${wrong}"\n`)
    const run = await desk.run(['--park-wait-ms', '1', 'go'])
    endedWith(run, 4, 'parked', 'runner_auth_failed')
    assert.equal(JSON.stringify(run).includes('w'.repeat(43)), false)
  })

  test("whose resolver fails is resolved again, reported with the resolver's own error, and not replaced by this machine", async () => {
    await using desk = await Desk.start(SCRIPT)
    desk.config('[runner]\nresolveCommand = ["sh", "-c", "echo the cloud is away >&2; exit 3"]\n')
    const run = await desk.run(['--park', 'never', 'go'])
    endedWith(run, 125, 'failed', 'runner_unreachable')
    assert.equal(run.result.fault.stopped, 'resolves_spent')
    assert.match(run.result.fault.errorRaw, /the cloud is away/)
    assert.deepEqual(desk.lines('ledger'), [])
  })
})
