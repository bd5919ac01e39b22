import assert from 'node:assert/strict'
import {
  appendFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { Fault } from '@breakfall/faults'
import { SEQS_PER_SESSION } from '../src/store/sqlite-open.ts'
import type { SqliteOptions } from '../src/store/sqlite-protocol.ts'
import { openSqliteStore } from '../src/store/sqlite-store.ts'
import type { SessionRow } from '../src/rows.ts'
import type { Store } from '../src/store/store.ts'
import { sqliteAdapter } from './conformance/sqlite-adapter.ts'
import { appendOf, claimAgain, claimed, refused, turnOf } from './conformance/store-kit.ts'
import { storeSuite } from './conformance/store-suite.ts'

storeSuite(sqliteAdapter)

async function inFolder(run: (folder: string, open: (options?: SqliteOptions) => Promise<Store>) => Promise<void>) {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-store-'))
  const stores: Store[] = []
  try {
    await run(folder, async (options) => {
      const store = await openSqliteStore(folder, { reserveBytes: 64 * 1024, ...options })
      stores.push(store)
      return store
    })
  } finally {
    await Promise.all(stores.map((store) => store.close()))
    rmSync(folder, { recursive: true, force: true })
  }
}

test('a second owner of the same folder is refused until the first is gone', () =>
  inFolder(async (_, open) => {
    const first = await open()
    await refused(open(), 'lease_lost')
    await first.close()
    await (await open()).listSessions({ limit: 1 })
  }))

test('other users can read no file of the journal', () =>
  inFolder(async (folder, open) => {
    await claimed(await open())
    const modes = readdirSync(folder).map((name) => [name, (statSync(join(folder, name)).mode & 0o077).toString(8)])
    assert.ok(modes.length >= 5)
    assert.deepEqual(
      modes.filter(([, mode]) => mode !== '0'),
      [],
    )
  }))

test('a changed byte inside an event is detected and named by its seq, and other sessions are not affected', () =>
  inFolder(async (folder, open) => {
    const store = await open()
    const [bad, good] = [await claimed(store), await claimed(store)]
    await store.append(appendOf(bad, 0, ['"one"', '"two"', '"three"']))
    await store.append(appendOf(good, 0, ['"fine"']))
    await store.close()
    edit(folder, `UPDATE events SET body='"twa"' WHERE body='"two"'`)
    const again = await open()
    await assert.rejects(again.read(bad.id, 0, 10), /first bad event is 2/)
    assert.equal((await again.read(good.id, 0, 10)).length, 1)
  }))

test('an event removed from the middle or the end is detected', () =>
  inFolder(async (folder, open) => {
    const store = await open()
    const [middle, end] = [await claimed(store), await claimed(store)]
    for (const session of [middle, end]) await store.append(appendOf(session, 0, ['1', '2', '3']))
    await store.close()
    edit(folder, `DELETE FROM events WHERE ${eventIs(middle, 2)}`)
    edit(folder, `DELETE FROM events WHERE ${eventIs(end, 3)}`)
    const again = await open()
    await assert.rejects(again.read(middle.id, 0, 10), /first bad event is 2/)
    await assert.rejects(again.read(end.id, 0, 10), /first bad event is 3/)
    assert.deepEqual(
      again.problems.map((problem) => problem.sessionId),
      [end.id],
    )
  }))

test('a pointer to nowhere, to another session or in a circle is detected, and other sessions are not affected', () =>
  inFolder(async (folder, open) => {
    const store = await open()
    const sessions = [await claimed(store), await claimed(store), await claimed(store), await claimed(store)]
    const [nowhere, elsewhere, circle, good] = sessions as [SessionRow, SessionRow, SessionRow, SessionRow]
    for (const session of sessions) await store.append(appendOf(session, 0, ['1', '2', '3']))
    await store.close()
    edit(folder, `UPDATE events SET prev=999 WHERE ${eventIs(nowhere, 3)}`)
    edit(
      folder,
      `UPDATE events SET prev=(SELECT id FROM events WHERE ${eventIs(good, 1)}) WHERE ${eventIs(elsewhere, 2)}`,
    )
    edit(
      folder,
      `UPDATE events SET prev=(SELECT id FROM events WHERE ${eventIs(circle, 3)}) WHERE ${eventIs(circle, 2)}`,
    )
    const again = await open()
    await assert.rejects(again.read(nowhere.id, 0, 10), /first bad event is 2/)
    await assert.rejects(again.read(elsewhere.id, 0, 10), /first bad event is 1/)
    await assert.rejects(again.read(circle.id, 0, 10), /first bad event is 1/)
    assert.equal((await again.read(good.id, 0, 10)).length, 3)
  }))

test('nothing is appended if the last event is missing', () =>
  inFolder(async (folder, open) => {
    const store = await open()
    const session = await claimed(store)
    await store.append(appendOf(session, 0, ['1', '2']))
    await store.close()
    edit(folder, `DELETE FROM events WHERE ${eventIs(session, 2)}`)
    const again = await open()
    await refused(again.append(appendOf(session, 2, ['3'])), 'journal_corrupt')
  }))

test('a deleted session leaves no event behind, even if it was damaged', () =>
  inFolder(async (folder, open) => {
    const store = await open()
    const [whole, damaged, other] = [await claimed(store), await claimed(store), await claimed(store)]
    for (const session of [whole, damaged, other]) await store.append(appendOf(session, 0, ['1', '2', '3']))
    await store.close()
    edit(folder, `DELETE FROM events WHERE ${eventIs(damaged, 2)}`)
    const again = await open()
    for (const { id } of [whole, damaged]) await again.deleteSession(id)
    await again.close()
    assert.deepEqual([rowsIn(folder, 'events'), rowsIn(folder, 'heads')], [3, 1])
  }))

test('a long session disappears at once and its events in batches, also across a restart', () =>
  inFolder(async (folder, open) => {
    const store = await open()
    const long = await claimed(store)
    const bodies = Array.from({ length: 500 }, (_, n) => `"${n}"`)
    for (const after of [0, 500, 1000]) await store.append(appendOf(long, after, bodies))
    const [isDeleted] = await Promise.all([store.deleteSession(long.id), store.close()])
    assert.equal(isDeleted, true)
    assert.equal(rowsIn(folder, 'events'), 1_300)
    const again = await open()
    assert.equal(await again.getSession(long.id), undefined)
    const next = await claimed(again)
    await again.append(appendOf(next, 0, bodies))
    while (Number(rowsIn(folder, 'events')) > bodies.length) await again.getSession(next.id)
    assert.equal((await again.read(next.id, 0, 1000)).length, bodies.length)
    assert.equal(rowsIn(folder, 'removed'), 0)
  }))

test('the anchor detects a database that went back in time', () =>
  inFolder(async (folder, open) => {
    const store = await open()
    const session = await claimed(store)
    await store.append(appendOf(session, 0, ['1']))
    await store.close()
    const backup = readFileSync(join(folder, 'journal.db'))
    const later = await open()
    const lost = await claimed(later)
    await later.append(appendOf(lost, 0, ['1']))
    await later.append(appendOf(await claimAgain(later, session.id), 1, ['2']))
    await later.close()
    writeFileSync(join(folder, 'journal.db'), backup)
    const again = await open()
    assert.deepEqual(
      again.problems.map(({ sessionId, what }) => [sessionId, what]),
      [
        [session.id, 'events after seq 1 are gone; the journal had reached 2'],
        [lost.id, 'the session is gone; it had 1 events'],
      ],
    )
  }))

test('after a kill, a deleted session is not reported as lost', () =>
  inFolder(async (folder, open) => {
    const first = await open()
    const session = await claimed(first)
    await first.append(appendOf(session, 0, ['1']))
    await first.close()
    const store = await open()
    await store.deleteSession(session.id)
    await inFolder(async (copy, openCopy) => {
      cpSync(folder, copy, { recursive: true }) // what is on the disk right now
      assert.deepEqual((await openCopy()).problems, [])
    })
  }))

test('a torn last line of the anchor is ignored, a damaged line is reported', () =>
  inFolder(async (folder, open) => {
    const store = await open()
    const session = await claimed(store)
    await store.append(appendOf(session, 0, ['1']))
    await store.close()
    appendFileSync(join(folder, 'anchors'), `${session.id} 2 abc`)
    const torn = await open()
    assert.deepEqual(torn.problems, [])
    await torn.close()
    appendFileSync(join(folder, 'anchors'), 'nonsense\n')
    assert.match((await open()).problems[0]?.what ?? '', /1 lines of the anchor/)
  }))

test('a full disk refuses appends with its category, keeps acknowledged events, and accepts appends again when there is space', () =>
  inFolder(async (folder, open) => {
    const small = await open({ pagesMax: 40 })
    const session = await claimed(small)
    let seq = 0
    const body = JSON.stringify('x'.repeat(8_000))
    for (;;) {
      try {
        await small.append(appendOf(session, seq, [body]))
        seq += 1
      } catch (error) {
        assert.equal((error as { category?: string }).category, 'journal_full')
        break
      }
    }
    assert.equal((await small.read(session.id, 0, 1000)).length, seq)
    assert.equal(statSync(join(folder, 'reserve')).size, 64 * 1024)
    await refused(small.append({ ...appendOf(session, seq, [body]), essential: true }), 'journal_full')
    assert.throws(() => statSync(join(folder, 'reserve')), 'an essential append gives the reserve away')
    await small.close()
    const roomy = await open()
    await roomy.append(appendOf(await claimAgain(roomy, session.id), seq, [body]))
    assert.equal(statSync(join(folder, 'reserve')).size, 64 * 1024)
  }))

test('an append that does not fit on the disk does not fail the others of its batch', () =>
  inFolder(async (folder, open) => {
    const small = await open({ pagesMax: 40 })
    const sessions = await Promise.all(Array.from({ length: 9 }, () => claimed(small)))
    const huge = JSON.stringify('x'.repeat(1_000_000))
    await Promise.all(sessions.map((session) => small.append(appendOf(session, 0, ['"first"']))))
    const appends = sessions.map((session, n) => appendOf(session, 1, [n === 4 ? huge : '"small"']))
    const settled = await Promise.allSettled(
      appends.map((append, n) =>
        small.append(n === 6 ? { ...append, data: { ...(sessions[6] as SessionRow).data, title: huge } } : append),
      ),
    )
    assert.deepEqual(
      settled.flatMap(({ status }, n) => (status === 'rejected' ? [n] : [])),
      [4, 6],
    )
    for (const [n, { id }] of sessions.entries())
      assert.equal((await small.read(id, 0, 10)).length, n === 4 || n === 6 ? 1 : 2, `session ${n}`)
    await small.close()
    assert.equal(rowsIn(folder, 'events'), 9 + 7)
    assert.deepEqual((await open()).problems, [])
  }))

/** Undoes what versions 7, 6, 5 and 4 added. */
const VERSION_6_COLUMNS = ['owner', 'wake_at', 'wait_for', 'suspect']
const VERSION_5_COLUMNS = ['last_turn_id', 'turn_state', 'category', 'class', 'unknown_outcomes', 'turn']
const VERSION_4 = [...VERSION_6_COLUMNS, ...VERSION_5_COLUMNS]
  .map((column) => `ALTER TABLE sessions DROP COLUMN ${column};`)
  .join(' ')
  .concat(' DROP TABLE faults; PRAGMA user_version=4;')

const VERSION_3 = `${VERSION_4}
  DROP INDEX sessions_ended; DROP INDEX sessions_by_box;
  ALTER TABLE heads DROP COLUMN bytes; ALTER TABLE sessions DROP COLUMN updated_at;
  PRAGMA user_version=3; PRAGMA auto_vacuum=NONE; VACUUM;`

test('a journal of version 2 is migrated at open', () =>
  inFolder(async (folder, open) => {
    const store = await open()
    const session = await claimed(store)
    await store.append(appendOf(session, 0, ['1', '2']))
    await store.close()
    edit(folder, `${VERSION_3} DROP TABLE removed; PRAGMA user_version=2`)
    const again = await open()
    assert.equal((await again.read(session.id, 0, 10)).length, 2)
    assert.equal(await again.deleteSession(session.id), true)
  }))

test('the migration from version 3 knows when each session ended and how large it is, and lets the file shrink', () =>
  inFolder(async (folder, open) => {
    const store = await open()
    const [used, unused] = [await claimed(store), await claimed(store)]
    const at = '2026-01-02T03:04:05.000Z'
    await store.append(appendOf(used, 0, ['1', JSON.stringify({ at, text: 'x'.repeat(1000) })]))
    await store.close()
    edit(folder, VERSION_3)
    const again = await open()
    assert.equal((await again.getSession(used.id))?.updatedAt, at)
    assert.equal((await again.getSession(unused.id))?.updatedAt, unused.createdAt)
    const { bytes } = await again.usage('2026-01-01')
    assert.ok(bytes > 1000 && bytes < 2000, `${bytes} bytes`)
    await again.close()
    assert.equal(pragma(folder, 'auto_vacuum'), 2)
  }))

test('deleted sessions give their space back to the disk', () =>
  inFolder(async (folder, open) => {
    const store = await open()
    const body = JSON.stringify('x'.repeat(100_000))
    const sessions = await Promise.all(Array.from({ length: 100 }, () => claimed(store)))
    await Promise.all(sessions.map((session) => store.append(appendOf(session, 0, [body, body]))))
    const [kept, ...gone] = sessions
    assert.ok(kept !== undefined)
    await store.close()
    const full = sizeOf(folder)
    assert.ok(full > 20_000_000, `${full} bytes`)
    const again = await open()
    await Promise.all(gone.map(({ id }) => again.deleteSession(id)))
    while (sizeOf(folder) > 3_000_000) await again.getSession(kept.id)
    assert.equal((await again.read(kept.id, 0, 10)).length, 2)
  }))

test('the migration from version 4 fills the list: it shows how the last turns ended', () =>
  inFolder(async (folder, open) => {
    const store = await open()
    const session = await claimed(store)
    const fault = new Fault('model_auth_failed').report
    const [turnId, endedAt] = ['01990000-0001-7000-8000-000000000000', '2026-11-15T12:00:00.000Z']
    const ended = { state: 'failed', prompt: 'é'.repeat(300), steps: 2, attempts: 3, fault, endedAt } as const
    const { view: running, ...row } = turnOf(session.id)
    const turn = { ...row, turnId, view: { ...running, ...ended, id: turnId } }
    await store.append({ ...appendOf(session, 0, ['1']), turns: [turn] })
    const idle = await claimed(store)
    await store.close()
    edit(folder, VERSION_4)
    const again = await open()
    const moved = await again.getSession(session.id)
    const { prompt, state, fault: shown, steps } = moved?.turn ?? {}
    assert.deepEqual([prompt?.length, state, steps, shown?.error], [200, 'failed', 2, fault.error])
    const { rows } = await again.listSessions({ limit: 9, states: ['failed'], category: 'model_auth_failed' })
    assert.deepEqual(
      rows.map(({ id }) => id),
      [session.id],
    )
    assert.equal((await again.getSession(idle.id))?.turn, null)
  }))

test('a journal of a newer version is refused with a clear message', () =>
  inFolder(async (folder, open) => {
    await (await open()).close()
    edit(folder, 'PRAGMA user_version=999')
    await assert.rejects(open(), /newer version/)
  }))

test('a file that is not a database is refused as corrupt', () =>
  inFolder(async (folder, open) => {
    writeFileSync(join(folder, 'journal.db'), 'this is not a database, despite its name. '.repeat(100))
    await refused(open(), 'journal_corrupt')
  }))

const eventIs = (session: SessionRow, seq: number): string =>
  `key=${seq} + ${SEQS_PER_SESSION} * (SELECT sid FROM sessions WHERE id='${session.id}')`

function edit(folder: string, sql: string): void {
  const db = new DatabaseSync(join(folder, 'journal.db'))
  db.exec(sql)
  db.close()
}

const sizeOf = (folder: string): number =>
  readdirSync(folder)
    .filter((name) => name.startsWith('journal.db'))
    .reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)

function pragma(folder: string, name: string): unknown {
  const db = new DatabaseSync(join(folder, 'journal.db'))
  const row = db.prepare(`PRAGMA ${name}`).get()
  db.close()
  return row?.[name]
}

function rowsIn(folder: string, table: string): unknown {
  const db = new DatabaseSync(join(folder, 'journal.db'))
  const row = db.prepare(`SELECT count(*) AS count FROM ${table}`).get()
  db.close()
  return row?.['count']
}
