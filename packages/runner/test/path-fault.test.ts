/** Faults for system errors on files. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pathFault } from '../src/files/walk.ts'

test('a file that cannot be written is a clear refusal, not an unknown failure', () => {
  for (const [code, says] of [
    ['EACCES', 'permission denied'],
    ['EPERM', 'permission denied'],
    ['EROFS', 'the file system is read-only'],
  ] as const) {
    const fault = pathFault(Object.assign(new Error(`${code}: refused`), { code }), 'src/a.txt', 'write')
    assert.equal(fault.category, 'forbidden')
    assert.equal(fault.error, `Cannot write src/a.txt: ${says}. Nothing was changed.`)
  }
})

test("the system's message names the caller's path, not our descriptor", () => {
  const message = "ENOENT: no such file or directory, open '/proc/self/fd/27/none'"
  const fault = pathFault(Object.assign(new Error(message), { code: 'ENOENT' }), 'src/none', 'read')
  assert.equal(fault.errorRaw, "ENOENT: no such file or directory, open 'src/none'")
})
