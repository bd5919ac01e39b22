/** What stores that share a database promise each other. Their leases are in `system/postgres-leases.test.ts`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { join } from 'node:path'
import { isFault } from '@breakfall/faults'
import { newId } from '@breakfall/wire/node'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { eventually } from '../../../../test/kit/wait.ts'
import type { Hint } from '../../src/store/sharing.ts'
import { Sweep } from '../../src/store/postgres/sweep.ts'
import { openSqliteStore } from '../../src/store/sqlite-store.ts'
import type { SessionRow } from '../../src/rows.ts'
import { busy, free, isAppend, opened, proxied, query } from '../conformance/shared-database.ts'
import { appendOf, claimAgain, claimed, newSession, refused, TURN_ID } from '../conformance/store-kit.ts'

const command = (sessionId: string, more: object = {}) =>
  ({ id: newId(), sessionId, kind: 'prompt', body: '{}', ...more }) as const

test('a session that a living daemon owns is claimed by no other, and a released one is', async (t) => {
  const [a, b] = [await opened(t), await opened(t)]
  const session = await claimed(a)
  assert.equal(await b.claim(session.id), 'owned')
  assert.equal((await b.getSession(session.id))?.owner?.bootId, a.lease.bootId)
  assert.deepEqual(await b.claimWork({ limit: 10 }), [])
  await a.append({ ...appendOf(session, 0, ['1']), set: busy, release: free })
  const [taken] = await b.claimWork({ limit: 10 })
  assert.ok(taken !== undefined && taken.epoch > session.epoch)
  await refused(a.append(appendOf(session, 1, ['late'])), 'lease_lost')
  await b.append({ ...appendOf(taken, 1, ['2']), set: { state: 'idle', turnId: null }, release: free })
})

test('one fenced member of a batch is refused, and the others are written, whatever each writes', async (t) => {
  const [a, b] = [await opened(t), await opened(t)]
  const sessions = await Promise.all(Array.from({ length: 9 }, () => claimed(a)))
  const stolen = sessions[4]
  assert.ok(stolen !== undefined)
  await query('UPDATE heads SET owner = NULL WHERE session_id = $1', [stolen.id])
  await claimAgain(b, stolen.id)
  const bodiesOf = (index: number): readonly string[] => ['1', '2', '3'].slice(index % 3)
  const answers = await Promise.allSettled(
    sessions.map((session, index) => a.append(appendOf(session, 0, bodiesOf(index)))),
  )
  assert.deepEqual(
    answers.map(({ status }) => status),
    sessions.map((session) => (session === stolen ? 'rejected' : 'fulfilled')),
  )
  const bodies = await Promise.all(sessions.map(async ({ id }) => (await a.read(id, 0, 10)).map(({ body }) => body)))
  assert.deepEqual(
    bodies,
    sessions.map((session, index) => (session === stolen ? [] : bodiesOf(index))),
  )
})

test('an append with an id that is no UUID is refused, and the others of its batch are written', async (t) => {
  const store = await opened(t)
  const sessions = await Promise.all(Array.from({ length: 5 }, () => claimed(store)))
  const answers = await Promise.allSettled(
    sessions.map((session, index) => {
      const append = appendOf(session, 0, ['1'])
      const turnId = index === 2 ? 'no-uuid' : TURN_ID
      return store.append({ ...append, events: append.events.map((event) => ({ ...event, turnId })) })
    }),
  )
  assert.deepEqual(
    answers.map(({ status }) => status),
    sessions.map((_, index) => (index === 2 ? 'rejected' : 'fulfilled')),
  )
})

test('an append whose COMMIT was cut off counts as written, although another daemon has claimed the session since', async (t) => {
  const { proxy, url } = await proxied(t)
  const [a, b] = [await opened(t, { url }), await opened(t)]
  const session = await claimed(a)
  proxy.cutAnswerTo = (question) => isAppend(question)
  const appended = a.append(appendOf(session, 0, ['1']))
  await eventually('it is committed', async () => (await b.read(session.id, 0, 10)).length === 1)
  await query('UPDATE heads SET owner = NULL WHERE session_id = $1', [session.id])
  await claimAgain(b, session.id)
  proxy.cutAnswerTo = undefined
  await appended
  await refused(a.append(appendOf(session, 1, ['late'])), 'lease_lost')
  assert.equal((await b.read(session.id, 0, 10)).length, 1)
})

test('an append whose COMMIT was cut off is written once, fifty times', async (t) => {
  const { proxy, url } = await proxied(t)
  const a = await opened(t, { url })
  const sessions = await Promise.all(Array.from({ length: 3 }, () => claimed(a)))
  let cuts = 0
  for (let seq = 0; seq < 50; seq += 1) {
    let isArmed = true
    proxy.cutAnswerTo = (question) => {
      if (!isArmed || !isAppend(question)) return false
      isArmed = false
      cuts += 1
      return true
    }
    await Promise.all(sessions.map((session) => a.append(appendOf(session, seq, [`"${seq}"`]))))
  }
  assert.equal(cuts, 50)
  for (const { id } of sessions) {
    const bodies = (await a.read(id, 0, 100)).map(({ body }) => body)
    assert.deepEqual(
      bodies,
      Array.from({ length: 50 }, (_, seq) => `"${seq}"`),
    )
  }
  const [row] = await query('SELECT barrier FROM daemons WHERE boot_id = $1', [a.lease.bootId])
  assert.ok(Number(row?.['barrier']) >= 50, 'each was believed behind another commit only')
})

test('a key, a data change and an outcome whose COMMIT was cut off are written once', async (t) => {
  const { proxy, url } = await proxied(t)
  const a = await opened(t, { url })
  const session = await claimed(a)
  const asked = await a.submit(command(session.id, { key: 'k' }))
  const cutOnce = (): void => {
    proxy.cutAnswerTo = (question) => {
      if (!isAppend(question)) return false
      proxy.cutAnswerTo = undefined
      return true
    }
  }
  const key = { scope: session.id, key: 'k', requestHash: 'h', receipt: 'r' }
  cutOnce()
  const outcomes = [{ commandId: asked.id, outcome: 'done' }]
  await a.append({ ...appendOf(session, 0, ['1']), key, outcomes, seen: 1 })
  assert.deepEqual(await a.getKey(session.id, 'k'), key)
  assert.equal((await a.getCommand(asked.id))?.outcome, 'done')
  cutOnce()
  await a.append({ ...appendOf(session, 1, []), data: { ...session.data, title: 'new' } })
  assert.equal((await a.getSession(session.id))?.data.title, 'new')
  const refusedOne = await a.submit(command(session.id, { key: 'k2' }))
  cutOnce()
  await a.append({
    ...appendOf(session, 1, []),
    outcomes: [{ commandId: refusedOne.id, outcome: 'no', isRefused: true }],
    seen: 2,
  })
  assert.equal((await a.getCommand(refusedOne.id))?.outcome, 'no')
  assert.equal((await a.submit(command(session.id, { key: 'k2' }))).nr, 3, 'a refusal frees the key')
  assert.equal((await a.submit(command(session.id, { key: 'k' }))).id, asked.id, 'an accepted key stays taken')
})

test("a command's outcome is written with its append or not at all", async (t) => {
  const [a, b] = [await opened(t), await opened(t)]
  const session = await claimed(a)
  const asked = await b.submit(command(session.id))
  const [inbox] = await a.openCommands()
  assert.deepEqual([inbox?.asked, inbox?.commands.map(({ id }) => id)], [1, [asked.id]])
  assert.equal(await b.withdraw(asked.id), true)
  const outcomes = [{ commandId: asked.id, outcome: 'done' }]
  await refused(a.append({ ...appendOf(session, 0, ['1']), outcomes }), 'cancelled')
  assert.equal((await a.getSession(session.id))?.lastSeq, 0)
  assert.deepEqual(
    (await a.openCommands()).map(({ commands }) => commands),
    [[]],
  )
  await a.append({ ...appendOf(session, 0, []), seen: 1 })
  assert.deepEqual(await a.openCommands(), [])
  await refused(b.submit(command(newId())), 'not_found')
})

test('a command is carried out or withdrawn, never both and never neither, however they race', async (t) => {
  const [a, b] = [await opened(t), await opened(t)]
  const sessions = await Promise.all(Array.from({ length: 60 }, () => claimed(a)))
  const counts = { carried: 0, withdrawn: 0 }
  await Promise.all(
    sessions.map(async (session) => {
      const asked = await b.submit(command(session.id))
      const outcomes = [{ commandId: asked.id, outcome: 'done' }]
      const [isWithdrawn, isCarried] = await Promise.all([
        b.withdraw(asked.id),
        a.append({ ...appendOf(session, 0, ['1']), outcomes, seen: 1 }).then(
          () => true,
          (error: unknown) => {
            assert.ok(isFault(error) && error.category === 'cancelled', String(error))
            return false
          },
        ),
      ])
      assert.notEqual(isWithdrawn, isCarried)
      counts[isCarried ? 'carried' : 'withdrawn'] += 1
    }),
  )
  assert.equal(counts.carried + counts.withdrawn, 60)
})

test('a command submitted while its session is being released is found by whoever claims it, every time', async (t) => {
  const [a, b] = [await opened(t), await opened(t)]
  const sessions = await Promise.all(Array.from({ length: 60 }, () => claimed(a)))
  await Promise.all(
    sessions.flatMap((session) => [
      b.submit(command(session.id)),
      a.append({ ...appendOf(session, 0, ['1']), release: { wakeAt: null, waitFor: null } }), // idle: only the command makes it due
    ]),
  )
  const taken = await b.claimWork({ limit: 100 })
  assert.deepEqual(new Set(taken.map(({ id }) => id)), new Set(sessions.map(({ id }) => id)))
  for (const row of taken) await b.append({ ...appendOf(row, 1, []), seen: row.asked, release: free })
})

test('eight daemons that claim work at once get each session once', async (t) => {
  const stores = await Promise.all(Array.from({ length: 8 }, () => opened(t)))
  const [first] = stores
  assert.ok(first !== undefined)
  const sessions = await Promise.all(Array.from({ length: 200 }, () => claimed(first)))
  await Promise.all(sessions.map((each) => first.append({ ...appendOf(each, 0, ['1']), set: busy, release: free })))
  const taken: string[] = []
  await Promise.all(
    stores.map(async (store) => {
      for (;;) {
        const rows = await store.claimWork({ limit: 7 })
        if (rows.length === 0) return
        taken.push(...rows.map(({ id }) => id))
      }
    }),
  )
  assert.equal(taken.length, 200)
  assert.equal(new Set(taken).size, 200)
})

test('of two daemons that accept the same key at once, one writes it and the other learns that', async (t) => {
  const [a, b] = [await opened(t), await opened(t)]
  for (let round = 0; round < 20; round += 1) {
    const key = (receipt: string) => ({ scope: 'create', key: `key ${round}`, requestHash: 'h', receipt })
    const [one, two] = [newSession(), newSession()]
    const answers = await Promise.allSettled([a.createSession(one, key('a')), b.createSession(two, key('b'))])
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
    const winner = answers[0]?.status === 'fulfilled' ? 'a' : 'b'
    assert.equal((await a.getKey('create', `key ${round}`))?.receipt, winner)
    assert.equal(
      (await a.listSessions({ limit: 100 })).rows.filter(({ id }) => [one.id, two.id].includes(id)).length,
      1,
    )
  }
})

test('hints reach other daemons, and events of watched sessions are announced', async (t) => {
  const [a, b] = [await opened(t), await opened(t)]
  const session = await claimed(a)
  const heard: Hint[] = []
  b.hints.on((hint) => heard.push(hint))
  await eventually('hints work', () => a.hints.isUp && b.hints.isUp)
  const unwatch = b.hints.watch(session.id)
  let seq = 0
  await eventually('an event is announced', async () => {
    await a.append(appendOf(session, seq, ['1']))
    seq += 1
    return heard.some((hint) => hint.kind === 'events' && hint.sessionIds.includes(session.id))
  })
  unwatch()
  a.hints.send({ kind: 'command', sessionId: session.id })
  await eventually('a hint arrives', () => heard.some((hint) => hint.kind === 'command'))
  const ended = query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_notify%' AND pid <> pg_backend_pid()",
  )
  await ended
  await eventually('they come back', () => a.hints.isUp && b.hints.isUp)
})

test('the same events have the same hashes in both stores, and are read back as they were written', async (t) => {
  const folder = tempFolder(t)
  const sqlite = await openSqliteStore(join(folder, 'journal'))
  atEnd(t, () => sqlite.close())
  const postgres = await opened(t)
  const given = newSession()
  const bodies = ['{"a":1}', '{"text":"zeilen\\n\u2028 🙂"}', '{"text":"\\\\ \\" {NULL,\\\\x00}"}', 'NULL', '""', '']
  const hashes: string[] = []
  for (const store of [sqlite, postgres]) {
    await store.createSession(given)
    const claim = await claimAgain(store, given.id)
    const row: SessionRow = (await store.raiseEpoch(claim, 5_000_000_000 - 1)) ?? claim
    await store.append(appendOf(row, 0, bodies))
    hashes.push((await store.heads([given.id]))[0]?.hash ?? '')
    const read = await store.read(given.id, 0, 10)
    assert.deepEqual(
      read.map(({ body }) => body),
      bodies,
    )
  }
  assert.equal(hashes[0], hashes[1])
})

test('an unfinished deletion is finished by the next owner, and hides the session at once', async (t) => {
  const [a, b] = [await opened(t), await opened(t)]
  const session = await claimed(a)
  await a.append({ ...appendOf(session, 0, ['1', '2']), set: busy })
  await b.submit(command(session.id, { kind: 'delete' }))
  assert.equal(await a.getSession(session.id), undefined)
  assert.equal(
    (await a.listSessions({ limit: 100 })).rows.some(({ id }) => id === session.id),
    false,
  )
  await a.close()
  const [row] = await eventually('it is due', async () => {
    const rows = await b.claimWork({ limit: 10 })
    return rows.length > 0 && rows
  })
  assert.deepEqual([row?.id, row?.isDeleting], [session.id, true])
  assert.equal(await b.deleteSession(session.id), true)
  assert.deepEqual(await query('SELECT 1 FROM events WHERE session_id = $1', [session.id]), [])
})

test('an older daemon does not claim what a newer one has written', async (t) => {
  const a = await opened(t)
  const session = await claimed(a)
  await a.append({ ...appendOf(session, 0, ['1']), set: busy, release: free })
  await query('UPDATE heads SET pin = 99 WHERE session_id = $1', [session.id])
  assert.deepEqual(await a.claimWork({ limit: 10 }), [])
  await refused(a.claim(session.id), 'journal_corrupt')
  await query('DELETE FROM heads WHERE session_id = $1', [session.id])
})

test('a session that an earlier version left without a time is looked at, and a session that only a command wakes is not', async (t) => {
  const a = await opened(t)
  const [left, waiting] = [await claimed(a), await claimed(a)]
  for (const session of [left, waiting])
    await a.append({ ...appendOf(session, 0, ['1']), set: busy, release: { wakeAt: null, waitFor: null } })
  await query('UPDATE heads SET wake_at = NULL WHERE session_id = $1', [left.id])
  const sweep = new Sweep({ query: (sql) => query(String(sql)) })
  atEnd(t, () => sweep.close())
  await sweep.run()
  assert.deepEqual(
    (await a.claimWork({ limit: 10 })).map(({ id }) => id),
    [left.id],
  )
})

test('a runner is known at the address that was verified, and its sessions wake', async (t) => {
  const a = await opened(t)
  const runners = a.runners
  assert.ok(runners !== undefined)
  const session = await claimed(a)
  await a.append({ ...appendOf(session, 0, ['1']), set: busy, release: { wakeAt: null, waitFor: 'runner:r1' } })
  const facts = {
    runnerId: 'r1',
    bootId: 'b1',
    url: 'http://127.0.0.1:1',
    capacity: 10,
    boxes: 1,
    labels: ['gpu'],
    workspaces: [],
    isolation: 'bwrap',
    version: '0',
    machine: 'm1',
  }
  assert.equal(await runners.seen(facts), undefined)
  assert.deepEqual((await runners.verified(facts)).labels, ['gpu'])
  assert.equal((await a.claimWork({ limit: 10 })).length, 1)
  assert.equal((await runners.seen({ ...facts, boxes: 2 }))?.boxes, 2)
  assert.equal(await runners.seen({ ...facts, url: 'http://127.0.0.1:2' }), undefined)
  assert.equal(await runners.setState('r1', 'lost'), true)
  assert.equal((await runners.verified({ ...facts, bootId: 'b2' })).state, 'lost')
  await runners.leave([{ runnerId: 'r1', boxId: 'x', epoch: 4 }])
  assert.deepEqual(await runners.leftBoxes('r1'), [{ runnerId: 'r1', boxId: 'x', epoch: 4 }])
  await runners.forget([{ runnerId: 'r1', boxId: 'x', epoch: 4 }])
  assert.deepEqual(await runners.leftBoxes('r1'), [])
  await a.deleteSession(session.id)
})

test('a restart in the same folder takes over at once, and a copy of a database is refused until it is adopted', async (t) => {
  const folder = join(tempFolder(t), 'daemon')
  const a = await opened(t, { folder, leaseMs: 60_000 })
  const session = await claimed(a)
  await a.append({ ...appendOf(session, 0, ['1']), set: busy })
  // As after a kill: the row of the daemon stays unchanged, and only the lock of the folder is gone.
  const bootId = a.lease.bootId
  await a.close()
  await query(
    "UPDATE daemons SET state = 'live', lease_until = clock_timestamp() + interval '1 min' WHERE boot_id = $1",
    [bootId],
  )
  await query('UPDATE heads SET owner = $1 WHERE session_id = $2', [bootId, session.id])
  const again = await opened(t, { folder, leaseMs: 60_000 })
  assert.deepEqual(
    (await again.claimWork({ limit: 10 })).map(({ id }) => id),
    [session.id],
  )
  await again.deleteSession(session.id)
  await query("UPDATE fleet SET system_id = 'another'")
  await refused(opened(t), 'journal_corrupt')
  await query('UPDATE fleet SET system_id = (SELECT system_identifier::text FROM pg_control_system())')
})
