/** A checkpoint of files that a program changes all the time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { capture } from '../src/checkpoint/capture.ts'
import { GitError } from '../src/checkpoint/git-command.ts'
import { ShadowStore } from '../src/checkpoint/shadow-store.ts'

const LIMITS = { filesMax: 10, fileBytesMax: 10, bytesMax: 10 }

/** A store in which every reading of files fails. */
function failing(t: { mock: { method: Function } }, error: Error): ShadowStore {
  const store: ShadowStore = Object.create(ShadowStore.prototype)
  t.mock.method(store, 'prepare', () => Promise.resolve())
  t.mock.method(store, 'forgetIndex', () => undefined)
  t.mock.method(store, 'gitAll', () => Promise.reject(error))
  return store
}

for (const [what, code, errors] of [
  ['made shorter', 135, ''],
  ['made shorter, without a sandbox', 'SIGBUS', ''],
  ['removed', 128, 'error: open("a"): No such file or directory\nfatal: Unable to process path a'],
  ['written', 128, 'fatal: confused by unstable object source data for 1234'],
] as const)
  test(`files that are ${what} whenever git reads them are named as the cause`, async (t) => {
    const store = failing(t, new GitError(['git', 'update-index'], code, errors))
    await assert.rejects(
      capture(store, LIMITS, new AbortController().signal),
      (thrown) => isFault(thrown) && thrown.category === 'workspace_busy' && /changes files/.test(thrown.error),
    )
  })

test('any other failure of git stays what it is', async (t) => {
  const error = new GitError(['git', 'write-tree'], 128, 'fatal: bad object')
  await assert.rejects(capture(failing(t, error), LIMITS, new AbortController().signal), error)
})
