/** A server that restarts for weeks must cost nothing: no descriptor, no handle, no memory per restart. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { McpHost } from '../../src/index.ts'

const HEAP_BYTES_MAX = 2 ** 20 // over 152 restarts: 0.4 MiB is compiled code, and kept connections would be 1.7 MiB

test('200 restarts leave descriptors, handles and memory flat', { timeout: 120_000 }, async (t) => {
  const host = new McpHost({ stateDir: tempFolder(t) })
  atEnd(t, () => host.stop())
  const script = fileURLToPath(new URL('../programs/tiny-server.sh', import.meta.url))
  const config = { command: 'sh', args: [script] }
  host.configure({ a: config, b: config, c: config, d: config })
  await host.settled(30_000)
  const { servers } = host
  assert.deepEqual(
    servers.map(({ state }) => state),
    ['ready', 'ready', 'ready', 'ready'],
  )
  const restart = (times: number): Promise<unknown> =>
    Promise.all(
      servers.map(async (server) => {
        for (let round = 0; round < times / servers.length; round += 1) await server.restart()
      }),
    )
  await restart(48) // lazy code, caches
  const before = usage()
  await restart(152)
  const after = usage()
  assert.deepEqual(
    servers.map(({ state, tools }) => [state, tools.length]),
    Array.from(servers, () => ['ready', 1]),
  )
  assert.ok(after.descriptors <= before.descriptors + 2, JSON.stringify({ before, after }))
  assert.ok(after.handles <= before.handles + 2, JSON.stringify({ before, after }))
  assert.ok(after.heapBytes - before.heapBytes < HEAP_BYTES_MAX, JSON.stringify({ before, after }))
})

// ---- details ----

setFlagsFromString('--expose-gc')
const collectGarbage: unknown = runInNewContext('gc')

function usage(): { readonly descriptors: number; readonly handles: number; readonly heapBytes: number } {
  if (typeof collectGarbage === 'function') collectGarbage()
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    handles: process.getActiveResourcesInfo().length,
    heapBytes: process.memoryUsage().heapUsed,
  }
}
