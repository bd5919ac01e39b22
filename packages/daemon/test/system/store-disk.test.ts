/** The journal on a disk that has room for what is committed, and none, or some, for what is noted beside it. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openSqliteStore } from '../../src/store/sqlite-store.ts'
import { appendOf, claimed } from '../conformance/store-suite.ts'
import { afterwards, tempFolder } from '../support/setup.ts'

const SESSIONS = 60 // with some hundred bytes each in the anchor, which has one page

test('the anchor of a full disk has no half lines, and has them all when there is room', async (t) => {
  const [folder, small] = [tempFolder(t), tempFolder(t)]
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4k', 'tmpfs', small], { stdio: 'pipe' })
  } catch (error) {
    return t.skip(`needs the right to mount a small file system: ${String(error).slice(0, 100)}`)
  }
  afterwards(t, () => execFileSync('umount', ['--lazy', small]))
  const journal = join(folder, 'journal')
  mkdirSync(journal)
  const anchors = join(journal, 'anchors')
  symlinkSync(join(small, 'anchors'), anchors)
  const store = await openSqliteStore(journal, {})
  afterwards(t, () => store.close()) // a worker that is left keeps the process
  const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => claimed(store)))
  for (const session of sessions) await store.append(appendOf(session, 0, ['1']))
  const gone = await claimed(store)
  assert.equal(await store.deleteSession(gone.id), true) // the anchor is written at once
  assert.match(readFileSync(anchors, 'utf8'), /^(?:\S+ \d+ [0-9a-f]{64}\n)*$/)
  execFileSync('mount', ['-o', 'remount,size=64k', small])
  for (const session of sessions) await store.append(appendOf(session, 1, ['1']))
  await store.close()
  assert.match(readFileSync(anchors, 'utf8'), new RegExp(`^(?:\\S+ (?:-|\\d+ [0-9a-f]{64})\n){${SESSIONS},}$`))
  const again = await openSqliteStore(journal, {})
  afterwards(t, () => again.close())
  assert.deepEqual(again.problems, [])
})
