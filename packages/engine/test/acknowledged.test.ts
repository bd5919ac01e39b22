/** What a daemon remembers of the commits that were acknowledged. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempFolder } from '../../../test/kit/folder.ts'
import { Acknowledged } from '../src/store/postgres/acknowledged.ts'
import type { Hashed } from '../src/store/postgres/append-sql.ts'
import { CHAIN_START, chainHash } from '../src/store/chain.ts'

const SESSION = '01890000-0000-7000-8000-000000000001'

/** Appends of one event each, chained. */
function chain(count: number, epoch = 1, padding = ''): readonly Hashed[] {
  let head = CHAIN_START
  return Array.from({ length: count }, (_, after) => {
    const event = { seq: after + 1, type: 'text-delta', turnId: SESSION, body: `"${after}${padding}"` }
    head = chainHash(head, { seq: event.seq, epoch, type: event.type, body: event.body })
    return { append: { sessionId: SESSION, epoch, after, events: [event] }, hashes: [head], head }
  })
}

test('a lost tail is known again, if it is complete and of the owner that the journal has', (t) => {
  const known = new Acknowledged(join(tempFolder(t), 'anchors'), () => 0)
  t.after(() => known.close())
  const appends = chain(5)
  for (const hashed of appends) known.note([hashed])
  const end = { lastSeq: 2, hash: appends[1]?.head ?? '', epoch: 1 }
  assert.deepEqual(known.tailAfter(SESSION, end), appends.slice(2))
  assert.equal(known.tailAfter(SESSION, { ...end, epoch: 2 }), undefined, 'another owner')
  assert.equal(known.tailAfter(SESSION, { ...end, hash: CHAIN_START }), undefined, 'another journal')
  assert.equal(known.tailAfter('01890000-0000-7000-8000-000000000002', end), undefined)
})

test('what was acknowledged long ago is not kept in memory, but how far it reached is, over restarts', (t) => {
  const file = join(tempFolder(t), 'anchors')
  let now = 0
  const first = new Acknowledged(file, () => now)
  const appends = chain(4)
  for (const hashed of appends.slice(0, 2)) first.note([hashed])
  now = 60_000
  for (const hashed of appends.slice(2)) first.note([hashed])
  assert.equal(first.tailAfter(SESSION, { lastSeq: 0, hash: CHAIN_START, epoch: 1 }), undefined)
  assert.equal(first.tailAfter(SESSION, { lastSeq: 2, hash: appends[1]?.head ?? '', epoch: 1 })?.length, 2)
  first.close()
  const second = new Acknowledged(file)
  const { lastSeq, hash } = second.heads.get(SESSION) ?? {}
  assert.deepEqual([lastSeq, hash], [4, appends[3]?.head])
  second.forget(SESSION)
  second.close()
  const third = new Acknowledged(file)
  assert.equal(third.heads.size, 0)
  third.close()
})

test('of very many commits, the last ones are known exactly, and the oldest are not kept', (t) => {
  const known = new Acknowledged(join(tempFolder(t), 'anchors'), () => 0)
  t.after(() => known.close())
  const appends = chain(150, 1, 'x'.repeat(300_000)) // 45 MB: more than is kept
  for (const hashed of appends) known.note([hashed])
  const after = (lastSeq: number) => ({ lastSeq, hash: appends[lastSeq - 1]?.head ?? '', epoch: 1 })
  assert.deepEqual(known.tailAfter(SESSION, after(50)), appends.slice(50))
  assert.equal(known.tailAfter(SESSION, after(10)), undefined, 'it is incomplete')
})
