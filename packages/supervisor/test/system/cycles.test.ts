import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { it } from 'node:test'
import v8 from 'node:v8'
import vm from 'node:vm'
import { supervise } from '../../src/index.ts'
import { HAS_PROCESS_TABLE } from '../../src/platform.ts'
import { eventually } from '../child-fixture.ts'

const CYCLES = 250
const PARTS = 5
const WARM_UP = 50
const KEPT_BYTES_MAX = 512 // a cycle; one kept report is ten times that

const counts = (): { fds: number; handles: number } => ({
  fds: readdirSync('/proc/self/fd').length,
  handles: process.getActiveResourcesInfo().length,
})

v8.setFlagsFromString('--expose-gc')
const collectGarbage = vm.runInNewContext('gc') as () => void

/**
 * Reachable memory. One collection is not enough: a separate thread subtracts the memory of dead buffers, and on a busy
 * machine it was up to 25 MB behind. Compiled code is excluded: V8 keeps optimising for thousands of cycles.
 */
async function memoryInUse(): Promise<number> {
  let least = Infinity
  for (let unchanged = 0; unchanged < 5;) {
    collectGarbage()
    await new Promise((resolve) => setImmediate(resolve))
    const objects = v8
      .getHeapSpaceStatistics()
      .filter((space) => !/code|trusted/.test(space.space_name))
      .reduce((sum, space) => sum + space.space_used_size, 0)
    const now = objects + process.memoryUsage().external
    unchanged = now < least ? 0 : unchanged + 1
    least = Math.min(least, now)
  }
  return least
}

it(`${CYCLES} crashes and restarts leave descriptors, timers, listeners and memory flat`, async (t) => {
  if (!HAS_PROCESS_TABLE) return t.skip('this system has no process table')
  const child = supervise({
    command: 'sh',
    args: ['-c', 'echo up; echo "CUDA error: an illegal memory access was encountered" >&2; read -r _; exit 1'],
    ready: { kind: 'line', pattern: /^up$/ },
    limits: { backoffMs: 0, failuresMax: 1_000_000 },
  })
  t.after(async () => child.stop()) // also where an assertion fails
  let faults = 0
  const warnings: string[] = []
  const onWarning = (warning: Error): number => warnings.push(warning.message)
  process.on('warning', onWarning)
  const cycle = async (): Promise<void> => {
    await child.ready()
    const request = child.request()
    await child.write('\n')
    const fault = await request.failed
    assert.equal(fault.category, 'process_failed')
    faults += 1
  }
  await child.start()
  for (let warm = 0; warm < WARM_UP; warm += 1) await cycle()
  await child.ready()
  const before = counts()
  const memory = [await memoryInUse()]
  for (let count = 1; count <= CYCLES; count += 1) {
    await cycle()
    if (count % (CYCLES / PARTS) !== 0) continue
    await child.ready()
    memory.push(await memoryInUse())
  }
  assert.equal(faults, WARM_UP + CYCLES)
  // The pipes of the last run close a little later.
  await eventually(() => counts().fds <= before.fds, `as few descriptors as the ${before.fds} before`)
  await eventually(() => counts().handles <= before.handles, `as few handles as the ${before.handles} before`)
  // A leak per cycle shows in every part; a table that grew once, or source text that V8 released, shows in one.
  const growths = memory.slice(1).map((now, part) => now - (memory[part] ?? 0))
  const kept = (growths.toSorted((a, b) => a - b)[Math.floor(PARTS / 2)] ?? 0) / (CYCLES / PARTS)
  assert.ok(kept < KEPT_BYTES_MAX, `${Math.round(kept)} bytes are kept for each cycle`)
  assert.deepEqual(warnings, [], 'no listener leak was reported')
  await child.stop()
  process.off('warning', onWarning)
  const left = (name: string): number => process.getActiveResourcesInfo().filter((active) => active === name).length
  assert.equal(left('Timeout'), 0)
  await eventually(() => left('ProcessWrap') === 0, 'the end of the last process') // the reaper does not hold us up
})
