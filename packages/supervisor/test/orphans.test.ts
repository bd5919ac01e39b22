import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, it } from 'node:test'
import { supervise, sweepOrphans } from '../src/index.ts'
import { QUICK } from './child-fixture.ts'

const LINUX = { skip: process.platform === 'linux' ? false : 'needs /proc' }

describe('a record of running children', LINUX, () => {
  const bootId = process.platform === 'linux' ? readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() : ''
  const whole = { supervisorId: 'a'.repeat(36), bootId, owner: { pid: 4_000_000, startTime: 1 }, children: [] }
  const cases: readonly [string, unknown, boolean][] = [
    ['of a supervisor that has gone', whole, false],
    ['with children that are nothing', { ...whole, children: [null, 5, 'a', {}] }, false],
    ['without an owner', { ...whole, owner: null }, false],
    ['of an owner without a start time that has gone', { ...whole, owner: { pid: 4_000_000, startTime: null } }, false],
    ['of an owner that does not exist', { ...whole, owner: { pid: 4_000_000 } }, false],
    ['that is null', null, false],
    ['that is a list', [], false],
    ['of a living owner whose start time is unknown', { ...whole, owner: { pid: process.pid, startTime: null } }, true],
  ]
  for (const [what, note, stays] of cases) {
    it(`${what} is ${stays ? 'left alone' : 'removed'}, and no process is signalled`, () => {
      const folder = mkdtempSync(path.join(tmpdir(), 'breakfall-note-'))
      writeFileSync(path.join(folder, 'supervised-x.json'), JSON.stringify(note))
      assert.deepEqual(sweepOrphans(folder), [])
      assert.equal(readdirSync(folder).length, stays ? 1 : 0)
      rmSync(folder, { recursive: true, force: true })
    })
  }
})

it('a state folder that cannot be written does not stop a child from running', async () => {
  await using child = supervise({ command: 'cat', stateDir: '/dev/null/notes', limits: QUICK })
  await child.start()
  assert.equal(child.state.status, 'ready')
  assert.equal((await child.stop())?.expected, true)
})
