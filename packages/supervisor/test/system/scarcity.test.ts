// A machine that has run out of descriptors.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { it } from 'node:test'
import { promisify } from 'node:util'
import { program } from '../child-fixture.ts'

type Told = {
  readonly starts: readonly { readonly free: number; readonly category: string; readonly later: string }[]
  readonly exit: readonly unknown[]
  readonly hasReaper: boolean
}

it('without descriptors a start fails for lack of resources and is retried, and an exit is still reported', async () => {
  const script = 'ulimit -n 64; exec "$0" "$1"'
  const run = promisify(execFile)('sh', ['-c', script, process.execPath, program('supervises-without-descriptors.ts')])
  const told = JSON.parse((await run).stdout) as Told
  for (const { free, category, later } of told.starts) {
    assert.ok(['process_start_failed restart', 'ready'].includes(category), `with ${free} descriptors: ${category}`)
    assert.equal(later, 'ready', `with ${free} descriptors it came up as soon as there were more`)
  }
  assert.equal(told.starts[0]?.category, 'process_start_failed restart')
  assert.deepEqual(told.exit, ['exited', 3])
  assert.ok(told.hasReaper)
})
