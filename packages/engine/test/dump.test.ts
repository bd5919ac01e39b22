/** Sessions move between stores with their hashes. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import { Fault } from '@breakfall/faults'
import { fingerprint } from '@breakfall/faults/internal'
import { atEnd, tempFolder } from '../../../test/kit/folder.ts'
import { type Database, newDatabase } from '../../../test/kit/postgres.ts'
import type { Store } from '../src/store/store.ts'
import { openSqliteStore } from '../src/store/sqlite-store.ts'
import { adoptStore, checkStore, exportStore, importStore, migrateStore, type StorePlace } from '../src/store-admin.ts'
import { openDaemon } from './conformance/postgres-adapter.ts'
import { appendOf, claimAgain, claimed, refused, TURN_ID, turnOf } from './conformance/store-kit.ts'

let database: Database
before(async () => {
  database = await newDatabase()
})
after(() => database.close())

const REPORT = new Fault('crash_loop').report
const FAILED = JSON.stringify({ type: 'turn-error', seq: 3, sessionId: 's', ...REPORT, turnId: TURN_ID })

async function* from(lines: readonly string[]): AsyncGenerator<string> {
  for (const line of lines) yield await Promise.resolve(line)
}

test('an empty database is reported as such by check, export and adopt, and none of them creates tables', async () => {
  const { url } = database
  const refusals = [
    () => checkStore({ url }),
    () => exportStore({ url }, () => Promise.resolve()),
    () => adoptStore(url),
  ]
  for (const act of refusals)
    await assert.rejects(act, (error) => error instanceof Fault && /run "breakfall store migrate"/.test(error.message))
  assert.equal((await migrateStore(url)).before, 0)
})

test('sessions go from a state folder to PostgreSQL and back, with every event, epoch and hash, and their turns continue', async (t) => {
  const stateDir = tempFolder(t)
  const sqlite = await openSqliteStore(join(stateDir, 'journal'))
  const [one, two] = [await claimed(sqlite), await claimed(sqlite)]
  const key = { scope: one.id, key: 'k', requestHash: 'h', receipt: 'r' }
  await sqlite.append({ ...appendOf(one, 0, ['"a"', '"ü🙂"']), key, turns: [turnOf(one.id)] })
  const again = await claimAgain(sqlite, one.id)
  await sqlite.append({ ...appendOf(again, 2, [FAILED]), set: { state: 'busy', turnId: TURN_ID } })
  const heads = await sqlite.heads([one.id, two.id])
  await sqlite.close()
  const lines: string[] = []
  const write = (line: string): Promise<void> => Promise.resolve(void lines.push(line))
  assert.deepEqual(await exportStore({ stateDir }, write), { sessions: 2, events: 3, skipped: 0 })
  const { url } = database
  assert.deepEqual(await importStore({ url }, from(lines)), { sessions: 2, events: 3, skipped: 0 })
  assert.deepEqual(await importStore({ url }, from(lines)), { sessions: 0, events: 0, skipped: 2 })
  assert.deepEqual((await checkStore({ url })).problems, [])
  assert.deepEqual(await migrateStore(url), { before: 3, schema: 3 })
  const postgres = await openDaemon(url, join(stateDir, 'fleet'))
  atEnd(t, () => postgres.close())
  const hashes = (all: readonly { readonly hash: string }[]) => all.map(({ hash }) => hash)
  assert.deepEqual(hashes(await postgres.heads([one.id, two.id])), hashes(heads))
  assert.deepEqual(await postgres.getKey(one.id, 'k'), key)
  assert.equal((await postgres.listTurns(one.id, { limit: 9 })).length, 1)
  const seen = (store: Store) => store.faultOccurrences({ fingerprint: fingerprint(REPORT), limit: 9 })
  assert.deepEqual(
    (await seen(postgres)).map(({ sessionId, seq, became }) => [sessionId, seq, became]),
    [[one.id, 3, 'ended']],
    'faults are counted from the events',
  )
  const [row] = await postgres.claimWork({ limit: 9 })
  assert.ok(row?.id === one.id && row.epoch > again.epoch)
  await postgres.append(appendOf(row, 3, ['"d"']))
  const back: string[] = []
  await exportStore({ url }, (line) => Promise.resolve(void back.push(line)))
  const other = tempFolder(t)
  await importStore({ stateDir: other }, from(back))
  const returned = await openSqliteStore(join(other, 'journal'))
  atEnd(t, () => returned.close())
  assert.deepEqual(hashes(await returned.heads([one.id])), hashes(await postgres.heads([one.id])))
  assert.equal((await seen(returned)).length, 1)
  assert.deepEqual(
    (await returned.read(one.id, 0, 9)).map(({ body }) => body),
    ['"a"', '"ü🙂"', FAILED, '"d"'],
  )
})

test('a changed or a cut export is refused, and a changed event in the database is found', async (t) => {
  const stateDir = tempFolder(t)
  const sqlite = await openSqliteStore(join(stateDir, 'journal'))
  const session = await claimed(sqlite)
  await sqlite.append(appendOf(session, 0, ['"a"', '"b"']))
  await sqlite.close()
  const lines: string[] = []
  await exportStore({ stateDir }, (line) => Promise.resolve(void lines.push(line)))
  const { url } = database
  const changed = lines.map((line) => line.replace(String.raw`\"b\"`, String.raw`\"x\"`))
  await refused(importStore({ url }, from(changed)), 'journal_corrupt')
  await refused(importStore({ url }, from(lines.slice(0, -1))), 'invalid_request')
  await refused(importStore({ url }, from(lines.slice(1))), 'invalid_request')
  const skipped = await Promise.all([1, 2, 3].map(async () => (await importStore({ url }, from(lines))).skipped))
  assert.deepEqual(skipped, [1, 1, 1], 'the cut export had brought it')
  await database.query(`UPDATE events SET body = '"x"' WHERE session_id = $1 AND seq = 2`, [session.id])
  const { problems } = await checkStore({ url })
  assert.match(problems.join(), new RegExp(`${session.id}.*the first bad event is 2`))
})

test('three imports at once bring a session once, and a wrong head is found', async (t) => {
  const stateDir = tempFolder(t)
  const sqlite = await openSqliteStore(join(stateDir, 'journal'))
  const session = await claimed(sqlite)
  await sqlite.append(appendOf(session, 0, ['"a"']))
  await sqlite.close()
  const lines: string[] = []
  await exportStore({ stateDir }, (line) => Promise.resolve(void lines.push(line)))
  const { url } = database
  const all = await Promise.all([1, 2, 3].map(() => importStore({ url }, from(lines))))
  assert.equal(
    all.reduce((sum, { sessions }) => sum + sessions, 0),
    1,
  )
  const isNamed = async (): Promise<boolean> => (await checkStore({ url })).problems.join().includes(session.id)
  assert.equal(await isNamed(), false)
  await database.query(`UPDATE heads SET head = '\\x00' WHERE session_id = $1`, [session.id])
  assert.equal(await isNamed(), true)
})

test('a check finds sessions without a head, events without a session and events after the end, in both stores', async (t) => {
  const stateDir = tempFolder(t)
  const sqlite = await openSqliteStore(join(stateDir, 'journal'))
  const sessions = [await claimed(sqlite), await claimed(sqlite), await claimed(sqlite)]
  for (const session of sessions) await sqlite.append(appendOf(session, 0, ['"a"', '"b"']))
  await sqlite.close()
  const lines: string[] = []
  await exportStore({ stateDir }, (line) => Promise.resolve(void lines.push(line)))
  const { url } = database
  await importStore({ url }, from(lines))
  const [headless, orphaned, longer] = sessions.map(({ id }) => id)
  const about = async (place: StorePlace): Promise<string> => {
    const said = (await checkStore(place)).problems.join('\n')
    const isOurs = (line: string): boolean => / number \d/.test(line) || sessions.some(({ id }) => line.includes(id))
    return said.split('\n').filter(isOurs).toSorted().join('\n')
  }
  assert.equal(await about({ url }), '')
  assert.equal(await about({ stateDir }), '')

  await database.query('DELETE FROM heads WHERE session_id = $1', [headless])
  await database.query('DELETE FROM sessions WHERE id = $1', [orphaned])
  await database.query(
    `UPDATE heads SET last_seq = 1, head = (SELECT hash FROM events WHERE session_id = $1 AND seq = 1)
    WHERE session_id = $1`,
    [longer],
  )
  const there = await about({ url })
  assert.match(there, new RegExp(`Events of session ${orphaned} are there, but the session is not`))
  assert.match(there, new RegExp(`Session ${headless} has no head`))
  assert.match(there, new RegExp(`Session ${longer} has events after its last one`))
  assert.equal(there.split('\n').length, 3, there)
  await database.query('UPDATE sessions SET deleting = true WHERE id = ANY ($1)', [[headless, longer]])
  assert.equal((await about({ url })).split('\n').length, 1, 'what is being deleted is in order')

  const db = new DatabaseSync(join(stateDir, 'journal', 'journal.db'))
  db.exec('PRAGMA foreign_keys = ON')
  const sid = (id: string | undefined): number =>
    Number(db.prepare('SELECT sid FROM sessions WHERE id=?').get(id ?? '')?.['sid'])
  db.prepare('DELETE FROM heads WHERE sid=?').run(sid(headless))
  const lost = sid(orphaned)
  db.prepare('DELETE FROM sessions WHERE sid=?').run(lost)
  db.prepare(
    'UPDATE heads SET last_seq=1, head=(SELECT min(id) FROM events WHERE key / 16777216 = sid) WHERE sid=?',
  ).run(sid(longer))
  db.close()
  const here = await about({ stateDir })
  assert.match(here, new RegExp(`Events of session number ${lost} are there`))
  assert.match(here, new RegExp(`Session ${headless} has no head`))
  assert.match(here, new RegExp(`Session ${longer} has events after its last one`))
  assert.equal(here.split('\n').length, 3, here)
})

test('migrations at once wait for each other, and all of them succeed', async (t) => {
  const old = await newDatabase()
  atEnd(t, () => old.close())
  const { url } = old
  await migrateStore(url)
  await old.query('DROP TABLE faults')
  await old.query(
    'ALTER TABLE heads ADD CONSTRAINT heads_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE',
  )
  await old.query('UPDATE fleet SET schema = 1, schema_min = 1')
  const all = await Promise.all([1, 2, 3, 4].map(() => migrateStore(url)))
  assert.ok(all.every(({ schema }) => schema === 3))
  assert.deepEqual(await old.query('SELECT schema, schema_min FROM fleet'), [{ schema: 3, schema_min: 3 }])
  assert.deepEqual(await old.query('SELECT * FROM faults'), [])
})
