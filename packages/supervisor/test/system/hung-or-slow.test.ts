/** A server that hangs is ended and restarted; a server that is only slow is left alone. Real children. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { HAS_PROCESS_TABLE } from '../../src/platform.ts'
import { type ModelServer, type ModelServerSpec, serveModel } from '../../src/index.ts'
import { eventually, faultBy, isAlive, program, QUICK, untilState } from '../child-fixture.ts'

/** A server without any sign of life is detected within two seconds. */
const HEALTH = { everyMs: 100, timeoutMs: 250, failuresMax: 4 } as const
/** A slow one gets time to use some of the CPU between four probes, also on a busy machine. */
const PATIENT = { health: { ...HEALTH, everyMs: 300 } } as const
const LIMITS = { ...QUICK, quietMs: 200, stillMs: 60_000 } as const
const OPTIONS = { concurrency: 3, skip: HAS_PROCESS_TABLE ? false : 'this system shows no vital signs' } as const
const SLOW_MS = 3_000

function server(how: string, more: Partial<ModelServerSpec> = {}, slowMs = SLOW_MS): ModelServer {
  return serveModel({
    name: 'llama-server',
    command: process.execPath,
    args: ({ port }) => [program('hangs-or-is-slow.ts'), `${port}`, how, `${slowMs}`],
    limits: LIMITS,
    health: HEALTH,
    ...more,
  })
}

/** Half a second between probes, for the probes themselves not to count as work. */
const SPARSE = {
  limits: { ...LIMITS, quietMs: 2_000, stillMs: 2_500 },
  health: { everyMs: 500, timeoutMs: 5_000 },
} as const

const answer = async (model: ModelServer): Promise<string> => (await model.fetch('/answer')).text()

describe('a server that hangs', OPTIONS, () => {
  for (const how of ['stops', 'half-stops', 'blocks', 'half-blocks']) {
    it(`and no longer answers its health check is ended and restarted (${how})`, async () => {
      await using model = server(how)
      await model.start()
      const { pid } = model.supervised
      const fault = await faultBy(answer(model))
      assert.equal(fault.category, 'process_hung')
      assert.match(fault.error, /^llama-server stopped answering its health check \(no answer within/)
      assert.equal(fault.report.sideEffects, 'none')
      await model.ready()
      assert.notEqual(model.supervised.pid, pid)
      assert.ok(!isAlive(pid ?? 0))
    })
  }

  it('and still answers its health check is ended when nothing has moved for long enough', async () => {
    await using model = server('half-forgets', SPARSE)
    await model.start()
    const fault = await faultBy(answer(model))
    assert.equal(fault.category, 'process_hung')
    assert.match(fault.error, /it answers its health check, but has sent nothing and has not worked for/)
    await model.ready()
  })

  it('while it is idle is ended and restarted, too', async () => {
    await using model = server('stops')
    await model.start()
    const { pid } = model.supervised
    process.kill(pid ?? 0, 'SIGSTOP')
    const { report } = await untilState(model.supervised, 'failed')
    assert.equal(report.kind, 'unhealthy')
    assert.match(report.endedDetail ?? '', /SIGSTOP/)
    assert.equal(report.signal, 'SIGKILL', 'a stopped process does not see a SIGTERM')
    await model.ready()
  })

  it('because it was stopped is killed at once, without the grace of the stop ladder', async () => {
    await using model = server('blocks', { limits: { ...LIMITS, termMs: 60_000 } })
    await model.start()
    const pid = model.supervised.pid ?? 0
    process.kill(pid, 'SIGSTOP')
    await eventually(() => !isAlive(pid), 'the end of the stopped server')
  })
})

describe('a server that is only slow', OPTIONS, () => {
  for (const how of ['computes', 'half-computes', 'thinks', 'thinks-and-says-busy', 'logs']) {
    it(`is not ended (${how})`, async () => {
      await using model = server(how, PATIENT)
      await model.start()
      const { pid } = model.supervised
      assert.match(await answer(model), /done at last$/)
      assert.equal(model.supervised.pid, pid)
      assert.equal(model.supervised.report, null)
    })
  }

  it('is not ended if it answers its health check and works for longer than a silent server may', async () => {
    await using model = server('half-thinks', SPARSE, 6_000)
    await model.start()
    assert.match(await answer(model), /done at last$/)
    assert.equal(model.supervised.report, null)
  })
})
