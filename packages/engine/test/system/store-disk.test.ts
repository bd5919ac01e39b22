/** The journal on a disk that has room for what is committed, and none, or some, for what is noted beside it. */
import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openSqliteStore } from '../../src/store/sqlite-store.ts'
import { appendOf, claimAgain, claimed, refused } from '../conformance/store-kit.ts'
import { smallDisk } from '../support/small-disk.ts'

const SESSIONS = 60 // with some hundred bytes each in the anchor, which has one page

test('the anchor on a full disk has no half lines, and is complete when there is space', async (t) => {
  const disk = smallDisk(t, '4k')
  if (disk === undefined) return
  const journal = join(tempFolder(t), 'journal')
  mkdirSync(journal)
  const anchors = join(journal, 'anchors')
  symlinkSync(join(disk.folder, 'anchors'), anchors)
  const store = await openSqliteStore(journal, {})
  atEnd(t, () => store.close()) // a worker that is left keeps the process
  const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => claimed(store)))
  for (const session of sessions) await store.append(appendOf(session, 0, ['1']))
  const gone = await claimed(store)
  assert.equal(await store.deleteSession(gone.id), true) // the anchor is written at once
  assert.match(readFileSync(anchors, 'utf8'), /^(?:\S+ \d+ [0-9a-f]{64}\n)*$/)
  disk.grow('64k')
  for (const session of sessions) await store.append(appendOf(session, 1, ['1']))
  await store.close()
  assert.match(readFileSync(anchors, 'utf8'), new RegExp(`^(?:\\S+ (?:-|\\d+ [0-9a-f]{64})\n){${SESSIONS},}$`))
  const again = await openSqliteStore(journal, {})
  atEnd(t, () => again.close())
  assert.deepEqual(again.problems, [])
})

test('other writes do not use the space freed from the reserve: they wait until it is complete again', async (t) => {
  const disk = smallDisk(t, '4m')
  if (disk === undefined) return
  const store = await openSqliteStore(disk.folder, { reserveBytes: 512 * 1024 })
  atEnd(t, () => store.close())
  const [one, other] = [await claimed(store), await claimed(store)]
  const body = JSON.stringify('x'.repeat(20_000))
  let seq = 0
  const more = async (): Promise<void> => {
    await store.append(appendOf(one, seq, [body]))
    seq += 1
  }
  await refused(endless(more), 'journal_full')
  const reserve = join(disk.folder, 'reserve')
  let essentials = 0
  while (existsSync(reserve)) {
    // What was left of the disk may be enough for a few of them.
    await store.append({ ...appendOf(other, essentials, [body]), essential: true })
    essentials += 1
  }
  await refused(more(), 'journal_full')
  await refused(store.append(appendOf(other, essentials, ['"small"'])), 'journal_full')
  await store.append({ ...appendOf(other, essentials, ['"ended"']), essential: true })
  assert.equal((await claimAgain(store, one.id)).lastSeq, seq) // whoever opens it can read it
  disk.grow('16m')
  await store.append(appendOf(other, essentials + 1, ['"on"']))
  assert.equal(statSync(reserve).size, 512 * 1024)
})

// ---- details ----

async function endless(step: () => Promise<void>): Promise<never> {
  for (;;) await step()
}
