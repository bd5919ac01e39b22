/** What the doctor says about sessions and boxes, and how prune sums up. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { timeSpan } from '../src/command-line/flags.ts'
import { boxesFinding, storageFinding } from '../src/commands/doctor/storage.ts'
import { prunedLine } from '../src/commands/rm-prune/rm-prune.ts'
import { removal } from '../src/commands/uninstall/uninstall.ts'
import { packageName } from '../src/process/self.ts'
import { bytesText } from '../src/text/amounts.ts'

const GIB = 1024 ** 3
const storage = { sessions: 700, recentSessions: 70, recentBytes: 7 * 1024 ** 2, isPart: false, isRetained: false }

test('the doctor reports size and growth, and advises only if that is a lot and nothing deletes it', () => {
  const small = storageFinding({ ...storage, diskBytes: 5 * 1024 ** 2 })
  assert.equal(small.verdict, 'ok')
  assert.equal(small.found, '700 sessions, 5 MiB in all; 70 sessions and 7 MiB in the last 7 days')
  const large = storageFinding({ ...storage, diskBytes: 3 * GIB })
  assert.equal(large.verdict, 'warn')
  assert.match(large.fix ?? '', /breakfall prune.*\[retention\]/)
  assert.equal(storageFinding({ ...storage, diskBytes: 3 * GIB, isRetained: true }).verdict, 'ok')
})

test('a full quota of running boxes is a problem, and nothing is said while there is room', () => {
  assert.deepEqual(boxesFinding(999, 1000), [])
  assert.deepEqual(
    boxesFinding(1000, 1000).map(({ verdict }) => verdict),
    ['bad'],
  )
})

test('sizes and times read as people write them', () => {
  assert.deepEqual([0, 2048, 1.44 * 1024 ** 3].map(bytesText), ['0 B', '2 KiB', '1.4 GiB'])
  assert.deepEqual(['45s', '12h', '30d', '2w'].map(timeSpan), [45_000, 43_200_000, 2_592_000_000, 1_209_600_000])
  for (const wrong of ['30', 'd', '-1d', '1y', '99999w']) assert.throws(() => timeSpan(wrong), /such as 30d/)
  assert.equal(prunedLine({ sessions: 0, bytes: 0 }, false), 'no session to delete')
  assert.equal(prunedLine({ sessions: 1, bytes: 2048 }, true), 'would delete 1 session, 2 KiB of journal')
})

test('how to remove the program depends on how npm knows it', () => {
  assert.match(removal('breakfall'), /^npm uninstall breakfall /)
  assert.match(removal(packageName), /^npm uninstall -g @breakfall\/cli .*delete the checkout$/, 'this is a checkout')
})
