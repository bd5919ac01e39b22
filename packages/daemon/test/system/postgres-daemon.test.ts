/** One daemon on a shared store: what holds on a journal in its folder holds here, too. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { atEnd } from '../../../../test/kit/folder.ts'
import { type Database, newDatabase } from '../../../../test/kit/postgres.ts'
import { LIMIT } from '../../../../test/kit/wait.ts'
import { assertNoGap, types } from '../support/api.ts'
import { spawnDaemon } from '../support/daemon-process.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder } from '../support/scripted-model.ts'
import { optionsFor } from '../support/setup.ts'

let database: Database
before(async () => {
  database = await newDatabase()
})
after(() => database.close())

const bash = (id: string, command: string) => ({ calls: [{ id, tool: 'bash', arguments: { command } }] })

test(
  'a turn on PostgreSQL survives a kill of its daemon, and the next start does not wait for the lease',
  LIMIT,
  async (t) => {
    const script = inOrder(bash('c1', 'echo one >> ledger; sleep 1'), bash('c2', 'echo two >> ledger'), {
      text: 'done',
    })
    const { options, workspace } = await optionsFor(t, script)
    const runner = await testRunner(t, { allowWorkspace: [workspace] }) // a daemon that shares its store starts none
    const store = { url: database.url, name: 'a', leaseMs: 60_000 }
    const shared = { ...options, store, runner: runner.config }
    const first = await spawnDaemon(shared)
    atEnd(t, () => first.kill('SIGKILL'))
    const { id } = await first.api.session({ box: { workspace } })
    const turnId = await first.api.prompt(id, 'go')
    const heard = await first.api.events(id, ({ type }) => type === 'tool-call')
    first.kill('SIGKILL')
    await first.ended
    const second = await spawnDaemon(shared)
    atEnd(t, () => second.kill('SIGKILL'))
    const events = await second.api.ended(id, turnId)
    assertNoGap(events)
    assert.deepEqual(events.slice(0, heard.length), heard)
    assert.deepEqual(
      types(events).filter((type) => ['taken-over', 'turn-end'].includes(type)),
      ['taken-over', 'turn-end'],
    )
    assert.equal(readFileSync(join(workspace, 'ledger'), 'utf8'), 'one\ntwo\n')
    assert.equal((await second.api.call('DELETE', `/v1/sessions/${id}`)).status, 204)
    assert.deepEqual(await database.query('SELECT session_id FROM events'), [])
    second.kill('SIGTERM')
    assert.equal(await second.ended, 0)
  },
)
