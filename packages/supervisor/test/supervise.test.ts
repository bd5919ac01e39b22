import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Fault } from '@breakfall/faults'
import { CHANNEL_ENV } from '../src/channel.ts'
import { type ChildEvent, type Diagnosis, supervise } from '../src/index.ts'
import { eventually, faultBy, manualClock, isAlive, program, QUICK, untilState } from './child-fixture.ts'

const UP = { kind: 'line', pattern: /^up$/ } as const

describe('a child that fails', () => {
  it('with three requests in flight gives each of them one typed fault before the state says failed', async () => {
    await using child = supervise({ command: program('exits-0-unasked.sh'), ready: UP, limits: QUICK })
    await child.start()
    const requests = ['a', 'b', 'c'].map((id) => child.request({ id }))
    requests[0]?.sent()
    const told: string[] = []
    const faults: Fault[] = []
    for (const request of requests) {
      request.signal.addEventListener('abort', () => {
        told.push(request.id)
        faults.push(request.signal.reason as Fault)
      })
    }
    child.on((event) => {
      if (event.type === 'state') told.push(event.state.status)
    })
    const failed = untilState(child, 'failed')
    await child.write('\n')
    const { report } = await failed
    assert.deepEqual(told.slice(0, 4), ['a', 'b', 'c', 'failed'])
    assert.deepEqual(report.inFlight, ['a', 'b', 'c'])
    assert.deepEqual([report.code, report.kind, report.expected, report.phase], [0, 'exited', false, 'busy'])
    assert.deepEqual(
      faults.map((fault) => fault.category),
      ['process_failed', 'process_failed', 'process_failed'],
    )
    assert.deepEqual(
      faults.map((fault) => fault.report.sideEffects),
      ['unknown', 'none', 'none'],
    )
    assert.deepEqual(
      faults.map((fault) => fault.report.requestId),
      ['a', 'b', 'c'],
    )
    assert.equal((await requests[1]?.failed)?.category, 'process_failed')
    requests[0]?.done()
    await untilState(child, 'ready')
    assert.equal(told.filter((entry) => entry === 'a').length, 1)
  })

  it('while starting rejects the start at once, with the cause as the headline', async () => {
    const ready = { kind: 'line', pattern: /never/ } as const
    await using child = supervise({ command: program('buries-the-cause.sh'), ready, limits: QUICK })
    const fault = await faultBy(child.start())
    assert.equal(fault.category, 'process_failed')
    assert.equal(fault.report.phase, 'starting')
    assert.match(fault.error, /exited with code 1 while it was starting after .*: The GPU is out of memory/)
    assert.deepEqual(
      fault.report.diagnostics.map((entry) => entry.id),
      ['torch.cuda_oom', 'vllm.core_init_failed', 'mcp.connection_closed'],
    )
    assert.equal(child.report?.restart.because, 'needs_change')
  })

  it('again and again is given up as a crash loop with the last cause, and restarts only on request', async () => {
    await using child = supervise({ command: program('crashes-at-once.sh'), ready: UP, limits: QUICK })
    const delays: (number | null)[] = []
    child.on((event) => {
      if (event.type === 'exit') delays.push(event.report.restart.delayMs)
    })
    const first = await faultBy(child.start())
    assert.match(first.error, / It restarts as long as this program runs\.$/, 'promises no time for the restart')
    const state = await untilState(child, 'given_up')
    assert.equal(state.reason, 'crash_loop')
    assert.equal(state.fault.category, 'crash_loop')
    assert.match(state.fault.error, /internal assertion/)
    assert.equal(delays.length, 5)
    assert.equal(delays.at(-1), null)
    assert.equal((await faultBy(child.ready())).category, 'crash_loop')
    const again = await faultBy(child.start())
    assert.equal(again.category, 'process_failed')
    assert.equal(child.report?.restart.windowCount, 1, 'a start that was asked for forgives what was')
  })

  it('can send its termination error on fd 3, next to code, phase and tails', async () => {
    const progress: string[] = []
    await using child = supervise({
      command: process.execPath,
      args: [program('sends-termination-error.ts')],
      ready: { kind: 'notify' },
      limits: { ...QUICK, failuresMax: 1 },
    })
    child.on((event) => {
      if (event.type === 'progress') progress.push(event.message)
    })
    const fault = await faultBy(child.start())
    assert.deepEqual(child.report?.terminationError, {
      name: 'RangeError',
      message: 'layer 7 is out of range',
      stack: 'RangeError\n  at x',
    })
    assert.deepEqual(progress, ['loading 6 of 48'])
    assert.match(fault.error, /RangeError: layer 7 is out of range/)
    assert.deepEqual([child.report?.code, child.report?.phase], [1, 'starting'])
  })

  it('without a private channel does not inherit the one of its supervisor', async (t) => {
    process.env[CHANNEL_ENV] = '3'
    t.after(() => delete process.env[CHANNEL_ENV])
    const args = ['-c', `echo "line: $${CHANNEL_ENV}"; exit 1`]
    await using child = supervise({ command: 'sh', args, channel: 'none', limits: { ...QUICK, failuresMax: 1 } })
    await child.start()
    assert.deepEqual((await untilState(child, 'given_up')).report.stdoutTail, ['line: '])
  })

  it('can send its termination error over IPC', async () => {
    await using child = supervise({
      command: process.execPath,
      args: [program('sends-termination-error.ts')],
      channel: 'ipc',
      ready: { kind: 'notify' },
      limits: { ...QUICK, failuresMax: 1 },
    })
    await child.start()
    const { report } = await untilState(child, 'given_up')
    assert.equal(report.terminationError?.message, 'layer 7 is out of range')
  })

  it('because of a SIGKILL from outside is signaled, with advice about memory', async () => {
    await using child = supervise({ command: program('never-gets-ready.sh'), limits: QUICK })
    await child.start()
    process.kill(child.pid ?? 0, 'SIGKILL')
    const { report } = await untilState(child, 'failed')
    assert.deepEqual([report.kind, report.signal, report.expected], ['signaled', 'SIGKILL', false])
    assert.match(report.diagnoses[0]?.advice ?? '', /memory/)
  })

  it('inside a shell shows the signal of the inner program', async () => {
    const args = ['-c', 'sh -c "kill -SEGV \\$\\$"; exit $?']
    await using child = supervise({ command: 'sh', args, limits: { ...QUICK, failuresMax: 1 } })
    await child.start()
    const { report } = await untilState(child, 'given_up')
    assert.deepEqual([report.signal, report.rawCode], ['SIGSEGV', 139])
  })

  it('reveals no secret, neither from its environment nor of a known shape', async () => {
    const env = { SERVICE_API_KEY: 'hunter2-hunter2' }
    await using child = supervise({ command: program('leaks-secrets.sh'), env, limits: { ...QUICK, failuresMax: 1 } })
    const events: ChildEvent[] = []
    child.on((event) => events.push(event))
    await child.start()
    await untilState(child, 'given_up')
    const said = JSON.stringify(events)
    assert.match(said, /heap_oom_reached/)
    for (const secret of ['hunter2', 'abcdefghijklmnop', 'MIIEvQIBADANBgkqhkiG9w0BAQEFAASC']) {
      assert.ok(!said.includes(secret), secret)
    }
  })

  it('reveals no inherited secret, not even in the name of its termination error', async (t) => {
    process.env['SERVICE_API_KEY'] = 'correct-horse-battery'
    t.after(() => delete process.env['SERVICE_API_KEY'])
    const words = `{"type":"termination-error","name":"$SERVICE_API_KEY","message":"no"}`
    await using child = supervise({
      command: 'sh',
      args: [
        '-c',
        `echo "key $SERVICE_API_KEY" >&2; printf '%s' '${words}' | sed "s/[$]SERVICE_API_KEY/$SERVICE_API_KEY/" >&3; exit 1`,
      ],
      limits: { ...QUICK, failuresMax: 1 },
    })
    await child.start()
    const { report } = await untilState(child, 'given_up')
    assert.deepEqual(report.stderrTail, ['key [redacted]'])
    assert.equal(report.terminationError?.name, '[redacted]')
  })

  it('can be explained by a grandchild after its exit', async () => {
    await using child = supervise({
      command: program('prints-late.sh'),
      limits: { ...QUICK, drainMs: 60_000, failuresMax: 1 },
    })
    await child.start()
    const { report } = await untilState(child, 'given_up')
    assert.equal(report.diagnoses[0]?.id, 'llamacpp.cuda_oom_runtime')
    assert.equal(report.drainCut, false)
  })
})

describe('a child that is alive but useless', () => {
  for (const name of ['aborts-its-ring-but-lives-on.sh', 'hangs-mid-line.sh']) {
    it(`is ended for what it printed (${name})`, async () => {
      await using child = supervise({ command: program(name), ready: UP, stdin: 'ignore', limits: QUICK })
      const seen: Diagnosis[] = []
      child.on((event) => {
        if (event.type === 'diagnosis') seen.push(event.diagnosis)
      })
      await child.start()
      const request = child.request({ id: 'q' })
      request.sent()
      const fault = await request.failed
      assert.equal(child.report, null, 'told at once, while the process is still being ended')
      const { report } = await untilState(child, 'failed')
      assert.deepEqual([report.endedBy, report.kind, report.inFlight], ['fatal_signature', 'killed_by_us', ['q']])
      assert.ok(fault.report.diagnostics.some((entry) => entry.id === 'exo.ring_abort' && entry.count === 1))
      assert.ok(seen.some((entry) => entry.id === 'exo.ring_abort' && entry.fatal))
      assert.equal(fault.report.sideEffects, 'unknown')
    })
  }

  it('without progress on a request is hung, and without a request is left alone', async () => {
    const clock = manualClock()
    const limits = { ...QUICK, hungMs: 1_600 }
    await using child = supervise({ command: program('never-gets-ready.sh'), stdin: 'ignore', limits, clock })
    await child.start()
    const { pid } = child
    clock.advance(3_200)
    const busy = child.request({ id: 'busy' })
    for (let turn = 0; turn < 4; turn += 1) {
      clock.advance(1_400)
      busy.progress()
    }
    busy.done()
    assert.equal(child.state.status, 'ready')
    assert.equal(child.pid, pid)
    const silent = child.request({ id: 'silent' })
    clock.advance(1_600)
    const fault = await silent.failed
    assert.equal(fault.category, 'process_hung')
    const { report } = await untilState(child, 'failed')
    assert.deepEqual([report.kind, report.endedBy, report.inFlight], ['hung', 'no_progress', ['silent']])
    assert.match(fault.error, /made no progress on a request \(request silent\)/)
  })

  it('that closes its stdout is ended if stdout carries a protocol', async () => {
    const stdoutClosed = 'fail' as const
    await using child = supervise({
      command: program('closes-its-stdout.sh'),
      stdoutClosed,
      stdin: 'ignore',
      limits: QUICK,
    })
    await child.start()
    const { report } = await untilState(child, 'failed')
    assert.equal(report.endedBy, 'stdout_closed')
  })

  it('that stops reading its input fails the writer within the limit, and the buffer stays bounded', async () => {
    const limits = { ...QUICK, stdinStallMs: 150, stdinBytesMax: 2_000_000 }
    await using child = supervise({ command: program('stops-reading-its-input.sh'), ready: UP, limits })
    const start = child.start()
    await eventually(() => child.pid !== null, 'the process')
    await child.write('go\n')
    await start
    const stalled = faultBy(child.write(Buffer.alloc(1_500_000)))
    const refused = await faultBy(child.write(Buffer.alloc(1_500_000)))
    assert.equal(refused.category, 'process_hung')
    assert.equal((await stalled).category, 'process_hung')
    const { report } = await untilState(child, 'failed')
    assert.equal(report.endedBy, 'stdin_stalled')
  })
})

describe('start, stop and restart', () => {
  it('a oneshot that ends well is stopped, not failed', async () => {
    const child = supervise({ command: 'true', oneshot: true })
    await child.start()
    await untilState(child, 'stopped')
    assert.deepEqual([child.report?.code, child.report?.expected], [0, true])
  })

  it('a stop during starting ends in stopped, rejects the start and leaves no process', async () => {
    const child = supervise({ command: program('never-gets-ready.sh'), ready: UP, stdin: 'ignore', limits: QUICK })
    const start = faultBy(child.start())
    await eventually(() => child.pid !== null, 'the process')
    const pid = child.pid ?? 0
    await child.stop()
    assert.equal(child.state.status, 'stopped')
    assert.equal((await start).category, 'process_failed')
    assert.equal(isAlive(pid), false)
  })

  it('a stop at the same moment as the start starts nothing', async () => {
    const child = supervise({ command: program('never-gets-ready.sh'), ready: UP })
    const start = faultBy(child.start())
    await child.stop()
    await start
    assert.deepEqual([child.state.status, child.pid, child.report], ['stopped', null, null])
  })

  it('a stop during the backoff ends it at once', async () => {
    const limits = { ...QUICK, backoffMs: 1_000_000_000 }
    const clock = { ...(await import('../src/clock.ts')).systemClock, dice: () => 1 }
    const child = supervise({ command: program('crashes-at-once.sh'), ready: UP, limits, clock })
    await faultBy(child.start())
    assert.equal((await untilState(child, 'backoff')).attempt, 1)
    await child.stop()
    assert.equal(child.state.status, 'stopped')
  })

  it('two stops at once are one, and a start during stopping gives one new process', async () => {
    const child = supervise({
      command: program('ignores-sigterm.sh'),
      ready: { kind: 'line', pattern: /up/ },
      limits: { ...QUICK, stdinMs: 1, termMs: 1 },
    })
    await child.start()
    const first = child.pid
    const stops = [child.stop(), child.stop()]
    assert.equal(child.state.status, 'stopping')
    const starts = [child.start(), child.start()]
    const reports = await Promise.all(stops)
    await Promise.all(starts)
    assert.equal(reports[0], reports[1])
    assert.equal(child.state.status, 'ready')
    assert.notEqual(child.pid, first)
    assert.equal(isAlive(first ?? 0), false)
    await child.stop()
  })

  it('a request that a stop cuts off is cancelled, and says so', async () => {
    await using child = supervise({ command: program('prints-up-and-stays.sh'), ready: UP, limits: QUICK })
    await child.start()
    const request = child.request()
    await child.stop()
    const fault = await request.failed
    assert.equal(fault.category, 'cancelled')
    assert.match(fault.error, /^prints-up-and-stays\.sh was stopped on request after [\d.]+ m?s\.$/)
  })

  it('a requested restart is not a failure and has no backoff', async () => {
    const child = supervise({ command: program('exits-0-unasked.sh'), ready: UP, limits: QUICK })
    await child.start()
    const first = child.pid
    const states: string[] = []
    child.on((event) => {
      if (event.type === 'state') states.push(event.state.status)
    })
    await child.restart()
    assert.notEqual(child.pid, first)
    assert.deepEqual(states, ['stopping', 'starting', 'ready'])
    assert.equal(child.report?.endedBy, 'restart')
    await child.stop()
    await child.restart()
    assert.equal(child.state.status, 'ready', 'a restart of a stopped child is a start')
    await child.stop()
  })

  it('state changes are events, and requests make the child busy', async () => {
    const child = supervise({ command: program('exits-0-unasked.sh'), ready: UP, limits: QUICK })
    const over = new AbortController()
    const stream = child.events(over.signal)
    await child.start()
    const request = child.request()
    request.done()
    request.done()
    await child.stop()
    over.abort()
    const seen: string[] = []
    for await (const event of stream) seen.push(event.type === 'state' ? event.state.status : event.type)
    assert.deepEqual(seen, ['starting', 'ready', 'busy', 'ready', 'stopping', 'exit', 'stopped'])
  })

  it('a request to a child that is not ready is refused with a fault', async () => {
    const child = supervise({ command: 'true' })
    assert.throws(() => child.request(), /is not running \(stopped\)/)
    assert.equal((await faultBy(child.write('x'))).category, 'process_failed')
    assert.equal((await faultBy(child.ready())).category, 'process_failed')
  })

  it('ready() waits through restarts, and ends with its signal', async () => {
    const command = program('exits-0-unasked.sh')
    await using child = supervise({ command, ready: UP, limits: QUICK })
    await child.start()
    const failed = untilState(child, 'failed')
    await child.write('\n')
    await failed
    await child.ready()
    assert.equal(child.state.status, 'ready')
    await using never = supervise({
      command: program('never-gets-ready.sh'),
      ready: UP,
      stdin: 'ignore',
      limits: QUICK,
    })
    const start = faultBy(never.start())
    assert.equal((await faultBy(never.ready(AbortSignal.abort()))).category, 'cancelled')
    await never.stop()
    await start
  })
})
