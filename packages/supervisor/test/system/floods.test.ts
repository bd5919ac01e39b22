import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { type ExitReport, supervise } from '../../src/index.ts'
import { program, untilState } from '../child-fixture.ts'

const MIB = 1024 * 1024

async function run(
  name: string,
  ...args: readonly string[]
): Promise<{ report: ExitReport; growth: number; lagMs: number }> {
  global.gc?.()
  const before = process.memoryUsage().rss
  let peak = before
  const lag = monitorEventLoopDelay({ resolution: 5 })
  lag.enable()
  const child = supervise({
    command: process.execPath,
    args: [program(name), ...args],
    stdin: 'ignore',
    limits: { failuresMax: 1, fatalMs: 60_000 },
  })
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss)
  }, 20)
  await child.start()
  const { report } = await untilState(child, 'given_up')
  clearInterval(watch)
  lag.disable()
  return { report, growth: Math.max(peak, process.memoryUsage().rss) - before, lagMs: lag.percentile(99) / 1e6 }
}

describe('a flood on stderr', () => {
  for (const where of ['newline', 'flood']) {
    it(`of 300 MB without a newline costs under 64 MB, and a signature after the ${where} matches`, async () => {
      const { report, growth } = await run('floods-stderr.ts', '300', where)
      assert.ok(growth < 64 * MIB, `grew by ${Math.round(growth / MIB)} MiB`)
      assert.equal(report.diagnoses[0]?.id, 'exo.ring_abort')
      const shown = report.stderrTail.reduce((sum, line) => sum + Buffer.byteLength(line), 0)
      const sent = 300 * MIB + '[ring] Too many send/recv errors. Aborting...'.length
      assert.ok(Math.abs(report.droppedBytes + shown - sent) < 20, 'every byte is kept or counted')
    })
  }

  it('of a million lines keeps the first and the last, finds the cause in between, and does not block the event loop', async () => {
    const { report, growth, lagMs } = await run('floods-lines.ts')
    assert.ok(growth < 64 * MIB, `grew by ${Math.round(growth / MIB)} MiB`)
    assert.equal(report.stderrTail[0], 'line 1')
    assert.equal(report.stderrTail.at(-1), 'line 1000000')
    assert.equal(report.diagnoses[0]?.id, 'cuda.illegal_memory')
    assert.ok(lagMs < 1_000, `the event loop was held up for ${lagMs} ms`) // a guard against a stop, not a measurement
  })
})
