import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pathFault } from '../src/files/walk.ts'

test('a file that may not be written is a refusal that the caller can understand, not an unknown failure', () => {
  for (const [code, says] of [
    ['EACCES', 'permission denied'],
    ['EPERM', 'permission denied'],
    ['EROFS', 'the file system is read-only'],
  ] as const) {
    const fault = pathFault(Object.assign(new Error(`${code}: refused`), { code }), 'src/a.txt')
    assert.equal(fault.category, 'forbidden')
    assert.equal(fault.error, `src/a.txt may not be used so (${says}); nothing was changed`)
  }
})
