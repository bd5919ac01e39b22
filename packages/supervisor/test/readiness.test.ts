import assert from 'node:assert/strict'
import http from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { describe, it } from 'node:test'
import { supervise, type SuperviseSpec } from '../src/index.ts'
import { HAS_PROCESS_TABLE } from '../src/platform.ts'
import { probeDrivenClock, faultBy, manualClock, program, QUICK, untilState } from './child-fixture.ts'

const LISTENER = 'require("node:net").createServer().listen(+process.argv[1], "127.0.0.1")'
const EVERY_MS = 10

/** The child prints "up" when it listens; no time passes for its start before that. */
function fromUp(passesMs: number): Required<Pick<SuperviseSpec, 'clock' | 'onLine'>> {
  const up = Promise.withResolvers<void>()
  return { clock: probeDrivenClock(EVERY_MS, passesMs, up.promise), onLine: () => up.resolve() }
}

async function foreignServer(status = 200): Promise<{ port: number; asked: () => number; close: () => void }> {
  let asked = 0
  const server = http.createServer((_, response) => {
    asked += 1
    response.writeHead(status).end('I am somebody else')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { port, asked: () => asked, close: () => server.close() }
}

describe('readiness', () => {
  it('is not proven by another process that answers on the port', async () => {
    const other = await foreignServer()
    const ready = { kind: 'http', url: `http://127.0.0.1:${other.port}/health`, everyMs: EVERY_MS } as const
    const limits = { ...QUICK, startMsMax: 300, failuresMax: 1 }
    const clock = probeDrivenClock(EVERY_MS, 100)
    const child = supervise({ command: program('never-gets-ready.sh'), ready, stdin: 'ignore', limits, clock })
    const fault = await faultBy(child.start())
    assert.equal(fault.category, 'process_hung')
    assert.match(fault.error, /did not become ready in time \(another process answers on port \d+\)/)
    assert.ok(other.asked() > 0)
    other.close()
  })

  it('is proven by our process when it listens', async () => {
    const other = await foreignServer()
    const { port } = other
    other.close()
    const ready = { kind: 'tcp', port, everyMs: EVERY_MS } as const
    await using child = supervise({
      command: process.execPath,
      args: ['-e', LISTENER, `${port}`],
      ready,
      limits: QUICK,
    })
    await child.start()
    assert.equal(child.state.status, 'ready')
  })

  it('is not proven by another process on the same port of another address', async () => {
    const other = await foreignServer()
    const ready = { kind: 'http', url: `http://127.0.0.1:${other.port}/`, everyMs: EVERY_MS } as const
    const limits = { ...QUICK, startMsMax: 300, failuresMax: 1 }
    const listener =
      'require("node:http").createServer((_, r) => r.end()).listen(+process.argv[1], "::1", () => console.log("up"))'
    const args = ['-e', listener, `${other.port}`]
    // The start reaches its limit only after our child listens on ::1 with the same port.
    const child = supervise({ command: process.execPath, args, ready, stdin: 'ignore', limits, ...fromUp(100) })
    const fault = await faultBy(child.start())
    assert.deepEqual(child.report?.stdoutTail, ['up'])
    assert.match(fault.error, /another process answers on port/)
    other.close()
  })

  for (const address of ['0.0.0.0', '::']) {
    it(`is proven by our process when it listens on ${address}`, async () => {
      const other = await foreignServer()
      other.close()
      const ready = { kind: 'tcp', port: other.port, everyMs: EVERY_MS } as const
      const args = ['-e', `require("node:net").createServer().listen(${other.port}, "${address}")`]
      await using child = supervise({ command: process.execPath, args, ready, limits: QUICK })
      await child.start()
      assert.equal(child.state.status, 'ready')
    })
  }

  it('is awaited while our process says that it is not ready yet, but not while another process says so', async () => {
    const script =
      'require("node:http").createServer((_, r) => r.writeHead(503).end()).listen(+process.argv[1], "127.0.0.1", () => console.log("up"))'
    const other = await foreignServer(503)
    const free = await foreignServer()
    free.close()
    const spec = (port: number): SuperviseSpec => ({
      command: process.execPath,
      args: ['-e', port === other.port ? 'console.log("up"); setInterval(() => {}, 1000)' : script, `${port}`],
      ready: { kind: 'http', url: `http://127.0.0.1:${port}/`, everyMs: EVERY_MS },
      limits: { ...QUICK, startMsMax: 1_000, startTotalMsMax: 5_000, failuresMax: 1 },
      ...fromUp(250),
    })
    const waits = supervise(spec(free.port))
    const fault = await faultBy(waits.start())
    assert.ok((waits.report?.uptimeMs ?? 0) > 4_500, 'up to the total limit')
    assert.match(fault.error, /returned 503/)
    const pretends = supervise(spec(other.port))
    await faultBy(pretends.start())
    assert.ok((pretends.report?.uptimeMs ?? 0) < 3_000, 'up to the limit of a start that shows nothing')
    other.close()
  })

  it('is still awaited after this process was suspended', async () => {
    const clock = manualClock()
    await using child = supervise({
      command: program('loads-slowly.sh'),
      ready: { kind: 'line', pattern: /^ready$/ },
      onLine: () => {
        clock.jump(100_000)
        void child.write('\n')
      },
      limits: { startMsMax: 400, startTotalMsMax: 1_000 },
      clock,
    })
    await child.start()
    assert.equal(child.report, null, 'it was not started twice')
  })

  it('is awaited beyond the limit while the child makes progress', async () => {
    const clock = manualClock()
    let lines = 0
    await using child = supervise({
      command: program('loads-slowly.sh'),
      ready: { kind: 'line', pattern: /^ready$/ },
      onLine: () => {
        lines += 1
        clock.advance(lines < 9 ? 300 : 0) // each line takes three quarters of the limit
        void child.write('\n')
      },
      limits: { startMsMax: 400 },
      clock,
    })
    await child.start()
    assert.equal(clock.now(), 2_400)
    assert.equal(child.report, null, 'it was not started twice')
  })

  it(
    'is awaited beyond every limit while the memory of the child moves, although it prints nothing',
    { skip: HAS_PROCESS_TABLE ? false : 'this system shows no vital signs' },
    async () => {
      const clock = manualClock()
      // Nothing but the memory of the child moves from one eighth of the limit to the next.
      const loader = createServer((socket) => {
        socket.on('data', () => {
          clock.advance(50)
          socket.write('.')
        })
      })
      await new Promise<void>((resolve) => loader.listen(0, '127.0.0.1', resolve))
      await using child = supervise({
        command: process.execPath,
        args: [program('loads-silently.ts'), `${(loader.address() as AddressInfo).port}`],
        ready: { kind: 'line', pattern: /^ready$/ },
        limits: { startMsMax: 400, startTotalMsMax: 500 },
        clock,
      })
      await child.start()
      loader.close()
      assert.equal(clock.now(), 950)
      assert.equal(child.report, null, 'it was not started twice')
    },
  )

  it('is not awaited beyond the total limit, whatever the child prints', async () => {
    const clock = manualClock()
    const child = supervise({
      command: program('loads-slowly.sh'),
      ready: { kind: 'line', pattern: /^never$/ },
      onLine: () => {
        clock.advance(300)
        child.write('\n').catch(() => undefined) // it is being ended
      },
      limits: { startMsMax: 400, startTotalMsMax: 1_000, failuresMax: 1 },
      clock,
    })
    await faultBy(child.start())
    assert.deepEqual([child.report?.kind, child.report?.endedBy], ['hung', 'start_limit'])
  })

  it('that never comes makes the child hung, and it is ended and restarted', async () => {
    const ready = { kind: 'notify' } as const
    const limits = { ...QUICK, startMsMax: 100 }
    await using child = supervise({ command: program('never-gets-ready.sh'), ready, stdin: 'ignore', limits })
    const fault = await faultBy(child.start())
    assert.equal(fault.category, 'process_hung')
    assert.equal(fault.report.next, 'restart')
    assert.equal((await untilState(child, 'starting')).attempt, 2)
  })

  it('can be a function of the caller, and throwing means no', async () => {
    let asked = 0
    const probe = (): boolean => {
      asked += 1
      if (asked < 3) throw new Error('not yet')
      return true
    }
    const ready = { kind: 'probe', probe, everyMs: 5 } as const
    await using child = supervise({ command: program('never-gets-ready.sh'), ready, stdin: 'ignore', limits: QUICK })
    await child.start()
    assert.equal(asked, 3)
  })
})

describe('a health check', () => {
  it('that fails several times in a row ends the child as unhealthy, but not if it recovers', async () => {
    let ok = true
    let asked = 0
    const probe = (): boolean => {
      asked += 1
      return ok || asked % 2 === 0
    }
    const alive = { kind: 'probe', probe, everyMs: 5, failuresMax: 3 } as const
    await using child = supervise({ command: program('never-gets-ready.sh'), alive, stdin: 'ignore', limits: QUICK })
    await child.start()
    ok = false
    while (asked < 20) await new Promise((resolve) => setTimeout(resolve, 5))
    assert.equal(child.state.status, 'ready', 'every second answer is good')
    const dead = { ...alive, probe: () => false }
    await using other = supervise({
      command: program('never-gets-ready.sh'),
      alive: dead,
      stdin: 'ignore',
      limits: QUICK,
    })
    await other.start()
    const { report, fault } = await untilState(other, 'failed')
    assert.deepEqual([report.kind, fault.category], ['unhealthy', 'process_hung'])
  })
})
