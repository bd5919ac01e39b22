import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openSqliteStore, type Store } from '@breakfall/engine'

const PROGRAM = fileURLToPath(new URL('../programs/appends-until-killed.ts', import.meta.url))

/** The last seq of each session that was acknowledged before the kill. */
async function acknowledged(folder: string, isEnough: (lines: number) => boolean): Promise<Map<string, number>> {
  const child = spawn(process.execPath, [PROGRAM, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  const last = new Map<string, number>()
  let count = 0
  for await (const line of createInterface({ input: child.stdout })) {
    const [id = '', seq] = line.split(' ')
    last.set(id, Number(seq))
    count += 1
    if (isEnough(count)) child.kill('SIGKILL') // what it said until then is still read
  }
  await ended
  return last
}

async function opened(t: TestContext, folder: string): Promise<Store> {
  const store = await openSqliteStore(folder)
  atEnd(t, () => store.close())
  return store
}

test('every acknowledged event is there after a kill, with a valid hash', async (t) => {
  for (const lines of [1, 57, 800]) {
    const folder = join(tempFolder(t), 'journal')
    const last = await acknowledged(folder, (count) => count === lines)
    const store = await opened(t, folder)
    assert.deepEqual(store.problems, [])
    for (const [id, seq] of last) {
      const events = await store.read(id, 0, 100_000)
      assert.ok(events.length >= seq, `${events.length} of ${seq} are there`)
      assert.deepEqual(
        events.map(({ body }) => body),
        events.map((_, n) => JSON.stringify({ seq: n + 1 })),
      )
    }
  }
})

test('commits lost with a torn log are named by session and seq, and the rest is readable', async (t) => {
  const folder = join(tempFolder(t), 'journal')
  const log = join(folder, 'journal.db-wal')
  let early: number | undefined
  const last = await acknowledged(folder, () => {
    early ??= statSync(log).size // with a few events of each
    return / \d{3,} /.test(readFileSync(join(folder, 'anchors'), 'utf8')) // the anchor knows of a hundred
  })
  truncateSync(log, early)
  const store = await opened(t, folder)
  assert.ok(store.problems.length > 0)
  for (const { sessionId, what } of store.problems) {
    assert.ok(sessionId !== null && last.has(sessionId))
    assert.match(what, /events after seq \d+ are gone; the journal had reached \d+|the session is gone/)
    const row = await store.getSession(sessionId)
    if (row !== undefined) assert.equal((await store.read(sessionId, 0, 100_000)).length, row.lastSeq)
  }
})
