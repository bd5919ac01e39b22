/** A journal as version 1 wrote it: its schema and its way to hash, kept here as they were. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { readJournal } from '../src/store/sqlite-reader.ts'
import { openSqliteStore } from '../src/store/sqlite-store.ts'
import { appendOf, claimAgain, claimed } from './conformance/store-kit.ts'

const SCHEMA = `
CREATE TABLE sessions (
  sid INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  journal TEXT NOT NULL,
  created_at TEXT NOT NULL,
  data TEXT NOT NULL,
  epoch INTEGER NOT NULL DEFAULT 0,
  last_seq INTEGER NOT NULL DEFAULT 0,
  head_hash BLOB NOT NULL,
  state TEXT NOT NULL DEFAULT 'idle',
  turn_id TEXT,
  quarantined TEXT
) STRICT;
CREATE INDEX sessions_unfinished ON sessions(state) WHERE state <> 'idle';
CREATE TABLE events (
  key INTEGER PRIMARY KEY,
  epoch INTEGER NOT NULL,
  type TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  body TEXT NOT NULL,
  hash BLOB NOT NULL
) STRICT;
CREATE TABLE turns (
  turn_id TEXT PRIMARY KEY,
  sid INTEGER NOT NULL REFERENCES sessions(sid) ON DELETE CASCADE,
  view TEXT NOT NULL,
  cancel TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX turns_by_session ON turns(sid);
CREATE TABLE keys (
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  receipt TEXT NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
PRAGMA user_version=1;
`

type Old = { readonly id: string; readonly bodies: readonly string[]; readonly state?: string }

const DATA = '{"title":null,"model":null,"box":{},"tools":[],"policy":{},"runnerId":null,"boxMade":false}'

/** A state folder with these sessions, all in epoch 1, and `change` made to the database atEnd. */
function version1(t: TestContext, sessions: readonly Old[], change = ''): string {
  const stateDir = mkdtempSync(join(tmpdir(), 'breakfall-version-1-'))
  t.after(() => rmSync(stateDir, { recursive: true, force: true }))
  mkdirSync(join(stateDir, 'journal'))
  const db = new DatabaseSync(join(stateDir, 'journal', 'journal.db'))
  db.exec(`PRAGMA journal_mode=WAL; BEGIN; ${SCHEMA}`)
  const anchors: string[] = []
  for (const [index, { id, bodies, state = 'idle' }] of sessions.entries()) {
    const sid = index + 1
    let hash = Buffer.alloc(32)
    for (const [n, body] of bodies.entries()) {
      const link = `${n + 1} 1 text-delta ${body.length}\n${body}`
      hash = createHash('sha256').update(hash).update(link).digest()
      const key = sid * 2 ** 24 + n + 1
      db.prepare('INSERT INTO events VALUES (?,?,?,?,?,?)').run(key, 1, 'text-delta', 't1', body, hash)
    }
    const row = [
      sid,
      id,
      `journal of ${id}`,
      '2026-11-15T12:00:00.000Z',
      DATA,
      1,
      bodies.length,
      hash,
      state,
      null,
      null,
    ]
    db.prepare('INSERT INTO sessions VALUES (?,?,?,?,?,?,?,?,?,?,?)').run(...row)
    db.prepare('INSERT INTO turns VALUES (?,?,?,?)').run(`turn of ${id}`, sid, '{"id":"x"}', null)
    db.prepare('INSERT INTO keys VALUES (?,?,?,?)').run(id, 'k', 'h', '{"seq":1}')
    if (bodies.length > 0) anchors.push(`${id} ${bodies.length} ${hash.toString('hex')}\n`)
  }
  db.exec(`COMMIT; ${change}`)
  db.close()
  writeFileSync(join(stateDir, 'journal', 'anchors'), anchors.join(''))
  return stateDir
}

const bodiesOf = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, n) => JSON.stringify(`${name} ${n + 1} é🙂`))

test('a journal of version 1 is migrated at open: complete, checked and writable', async (t) => {
  const old = [
    { id: 'long', bodies: bodiesOf('long', 200), state: 'busy' },
    { id: 'empty', bodies: [] },
    { id: 'short', bodies: bodiesOf('short', 2) },
  ]
  const stateDir = version1(t, old)
  assert.throws(() => readJournal(stateDir, 'default'), /earlier version \(schema 1, .* migrates it/)
  let store = await openSqliteStore(join(stateDir, 'journal'))
  t.after(() => store.close())
  assert.deepEqual(store.problems, [])
  assert.deepEqual(
    (await store.claimWork({ limit: 10 })).map(({ id, epoch, lastSeq }) => [id, epoch, lastSeq]),
    [['long', 2, 200]],
  )
  for (const { id, bodies } of old) {
    assert.deepEqual(
      (await store.read(id, 0, 1000)).map(({ body }) => body),
      bodies,
    )
    assert.equal((await store.getTurn(`turn of ${id}`))?.sessionId, id)
    assert.equal((await store.getKey(id, 'k'))?.receipt, '{"seq":1}')
  }
  const fresh = await claimed(store)
  await store.append(appendOf(fresh, 0, ['"fresh"']))
  for (const { id, bodies } of old)
    await store.append(appendOf(await claimAgain(store, id), bodies.length, ['"new"', '"newer"']))
  await store.close()
  store = await openSqliteStore(join(stateDir, 'journal'))
  assert.deepEqual(store.problems, [])
  for (const { id, bodies } of old) {
    assert.deepEqual(
      (await store.read(id, Math.max(bodies.length - 1, 0), 1000)).map(({ body }) => body),
      [...bodies.slice(-1), '"new"', '"newer"'],
    )
  }
  assert.equal((await store.read(fresh.id, 0, 10)).length, 1)
  await store.close()
  using reader = readJournal(stateDir, 'default')
  assert.equal(reader?.session('long')?.lastSeq, 202)
})

test('what was damaged in version 1 is damaged after the move, and nothing else is', async (t) => {
  const changes = [
    `UPDATE events SET body='"changed"' WHERE key=${1 * 2 ** 24 + 2}`,
    `DELETE FROM events WHERE key=${2 * 2 ** 24 + 2}`,
    `DELETE FROM events WHERE key=${3 * 2 ** 24 + 3}`,
  ]
  const old = ['changed', 'middle', 'end', 'good'].map((id) => ({ id, bodies: bodiesOf(id, 3) }))
  const store = await openSqliteStore(join(version1(t, old, changes.join(';')), 'journal'))
  t.after(() => store.close())
  await assert.rejects(store.read('changed', 0, 10), /first bad event is 2/)
  await assert.rejects(store.read('middle', 0, 10), /first bad event is 2/)
  await assert.rejects(store.read('end', 0, 10), /first bad event is 3/)
  assert.equal((await store.read('good', 0, 10)).length, 3)
  assert.deepEqual(
    store.problems.map(({ sessionId }) => sessionId),
    ['end'],
  )
})
