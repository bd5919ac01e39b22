import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { Fault } from '@breakfall/faults'
import type { Turn } from '@breakfall/wire'
import { readJournal } from '../src/store/sqlite-reader.ts'
import { openSqliteStore } from '../src/store/sqlite-store.ts'
import type { SessionRow } from '../src/rows.ts'
import type { Store } from '../src/store/store.ts'
import { eventsOf, type TestDraft } from './support/events.ts'
import { newId } from '@breakfall/wire/node'

function stateDir(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-reader-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

async function newSession(store: Store): Promise<SessionRow> {
  const data = { title: null, model: null, box: {}, tools: [], policy: {}, runnerId: null, boxMade: false }
  const id = newId()
  await store.createSession({ id, journal: newId(), createdAt: '2026-11-15T12:00:00.000Z', data })
  const row = await store.claim(id)
  assert.ok(row !== undefined && row !== 'owned')
  return row
}

const runningTurn = (id: string, sessionId: string): Turn =>
  ({ id, sessionId, state: 'running', endedAt: null }) as Turn

test('a journal of several pages can be read while its owner keeps writing', async (t) => {
  const folder = stateDir(t)
  const store = await openSqliteStore(join(folder, 'journal'))
  t.after(() => store.close())
  const { id, epoch } = await newSession(store)
  using reader = readJournal(folder, 'default')
  assert.ok(reader !== undefined)
  const seqs = Array.from({ length: 1_201 }, (_, i) => i + 1)
  const drafts = seqs.map((): TestDraft => ({ type: 'text-delta', step: 1, attempt: 1, part: 'p1', text: 'x' }))
  const events = eventsOf(drafts).map((event) => ({ ...event, body: JSON.stringify(event) }))
  await store.append({ sessionId: id, epoch, after: 0, events, set: { state: 'busy', turnId: 't' } })
  assert.deepEqual(
    reader.sessions({ limit: 10 }).sessions.map(({ state, model }) => [state, model]),
    [['busy', 'default']],
  )
  assert.deepEqual(
    [...reader.events(id, 0)].map(({ seq }) => seq),
    seqs,
  )
  assert.deepEqual(
    [...reader.events(id, 1_200)].map(({ seq }) => seq),
    [1_201],
  )
  await store.close()
  assert.equal(reader.session(id)?.lastSeq, 1_201)
  assert.equal(reader.session('x'), undefined)
  assert.equal(reader.turn('x'), undefined)
})

test('a damaged session looks the same as over the API: idle, with a failed turn', async (t) => {
  const folder = stateDir(t)
  const store = await openSqliteStore(join(folder, 'journal'))
  t.after(() => store.close())
  const { id, epoch } = await newSession(store)
  const turn = { turnId: 't', sessionId: id, view: runningTurn('t', id), cancel: null }
  const event = { seq: 1, type: 'turn-start', turnId: 't', body: '{}' } as const
  await store.append({
    sessionId: id,
    epoch,
    after: 0,
    events: [event],
    set: { state: 'busy', turnId: 't' },
    turns: [turn],
  })
  await store.quarantine(id, new Fault('journal_corrupt').report)
  await store.close()
  using reader = readJournal(folder, 'default')
  assert.deepEqual([reader?.session(id)?.state, reader?.session(id)?.turnId], ['idle', null])
  assert.deepEqual([reader?.turn('t')?.state, reader?.turn('t')?.fault?.category], ['failed', 'journal_corrupt'])
})

test('a missing journal reads as nothing; a journal of another version and a file that is not a journal are refused', async (t) => {
  const folder = stateDir(t)
  assert.equal(readJournal(folder, 'default'), undefined)
  await (await openSqliteStore(join(folder, 'journal'))).close()
  const db = new DatabaseSync(join(folder, 'journal', 'journal.db'))
  db.exec('PRAGMA user_version=99')
  db.close()
  assert.throws(() => readJournal(folder, 'default'), { category: 'journal_corrupt' })
  writeFileSync(join(folder, 'journal', 'journal.db'), 'not a database, but long enough to be taken for one'.repeat(50))
  assert.throws(() => readJournal(folder, 'default'), { category: 'journal_corrupt' })
})
