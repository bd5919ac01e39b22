/** A file has one owner, however many processes want it and however the owner ends. */
import assert from 'node:assert/strict'
import { chmodSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { Program } from '../../../../test/kit/program.ts'
import { lockFile } from '../../src/platform.ts'

const PROGRAM = fileURLToPath(new URL('../programs/locks-a-file.ts', import.meta.url))
const NOBODY = 65_534

type Locker = { readonly program: Program; readonly answer: string }

async function lockers(t: { after(done: () => Promise<void>): void }, file: string, count: number): Promise<Locker[]> {
  const programs = Array.from({ length: count }, () => new Program(process.execPath, [PROGRAM, file], { input: null }))
  atEnd(t, () => Promise.all(programs.map((program) => program.kill())).then(() => undefined))
  return Promise.all(programs.map(async (program) => ({ program, answer: await program.line(() => true) })))
}

const held = (found: readonly Locker[]): readonly Locker[] => found.filter(({ answer }) => answer === 'held')

test('of many processes that lock a file at once, one gets it, and the next one after a SIGKILL', async (t) => {
  const file = join(tempFolder(t), 'owner.db')
  const first = await lockers(t, file, 6)
  assert.equal(held(first).length, 1)
  assert.equal(lockFile(file), undefined)
  await held(first)[0]?.program.kill('SIGKILL')
  const second = lockFile(file)
  assert.ok(second)
  second.release()
  second.release()
  assert.equal(held(await lockers(t, file, 1)).length, 1)
})

test('a second attempt of the same process does not free the lock for another one', async (t) => {
  const file = join(tempFolder(t), 'owner.db')
  const lock = lockFile(file)
  assert.equal(lockFile(file), undefined)
  assert.equal(held(await lockers(t, file, 1)).length, 0)
  lock?.release()
})

test('only its owner can open it, and a removed or replaced file is noticed', (t) => {
  const file = join(tempFolder(t), 'owner.db')
  const lock = lockFile(file)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.equal(lock?.isThere(), true)
  rmSync(file)
  assert.equal(lock?.isThere(), false)
  const next = lockFile(file)
  assert.equal(lock?.isThere(), false)
  assert.equal(next?.isThere(), true)
  lock?.release()
  next?.release()
  writeFileSync(file, Buffer.alloc(4096, 0xfe))
  assert.throws(() => lockFile(file), /not a database/)
})

test('another user can neither take nor block it', { skip: process.getuid?.() !== 0 }, async (t) => {
  const folder = tempFolder(t)
  chmodSync(folder, 0o777)
  const file = join(folder, 'owner.db')
  lockFile(file)?.release()
  const other = new Program('perl', ['-e', BLOCKS, file], { uid: NOBODY, gid: NOBODY, input: null })
  atEnd(t, () => other.kill().then(() => undefined))
  assert.match(await other.line(() => true), /Permission denied/)
  const lock = lockFile(file)
  assert.ok(lock)
  lock.release()
})

const BLOCKS =
  'use Fcntl ":flock"; $| = 1; open(F, "<", $ARGV[0]) or print("$!\\n"), exit; flock(F, LOCK_EX); print "held\\n"; <STDIN>'
