import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Fault, isFault } from '@breakfall/faults'
import { tempFolder } from '../../../test/kit/folder.ts'
import { prepareStateDir, refuseUnreadable, stateFileFault } from '../src/process/state-folder.ts'

test('an unreadable state folder is an error; a missing one counts as empty', () => {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall state '))
  const isRoot = process.geteuid?.() === 0
  try {
    mkdirSync(join(folder, 'state'))
    chmodSync(folder, 0o000)
    if (isRoot) process.seteuid?.(65_534) // root can read everything
    assert.throws(() => refuseUnreadable(join(folder, 'state')), {
      error: /Cannot use the state folder .*: permission denied/,
    })
  } finally {
    if (isRoot) process.seteuid?.(0)
    chmodSync(folder, 0o700)
    rmSync(folder, { recursive: true })
  }
  refuseUnreadable(join(folder, 'state'))
})

test('a state folder of another user is refused, whoever starts there', { skip: process.getuid?.() !== 0 }, (t) => {
  const folder = tempFolder(t)
  assert.equal(prepareStateDir(folder), folder)
  chownSync(folder, 65_534, 65_534)
  for (const create of [true, false])
    assert.throws(() => prepareStateDir(folder, { create }), {
      error: /Cannot use the state folder .*: it belongs to another user/,
    })
})

test('an unusable file in the state folder is named, and a full disk is temporary', () => {
  const error = (code: string, path?: string): Error => Object.assign(new Error(code), { code, path })
  const faultOf = (thrown: Error): Fault => {
    const fault = stateFileFault(thrown)
    assert.ok(isFault(fault))
    return fault
  }
  assert.match(faultOf(error('EISDIR', '/s/daemon.json')).error, /^Cannot use \/s\/daemon\.json: it is a folder/)
  assert.equal(faultOf(error('ENOSPC')).category, 'journal_full')
  const bug = new Error('a bug')
  assert.equal(stateFileFault(bug), bug)
})
