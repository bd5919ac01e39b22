import assert from 'node:assert/strict'
import fs, { truncateSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempFolder } from '../../../test/kit/folder.ts'
import { readRegular } from '../src/files/regular-file.ts'

test('a file that a command makes huge while it is read is read up to the size that was checked', (t) => {
  const file = join(tempFolder(t), 'config')
  writeFileSync(file, 'abc')
  const { fstatSync } = fs
  t.mock.method(fs, 'fstatSync', (fd: number) => {
    const stat = fstatSync(fd)
    truncateSync(file, 64 * 1024 * 1024)
    return stat
  })
  syncBuiltinESMExports()
  t.after(() => {
    t.mock.restoreAll()
    syncBuiltinESMExports()
  })
  assert.equal(readRegular(file)?.toString(), 'abc')
})
