import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { it } from 'node:test'
import { supervise } from '../../src/index.ts'

const CYCLES = 500
const MIB = 1024 * 1024

const counts = (): { fds: number; handles: readonly string[] } => ({
  fds: readdirSync('/proc/self/fd').length,
  handles: process.getActiveResourcesInfo().toSorted(),
})

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
  global.gc?.()
  const before = { ...counts(), rss: process.memoryUsage().rss }
  for (let count = 0; count < CYCLES; count += 1) await cycle()
  await child.ready()
  global.gc?.()
  const after = { ...counts(), rss: process.memoryUsage().rss }
  assert.equal(faults, CYCLES + 50)
  assert.ok(Math.abs(after.fds - before.fds) <= 2, `${before.fds} descriptors became ${after.fds}`)
  assert.deepEqual(after.handles, before.handles)
  assert.ok(after.rss - before.rss < 48 * MIB, `memory grew by ${Math.round((after.rss - before.rss) / MIB)} MiB`)
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
