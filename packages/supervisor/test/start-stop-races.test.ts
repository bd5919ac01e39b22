// Calls at awkward moments: from the supervisor's own listeners, during a failure, while a hook hangs.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Supervised, supervise, type SuperviseSpec } from '../src/index.ts'
import type { Launch } from '../src/spec.ts'
import { partlyManualClock, eventually, faultBy, QUICK, untilState } from './child-fixture.ts'

const UP = { kind: 'line', pattern: /^up$/ } as const
const STAYS = 'echo up; read -r _; exit 1'

const shell = (script: string, more: Partial<SuperviseSpec> = {}): Supervised =>
  supervise({ command: 'sh', args: ['-c', script], ready: UP, limits: QUICK, ...more })

describe('a call at an awkward moment', () => {
  it('start after a stop does not skip the next backoff', async () => {
    const clock = { ...partlyManualClock(30_000), dice: () => 1 } // no backoff ends unless told
    const child = shell(STAYS, { clock, limits: { ...QUICK, backoffMs: 30_000 } })
    await child.start()
    await child.stop()
    await child.start()
    const waiting = untilState(child, 'backoff')
    await child.write('\n')
    await waiting
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    assert.equal(child.state.status, 'backoff')
    await child.stop()
    assert.equal(child.state.status, 'stopped')
  })

  it('stop does not wait for a launch hook that hangs', async () => {
    const child = shell(STAYS, { launch: async () => new Promise<never>(() => undefined) })
    const started = faultBy(child.start())
    await untilState(child, 'starting')
    assert.equal(await child.stop(), null)
    assert.equal(child.state.status, 'stopped')
    assert.match((await started).error, /is not running/)
  })

  it('start, called by a listener that sees given_up, is about the new run', async () => {
    const child = shell('exit 1', { limits: { ...QUICK, failuresMax: 1 } })
    const again = new Promise<string | undefined>((resolve) => {
      const off = child.on((event) => {
        if (event.type !== 'state' || event.state.status !== 'given_up') return
        off()
        const { runId } = event.state.report
        void faultBy(child.start()).then(() => resolve(child.report?.runId === runId ? 'the old run' : 'the new run'))
      })
    })
    await faultBy(child.start())
    assert.equal(await again, 'the new run')
    await child.stop()
  })

  it('restart, called by a listener that sees ready, is about the new run', async () => {
    await using child = shell(STAYS)
    let restarted: Promise<void> | undefined
    child.on((event) => {
      if (event.type === 'state' && event.state.status === 'ready') restarted ??= child.restart()
    })
    await child.start()
    await restarted
    assert.equal(child.state.status, 'ready')
    assert.equal(child.report?.endedBy, 'restart')
  })

  it('stop, called by a listener that sees the last failure, ends in stopped', async () => {
    const child = shell('exit 1', { limits: { ...QUICK, failuresMax: 1 } })
    let stopped: Promise<unknown> | undefined
    child.on((event) => {
      if (event.type === 'exit') stopped = child.stop()
    })
    await faultBy(child.start())
    await stopped
    assert.equal(child.state.status, 'stopped')
  })

  for (const method of ['start', 'restart'] as const) {
    it(`${method}, called between an exit and its report, is about the next run`, async () => {
      const clock = partlyManualClock(QUICK.drainMs)
      const runs = [`(sleep 60) & ${STAYS}`, STAYS] // somebody holds the pipes of the first, so its report takes its time
      const launch = (): Launch => ({ args: ['-c', runs.shift() ?? 'exit 1'] })
      await using child = shell('', { clock, launch })
      await child.start()
      await child.write('\n')
      await eventually(() => !child.serving, 'the exit')
      assert.equal(child.state.status, 'ready', 'nothing is said yet')
      const called = child[method]()
      clock.advance(QUICK.drainMs)
      await called
      assert.equal(child.state.status, 'ready')
      assert.equal(child.report?.code, 1)
    })
  }
})

describe('a hook of the caller that throws', () => {
  it('does not affect the child: the error is thrown outside', async (t) => {
    const thrown: string[] = []
    const onThrown = (error: Error): number => thrown.push(error.message)
    // The test runner listens for this too; it must not for a moment.
    const others = process.listeners('uncaughtException')
    process.removeAllListeners('uncaughtException')
    process.on('uncaughtException', onThrown)
    t.after(() => {
      process.off('uncaughtException', onThrown)
      for (const other of others) process.on('uncaughtException', other)
    })
    const lines: string[] = []
    const child = shell('echo one; echo up; read -r _; exit 1', {
      limits: { ...QUICK, failuresMax: 1 },
      onLine: (line) => {
        lines.push(line)
        throw new Error(`onLine ${line}`)
      },
      onStdout: () => {
        throw new Error('onStdout')
      },
      mayRestart: () => {
        throw new Error('mayRestart')
      },
    })
    await child.start()
    await child.write('\n')
    const { reason, report } = await untilState(child, 'given_up')
    await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual([reason, report.code], ['crash_loop', 1])
    assert.deepEqual(lines, ['one', 'up'])
    assert.deepEqual(new Set(thrown), new Set(['onStdout', 'onLine one', 'onLine up', 'mayRestart']))
  })
})

describe('input', () => {
  it('beyond the buffer limit is refused as too large, not blamed on a hanging child', async () => {
    await using child = shell('echo up; cat > /dev/null', { limits: { ...QUICK, stdinBytesMax: 1_000 } })
    await child.start()
    const fault = await faultBy(child.write('x'.repeat(1_001)))
    assert.equal(fault.category, 'payload_too_large')
    assert.match(fault.error, /1001 bytes .*limits\.stdinBytesMax is 1000/)
    await child.write('x'.repeat(1_000))
    assert.equal(child.state.status, 'ready')
  })

  it('to a child that is being stopped is refused without promising a restart', async () => {
    const limits = { ...QUICK, stdinMs: 1, termMs: 1 }
    await using child = shell('echo up; trap "" TERM; while :; do sleep 0.05; done', { limits })
    await child.start()
    const stopped = child.stop()
    const fault = await faultBy(child.write('x'))
    assert.match(fault.error, /^sh does not accept input/)
    await stopped
  })
})

it('the event iterator accepts concurrent calls of next', async () => {
  await using child = shell(STAYS)
  const events = child.events()
  const both = Promise.all([events.next(), events.next()])
  await child.start()
  const states = (await both).map(({ value }) => (value?.type === 'state' ? value.state.status : undefined))
  assert.deepEqual(states, ['starting', 'ready'])
  await events.return?.()
})
