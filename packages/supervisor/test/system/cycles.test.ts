import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { it } from 'node:test'
import v8 from 'node:v8'
import vm from 'node:vm'
import { supervise } from '../../src/index.ts'
import { eventually } from '../child-fixture.ts'

const CYCLES = 500
const MIB = 1024 * 1024

const counts = (): { fds: number; handles: number } => ({
  fds: readdirSync('/proc/self/fd').length,
  handles: process.getActiveResourcesInfo().length,
})

v8.setFlagsFromString('--expose-gc')
const collectGarbage = vm.runInNewContext('gc') as () => void

/** What is reachable, not what the allocator has kept for later. */
function memoryInUse(): number {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

it(`${CYCLES} crashes and restarts leave descriptors, timers, listeners and memory flat`, async (t) => {
  if (process.platform !== 'linux') return t.skip('needs /proc')
  const child = supervise({
    command: 'sh',
    args: ['-c', 'echo up; echo "CUDA error: an illegal memory access was encountered" >&2; read -r _; exit 1'],
    ready: { kind: 'line', pattern: /^up$/ },
    limits: { backoffMs: 0, failuresMax: 1_000_000 },
  })
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
  for (let warm = 0; warm < 50; warm += 1) await cycle()
  await child.ready()
  const before = { ...counts(), memory: memoryInUse() }
  for (let count = 0; count < CYCLES; count += 1) await cycle()
  await child.ready()
  assert.equal(faults, CYCLES + 50)
  // The pipes of the last run close in their own time.
  await eventually(() => counts().fds <= before.fds, `as few descriptors as the ${before.fds} before`)
  await eventually(() => counts().handles <= before.handles, `as few handles as the ${before.handles} before`)
  const growth = memoryInUse() - before.memory
  assert.ok(growth < 8 * MIB, `memory grew by ${Math.round(growth / 1024)} KiB`)
  assert.deepEqual(warnings, [], 'no listener leak was reported')
  await child.stop()
  process.off('warning', onWarning)
  const left = process.getActiveResourcesInfo()
  assert.deepEqual(
    left.filter((name) => name === 'Timeout'),
    [],
  )
  assert.equal(left.filter((name) => name === 'ProcessWrap').length, 1, 'only the reaper stays')
})
