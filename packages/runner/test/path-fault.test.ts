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

test('what the system said names the path that was asked for, not the descriptor of its folder', () => {
  const message = "ENOENT: no such file or directory, open '/proc/self/fd/27/none'"
  const fault = pathFault(Object.assign(new Error(message), { code: 'ENOENT' }), 'src/none')
  assert.equal(fault.errorRaw, "ENOENT: no such file or directory, open 'src/none'")
})
