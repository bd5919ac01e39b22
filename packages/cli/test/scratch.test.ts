/** Scratch folders are in a place that all users of the machine share. */
import assert from 'node:assert/strict'
import { chownSync, existsSync, mkdirSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd, removeFolder } from '../../../test/kit/folder.ts'
import { makeScratch } from '../src/demo-setup/demo-setup.ts'

const withoutRoot = process.getuid?.() === 0 ? false : 'only root can make folders of another user'

test('old scratch folders are removed, and those of another user are left alone', { skip: withoutRoot }, (t) => {
  const [ours, theirs] = ['ours', 'theirs'].map((name) => join(tmpdir(), `breakfall-demo-${name}`)) as [string, string]
  for (const folder of [ours, theirs]) {
    atEnd(t, () => removeFolder(folder))
    mkdirSync(join(folder, 'work'), { recursive: true })
  }
  chownSync(theirs, 12_345, 12_345)
  for (const folder of [ours, theirs]) utimesSync(folder, 1, 1)
  const made = makeScratch('demo')
  atEnd(t, () => removeFolder(made))
  assert.deepEqual([existsSync(ours), existsSync(theirs)], [false, true])
})
