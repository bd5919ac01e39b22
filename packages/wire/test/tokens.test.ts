/** Token files under concurrent starts: see `src/node/tokens.ts`. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chownSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { isFault } from '@breakfall/faults'
import { tempFolder } from '../../../test/kit/folder.ts'
import { readFleetKey } from '../src/node/fleet-key.ts'
import { loadTokens } from '../src/node/tokens.ts'

const THREADS = 2
const FILES = 50

/** Opens each file at the same moment as the other threads, and reports the tokens and what went wrong. */
const THREAD = `
const { parentPort, workerData: { folder, gate, module, threads, files } } = require('node:worker_threads')
import(module).then(({ loadTokens }) => {
  const arrived = new Int32Array(gate)
  const tokens = []
  for (let round = 1; round <= files; round += 1) {
    Atomics.add(arrived, 0, 1)
    while (Atomics.load(arrived, 0) < round * threads);
    try { tokens.push(loadTokens(folder + '/' + round)[0].token) } catch (error) { tokens.push(String(error)) }
  }
  parentPort.postMessage(tokens)
})`

test('daemons that start at the same moment all read the same whole token', async (t) => {
  const folder = tempFolder(t)
  const module = new URL('../src/node/tokens.ts', import.meta.url).href
  const workerData = { folder, gate: new SharedArrayBuffer(4), module, threads: THREADS, files: FILES }
  const threads = Array.from({ length: THREADS }, () => new Worker(THREAD, { eval: true, workerData }))
  const seen = await Promise.all(threads.map(async (thread) => (await once(thread, 'message'))[0]))
  assert.match(seen[0][0], /^[\w-]{43}$/)
  for (const tokens of seen) assert.deepEqual(tokens, seen[0])
  assert.equal(readdirSync(folder).length, FILES, 'no draft is left')
})

test(
  'a token or a key in a file of another user is refused: its owner could have chosen it',
  { skip: process.getuid?.() !== 0 && 'only root can read one' },
  (t) => {
    const file = join(tempFolder(t), 'token')
    writeFileSync(file, 'a-token-that-somebody-else-knows\n', { mode: 0o600 })
    assert.equal(loadTokens(file).length, 1)
    chownSync(file, 65_534, 65_534)
    for (const load of [loadTokens, readFleetKey])
      assert.throws(
        () => load(file),
        (thrown) => isFault(thrown) && /belongs to another user \(uid 65534\)/.test(thrown.error),
      )
  },
)
