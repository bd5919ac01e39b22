/** One daemon on a shared store: what holds on a journal in its folder holds here, too. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { type Database, newDatabase } from '../../../../test/kit/postgres.ts'
import pg from 'pg'
import { TcpProxy } from '../../../../test/kit/tcp-proxy.ts'
import { LIMIT } from '../../../../test/kit/wait.ts'
import { createRunnerClient } from '@breakfall/runner/client'
import { loadTokens } from '@breakfall/wire/node'
import { openDaemon } from '../../../engine/test/conformance/postgres-adapter.ts'
import { appendOf, claimed } from '../../../engine/test/conformance/store-kit.ts'
import { assertNoGap, types } from '../support/api.ts'
import { lastOf } from '../../../engine/test/support/events.ts'
import { spawnDaemon } from '../support/daemon-process.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { optionsFor, rig } from '../support/setup.ts'

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

test(
  'the answer to the claim of a turn is lost: the daemon finds that the turn is its own, and continues it',
  LIMIT,
  async (t) => {
    const script = inOrder(bash('c1', 'echo one >> ledger; sleep 1'), { text: 'done' })
    const { options, workspace } = await optionsFor(t, script)
    const runner = await testRunner(t, { allowWorkspace: [workspace] })
    const on = (url: string) => ({ ...options, store: { url, name: 'a', leaseMs: 60_000 }, runner: runner.config })
    const first = await spawnDaemon(on(database.url))
    atEnd(t, () => first.kill('SIGKILL'))
    const { id } = await first.api.session({ box: { workspace } })
    const turnId = await first.api.prompt(id, 'go')
    await first.api.events(id, ({ type }) => type === 'tool-call')
    first.kill('SIGKILL')
    await first.ended
    const url = new URL(database.url)
    const proxy = await TcpProxy.start(Number(url.port))
    atEnd(t, () => proxy[Symbol.asyncDispose]())
    url.port = String(proxy.port)
    let cuts = 0
    proxy.cutAnswerTo = (question) => {
      if (cuts > 0 || !question.includes('SKIP LOCKED') || !question.includes('epoch = greatest')) return false
      cuts += 1
      return true
    }
    const second = await spawnDaemon(on(url.href))
    atEnd(t, () => second.kill('SIGKILL'))
    const events = await second.api.ended(id, turnId)
    assert.equal(cuts, 1)
    assertNoGap(events)
    assert.deepEqual(
      types(events).filter((type) => ['taken-over', 'turn-end'].includes(type)),
      ['taken-over', 'turn-end'],
    )
    assert.equal(readFileSync(join(workspace, 'ledger'), 'utf8'), 'one\n')
  },
)

test(
  'a box that has seen a higher epoch, as after a restored backup: the owner raises its own, and the command runs once',
  LIMIT,
  async (t) => {
    const { options, workspace } = await optionsFor(t, inOrder(bash('c1', 'echo one >> ledger'), { text: 'done' }))
    const runner = await testRunner(t, { allowWorkspace: [workspace] })
    const store = { url: database.url, name: 'a' }
    const daemon = await spawnDaemon({ ...options, store, runner: runner.config })
    atEnd(t, () => daemon.kill('SIGKILL'))
    const { id } = await daemon.api.session({ box: { workspace } })
    const above = 7_000_000_000
    const token = loadTokens(join(runner.folder, 'token'))[0]?.token ?? ''
    const client = createRunnerClient({ url: runner.url, token })
    atEnd(t, () => client.close())
    await client.withEpoch(above).ownBox(id)
    const turnId = await daemon.api.prompt(id, 'go')
    const events = await daemon.api.ended(id, turnId)
    assert.equal(events.at(-1)?.type, 'turn-end')
    assert.equal(readFileSync(join(workspace, 'ledger'), 'utf8'), 'one\n')
    const [head] = await database.query('SELECT epoch FROM heads WHERE session_id = $1', [id])
    assert.ok(Number(head?.['epoch']) > above)
  },
)

test('an append whose row is locked waits for it, and lets the appends of other sessions pass', LIMIT, async (t) => {
  const store = await openDaemon(database.url, tempFolder(t))
  atEnd(t, () => store.close())
  const [locked, other] = [await claimed(store), await claimed(store)]
  const operator = new pg.Client({ connectionString: database.url })
  await operator.connect()
  atEnd(t, () => operator.end())
  await operator.query('BEGIN')
  await operator.query('SELECT 1 FROM heads WHERE session_id = $1 FOR UPDATE', [locked.id])
  const key = { scope: locked.id, key: 'k', requestHash: 'h', receipt: 'r' }
  const [first, second] = [
    store.append({ ...appendOf(locked, 0, ['1']), key }), // it goes alone
    store.append(appendOf(locked, 1, ['2'])), // builds on it
  ]
  for (const seq of [0, 1]) await store.append(appendOf(other, seq, [String(seq)]))
  assert.equal((await store.read(locked.id, 0, 9)).length, 0)
  await operator.query('COMMIT')
  await Promise.all([first, second])
  assert.deepEqual(
    (await store.read(locked.id, 0, 9)).map(({ body }) => body),
    ['1', '2'],
  )
})

test('an approval that no one gives expires, although no daemon owns the session meanwhile', LIMIT, async (t) => {
  const runner = await testRunner(t)
  const script = inOrder(bash('c1', 'echo never'), { text: 'done' })
  const policy = { backoffMs: 1, approve: 'always', approveMsMax: 500 } as const
  const store = { url: database.url, name: 'a' }
  const { api } = await rig(t, script, { policy, store, runner: runner.config })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  const parked = lastOf(await api.events(id, ({ type }) => type === 'parked'), 'parked')
  const end = lastOf(await api.ended(id, turnId), 'turn-error')
  assert.deepEqual([end.category, end.stopped], ['approval_needed', 'park_time_spent'])
  assert.ok(Date.parse(end.at) - Date.parse(parked.at) >= 500, 'not before its time')
})

test('an approval expires although the daemon that asked for it has died', LIMIT, async (t) => {
  const { options } = await optionsFor(t, inOrder(bash('c1', 'echo never'), { text: 'done' }))
  const runner = await testRunner(t)
  const policy = { backoffMs: 1, approve: 'always', approveMsMax: 2_000 } as const
  const store = (name: string) => ({ url: database.url, name, leaseMs: 1_500 })
  const first = await spawnDaemon({ ...options, policy, store: store('a'), runner: runner.config })
  atEnd(t, () => first.kill('SIGKILL'))
  const { id } = await first.api.session()
  const turnId = await first.api.prompt(id, 'go')
  const { expiresAt } = lastOf(await first.api.events(id, ({ type }) => type === 'parked'), 'parked').wait ?? {}
  first.kill('SIGKILL')
  await first.ended
  const { api } = await rig(t, inOrder(), { policy, store: store('b'), runner: runner.config })
  const end = lastOf(await api.ended(id, turnId), 'turn-error')
  assert.deepEqual([end.category, end.stopped], ['approval_needed', 'park_time_spent'])
  assert.ok(Date.parse(end.at) >= Date.parse(expiresAt ?? ''), 'not before its time')
})
