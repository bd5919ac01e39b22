/** A run allows folders for its own session. What the API's callers may use is what the operator allowed, before and after. */
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { hasSandbox } from '../breakfall.ts'
import { ask, bash, byProgress, say } from '../answers.ts'
import { LIMIT } from '../../test/kit/wait.ts'
import { Desk, endedWith, serverIsolation } from './desk.ts'

const skip = hasSandbox ? false : 'without a sandbox nothing is mounted'

/** Creates a session as any caller of the API may. */
async function create(desk: Desk, box: object): Promise<{ status: number; text: string }> {
  const token = readFileSync(join(desk.stateDir, 'daemon.token'), 'utf8').split(/\s/)[0] ?? ''
  const response = await fetch(`${desk.daemon().url}/v1/sessions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ box }),
  })
  return { status: response.status, text: await response.text() }
}

test(
  'what a run was given, or was refused, allows nothing to callers of the API, also after a restart of the daemon',
  { ...LIMIT, skip },
  async () => {
    await using desk = await Desk.start(byProgress([ask([bash('cat ../data/file; echo made > made')]), say('done')]))
    const data = join(desk.place.home, 'data')
    const allowed = join(desk.place.home, 'allowed')
    mkdirSync(allowed)
    desk.write(join(data, 'file'), 'mounted data\n')
    const up = ['up', '--port', '0', '--json', '--allow-workspace', allowed, ...serverIsolation]
    for (const round of ['first', 'second']) {
      const server = desk.start(up)
      await server.seen(({ event }) => event === 'listening')
      if (round === 'first') {
        const run = await desk.run(['go', '--mount', data])
        endedWith(run, 0, 'finished')
        assert.match(JSON.stringify(run.events), /mounted data/)
        for (const refused of ['/', desk.place.home]) {
          const { code, stderr } = await desk.command(['run', 'go', '--mount', refused])
          assert.equal(code, 2, stderr)
          assert.match(stderr, /--mount \/.* is refused: .*\. Nothing started\. Mount one folder, with --mount/)
        }
      }
      const workspace = allowed
      for (const box of [
        { workspace: desk.folder },
        { workspace, mounts: [{ path: data }] },
        { workspace, mounts: [{ path: join(data, '..', 'data'), mode: 'rw' }] },
        { workspace, grant: 'a'.repeat(64), mounts: [{ path: data }] },
        { mounts: [{ path: '/var/log' }] },
      ]) {
        const { status, text } = await create(desk, box)
        assert.equal(status, 400, `${round} ${JSON.stringify(box)}: ${text}`)
        assert.match(text, /a folder below one of --allow-/)
      }
      assert.equal((await create(desk, { workspace })).status, 201)
      if (round === 'first') {
        const told = (await desk.command(['doctor'])).lines.filter((line) => /folders/.test(line))
        assert.deepEqual(
          told.map((line) => line.replace(/^. /, '')),
          [`folders      callers of the API may use ${allowed} (the daemon's --allow-workspace)`],
        )
      }
      server.child.kill('SIGTERM')
      await server.ended
    }
    assert.deepEqual(
      readdirSync(desk.stateDir).filter((name) => /^(?:workspaces|mounts)$/.test(name)),
      [],
    )
    const again = await desk.run(['--continue', 'and again'])
    endedWith(again, 0, 'finished')
  },
)

test(
  'a session keeps its folders when its box has to be made again, and a signature fits no other folder',
  { ...LIMIT, skip },
  async () => {
    await using desk = await Desk.start([
      ask([bash('cat ../data/file')]),
      say('one'),
      ask([bash('cat ../data/file')]),
      say('two'),
    ])
    const data = join(desk.place.home, 'data')
    desk.write(join(desk.place.home, 'data', 'file'), 'mounted data\n')
    for (const args of [
      ['go', '--mount', data],
      ['--continue', 'again'],
    ]) {
      const run = await desk.run(args) // its daemon and its runner end with it
      endedWith(run, 0, 'finished')
      assert.match(JSON.stringify(run.events), /mounted data/)
    }
  },
)
