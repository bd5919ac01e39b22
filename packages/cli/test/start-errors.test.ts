import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { refuseUnreadable, stateFileFault } from '../src/process/start-errors.ts'

test('a state folder that may not be read is not taken for an empty one; one that is not there is', () => {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall state '))
  const isRoot = process.geteuid?.() === 0
  try {
    mkdirSync(join(folder, 'state'))
    chmodSync(folder, 0o000)
    if (isRoot) process.seteuid?.(65_534) // root may read everything
    assert.throws(() => refuseUnreadable(join(folder, 'state')), {
      error: /cannot be used: this user may not read there/,
    })
  } finally {
    if (isRoot) process.seteuid?.(0)
    chmodSync(folder, 0o700)
    rmSync(folder, { recursive: true })
  }
  refuseUnreadable(join(folder, 'state'))
})

test('trouble with a file of the state folder names the file; a full disk is what passes', () => {
  const error = (code: string, path?: string): Error => Object.assign(new Error(code), { code, path })
  const of = (thrown: Error): unknown => stateFileFault(thrown)
  assert.match(
    String((of(error('EISDIR', '/s/daemon.json')) as Error).message),
    /^\/s\/daemon\.json cannot be used: it is a folder/,
  )
  assert.equal((of(error('ENOSPC')) as { category: string }).category, 'journal_full')
  const bug = new Error('a bug')
  assert.equal(of(bug), bug)
})
