import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { systemClock } from '../src/clock.ts'
import { type ExitReport, supervise } from '../src/index.ts'
import { livingProcesses } from '../src/process-table.ts'
import { eventually, manualClock, isAlive, program, QUICK, untilState } from './child-fixture.ts'

const stopped = async (args: string, limits: { stdinMs?: number; termMs?: number } = {}): Promise<ExitReport> => {
  const ready = { kind: 'line', pattern: /^up$/ } as const
  const child = supervise({ command: 'sh', args: ['-c', args], ready, limits: { ...QUICK, ...limits } })
  await child.start()
  const report = await child.stop()
  assert.ok(report !== null)
  assert.equal(child.state.status, 'stopped')
  return report
}

const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return '' // gone
  }
}

describe('the stop ladder', () => {
  it('goes in order, each step within its limit: end of input, SIGTERM, SIGKILL', async () => {
    const waits: number[] = []
    const clock = {
      ...systemClock,
      after: (ms: number, then: () => void) => {
        waits.push(ms)
        return systemClock.after(ms, then)
      },
    }
    const limits = { ...QUICK, stdinMs: 101, termMs: 102, killMs: 10_003, drainMs: 10_004 }
    const ready = { kind: 'line', pattern: /^up$/ } as const
    const child = supervise({ command: program('ignores-sigterm.sh'), ready, limits, clock })
    await child.start()
    waits.length = 0
    const report = await child.stop()
    assert.deepEqual(
      waits.filter((ms) => ms > 100 && ms < 20_000),
      [101, 102, 10_003, 10_004],
    )
    assert.deepEqual(
      [report?.signal, report?.forced, report?.expected, report?.endedBy],
      ['SIGKILL', true, true, 'stop'],
    )
  })

  it('sends no signal to a child that exits at the end of its input', async () => {
    const report = await stopped('echo up; read -r _; exit 7', { stdinMs: 60_000 })
    assert.deepEqual([report.code, report.forced, report.expected], [7, false, true])
  })

  it('accepts SIGTERM, exit 0 and exit 143 alike as the requested end', async () => {
    for (const script of [
      'echo up; sleep 60',
      'trap "exit 0" TERM; echo up; while :; do sleep 0.05; done',
      'trap "exit 143" TERM; echo up; while :; do sleep 0.05; done',
    ]) {
      const report = await stopped(script, { stdinMs: 0, termMs: 60_000 })
      assert.deepEqual([report.expected, report.forced, report.restart.decision], [true, false, 'none'])
    }
  })

  it('reaches the whole group', async () => {
    let grandchild = 0
    const child = supervise({
      command: 'sh',
      args: ['-c', 'sleep 60 & echo "grandchild $!"; wait'],
      ready: { kind: 'line', pattern: /grandchild/ },
      onLine: (line) => {
        grandchild = Number(line.split(' ')[1])
      },
      stdin: 'ignore',
      limits: QUICK,
    })
    await child.start()
    assert.ok(isAlive(grandchild))
    await child.stop()
    await eventually(() => !isAlive(grandchild), 'the end of the grandchild')
  })
})

describe('what a child leaves behind', () => {
  it('cannot delay the report beyond the drain limit by holding the pipes, and is ended', async () => {
    const limits = { ...QUICK, drainMs: 200, failuresMax: 1 }
    const child = supervise({ command: program('forks-and-exits.sh'), limits })
    await child.start()
    const { report } = await untilState(child, 'given_up')
    const grandchild = Number(/grandchild (\d+)/.exec(report.stdoutTail.join())?.[1])
    assert.equal(report.code, 3)
    assert.equal(report.drainCut, true)
    assert.ok(report.survivors.includes(grandchild), 'it is named')
    await eventually(() => !isAlive(grandchild), 'its end')
  })

  it('is found and named even if it left its session', { skip: process.platform !== 'linux' }, async () => {
    const limits = { ...QUICK, failuresMax: 1 }
    const child = supervise({ command: program('escapes-its-session.sh'), limits })
    await child.start()
    const { report } = await untilState(child, 'given_up')
    const escapee = Number(/escapee (\d+)/.exec(report.stdoutTail.join())?.[1])
    assert.ok(report.survivors.includes(escapee), `${report.survivors.join()} has ${escapee}`)
    await eventually(() => !isAlive(escapee), 'its end')
  })

  for (const how of ['stop', 'crash'] as const) {
    it(
      `is found after a ${how} even if it has cleared its environment too`,
      { skip: process.platform !== 'linux' },
      async () => {
        const clock = manualClock()
        await using child = supervise({
          command: 'sh',
          args: ['-c', 'env -i setsid sleep 60 > /dev/null 2>&1 & echo up; read -r _; exit 1'],
          ready: { kind: 'line', pattern: /^up$/ },
          channel: 'none', // the escapee would hold it
          limits: { ...QUICK, failuresMax: 1 },
          ...(how === 'stop' ? {} : { clock }),
        })
        await child.start()
        const { pid } = child
        const escaped = (): boolean =>
          livingProcesses().some(
            (entry) => entry.ppid === pid && entry.session === entry.pid && commandOf(entry.pid).startsWith('sleep'),
          )
        await eventually(escaped, 'the escape')
        clock.advance(1_000) // a look at the family, while its parents live
        if (how === 'stop') await child.stop()
        else await Promise.all([untilState(child, 'given_up'), child.write('\n')])
        assert.equal(child.report?.forced, false)
        assert.equal(child.report?.survivors.length, 1)
        await eventually(() => !isAlive(child.report?.survivors[0] ?? 0), 'its end')
      },
    )
  }

  it('is also found and named after a stop', { skip: process.platform !== 'linux' }, async () => {
    const ready = { kind: 'line', pattern: /^up$/ } as const
    const child = supervise({ command: program('keeps-an-escapee.sh'), ready, stdin: 'ignore', limits: QUICK })
    await child.start()
    const report = await child.stop()
    assert.ok((report?.survivors.length ?? 0) > 0)
    for (const pid of report?.survivors ?? []) await eventually(() => !isAlive(pid), 'its end')
  })
})
