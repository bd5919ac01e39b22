import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Fault, isFault } from '@breakfall/faults'
import type { Clock } from '../../src/clock.ts'
import { type ModelServer, serveModel } from '../../src/index.ts'
import { partlyManualClock, faultBy, program, QUICK, untilState } from '../child-fixture.ts'

const server = (mode = 'well', limits: Record<string, number> = {}, clock?: Clock): ModelServer =>
  serveModel({
    name: 'llama-server',
    command: process.execPath,
    args: ({ port }) => [program('serves-then-dies.ts'), `${port}`, mode],
    limits: { ...QUICK, ...limits },
    ...(clock === undefined ? {} : { clock }),
  })

const HUNG_MS = 80_000
const hungClock = (): ReturnType<typeof partlyManualClock> => partlyManualClock(HUNG_MS / 8) // it is measured in eighths

describe('a model server', () => {
  it('starts on a free port, waits until the model is loaded, returns its address and answers', async () => {
    await using model = server('loads')
    const url = await model.start()
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.equal(model.url, url)
    const response = await model.fetch('/whole')
    assert.equal(await response.text(), 'all of it')
    assert.equal(model.supervised.state.status, 'ready', 'no request is left in flight')
    await model.stop()
    assert.equal(model.url, null)
  })

  it('that crashes fails the streams in flight with the cause, and restarts', async () => {
    await using model = server('well', { fatalMs: 60_000 }) // it exits on its own, however long its core dump takes
    await model.start()
    const pid = model.supervised.pid
    const response = await model.fetch('/stream')
    const reader = response.body?.getReader()
    const first = await reader?.read()
    assert.equal(Buffer.from(first?.value ?? []).toString(), 'data: one\n\n')
    assert.equal(model.supervised.state.status, 'busy')
    const broken = faultBy(reader?.read() ?? Promise.resolve())
    const refused = faultBy(model.fetch('/crash'))
    for (const fault of await Promise.all([broken, refused])) {
      assert.ok(isFault(fault))
      assert.equal(fault.category, 'process_failed')
      assert.match(fault.error, /^llama-server was ended by SIGABRT .*: The GPU ran out of memory/)
      assert.equal(fault.report.diagnostics[0]?.id, 'llamacpp.cuda_oom_runtime')
      assert.equal(fault.report.sideEffects, 'none', 'an answer of a model may be asked for again')
      assert.equal(fault.report.next, 'restart')
    }
    await model.ready()
    assert.notEqual(model.supervised.pid, pid)
    assert.equal(await (await model.fetch('/whole')).text(), 'all of it')
  })

  it('fails each of three open requests once, before its state says failed', async () => {
    await using model = server('well', { fatalMs: 60_000 })
    await model.start()
    const requests = await Promise.all([model.request(), model.request(), model.request()])
    const order: string[] = []
    for (const [n, request] of requests.entries()) {
      request.signal.addEventListener('abort', () => order.push(`request ${n}`))
    }
    model.supervised.on((event) => {
      if (event.type === 'state') order.push(event.state.status)
    })
    const seen = new Fault('model_stream_interrupted')
    const judged = requests.map((request) => request.judge(seen))
    await faultBy(model.fetch('/crash'))
    const ended = order.indexOf('failed')
    assert.ok(ended > 0, order.join(' '))
    assert.deepEqual(
      order
        .slice(0, ended)
        .filter((entry) => entry.startsWith('request'))
        .toSorted(),
      ['request 0', 'request 1', 'request 2'],
    )
    assert.equal(order.filter((entry) => entry.startsWith('request')).length, 3)
    for (const fault of await Promise.all(judged)) {
      assert.equal(fault.category, 'process_failed')
      assert.match(fault.errorRaw, /SIGABRT/)
      assert.equal(fault.report.sideEffects, 'none')
    }
    for (const request of requests) request[Symbol.dispose]()
  })

  it('opens a request once it is ready, at the address of that boot, and refuses one when it is given up', async () => {
    await using model = server('loads')
    const starting = model.start()
    using request = await model.request()
    assert.equal(request.url, await starting)
    const refused = new Fault('model_bad_request', { status: 400 })
    const judged = await request.judge(refused)
    assert.equal(judged.category, refused.category, 'an answer with a status comes from a living server')
    const { pid } = model.supervised
    assert.deepEqual(judged.report.serve, { boot: 1, pid, state: 'busy', exit: null })
    const missing = serveModel({ command: '/nowhere/llama-server', args: () => [], limits: QUICK })
    missing.start().catch(() => undefined)
    assert.equal((await faultBy(missing.request())).category, 'process_start_failed')
  })

  it('is not hung while the caller reads its answer slowly', async () => {
    const clock = hungClock()
    await using model = server('well', { hungMs: HUNG_MS }, clock)
    await model.start()
    const response = await model.fetch('/flood')
    const reader = response.body?.getReader()
    await reader?.read()
    await new Promise((resolve) => setImmediate(resolve)) // what stands ready behind it has been taken
    clock.advance(2 * HUNG_MS) // twice the limit without a look at it
    assert.equal(model.supervised.state.status, 'busy')
    assert.equal(model.supervised.report, null)
    await reader?.cancel()
  })

  it('that falls silent in the middle of an answer is hung', async () => {
    const clock = hungClock()
    await using model = server('well', { hungMs: HUNG_MS, failuresMax: 1 }, clock)
    await model.start()
    const response = await model.fetch('/stream')
    const broken = faultBy(response.text())
    await new Promise((resolve) => setImmediate(resolve)) // it has been asked for more
    clock.advance(2 * HUNG_MS)
    const fault = await broken
    assert.equal(fault.category, 'process_hung')
  })

  it('that only drops a connection is not blamed for a crash', async () => {
    await using model = server()
    await model.start()
    const pid = model.supervised.pid
    const response = await model.fetch('/drops')
    const fault = await faultBy(response.text())
    assert.equal(fault.category, 'model_stream_interrupted')
    assert.equal(model.supervised.pid, pid)
    assert.equal(model.supervised.state.status, 'ready')
  })

  it('reports a cancelled stream as cancelled', async () => {
    await using model = server()
    await model.start()
    const own = new AbortController()
    const response = await model.fetch('/stream', { signal: own.signal })
    const reader = response.body?.getReader()
    await reader?.read()
    const broken = faultBy(reader?.read() ?? Promise.resolve())
    own.abort()
    assert.equal((await broken).category, 'cancelled')
    assert.equal(model.supervised.state.status, 'ready')
    const other = await model.fetch('/stream')
    await other.body?.cancel()
    assert.equal(model.supervised.state.status, 'ready')
  })

  it('whose port is taken at the last moment restarts on another one', async () => {
    const ports: number[] = []
    const taken = (await import('node:net')).createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    const { port: foreign } = taken.address() as { port: number }
    await using model = serveModel({
      command: process.execPath,
      args: ({ port }) => {
        ports.push(port)
        return [program('serves-then-dies.ts'), `${ports.length === 1 ? foreign : port}`]
      },
      limits: QUICK,
    })
    const fault = await faultBy(model.start())
    assert.equal(fault.report.diagnostics[0]?.id, 'node.eaddrinuse')
    await model.ready()
    assert.equal(ports.length, 2)
    taken.close()
  })

  it('that cannot load its model is given up with the reason', async () => {
    const model = serveModel({
      command: 'sh',
      args: () => [
        '-c',
        `echo "llama_model_load: error loading model: tensor 'blk.2.ffn_down.weight' data is not within the file bounds, model is corrupted or incomplete" >&2; exit 1`,
      ],
      limits: QUICK,
    })
    const fault = await faultBy(model.start())
    assert.match(fault.error, /: The model file is incomplete\. .*download it again/)
    assert.equal((await untilState(model.supervised, 'given_up')).reason, 'needs_change')
  })

  it('accepts only paths: no text can lead to another host', async () => {
    await using model = server()
    await model.start()
    for (const path of ['whole', '@127.0.0.1:9/', '.evil.example/', '']) {
      assert.match((await faultBy(model.fetch(path))).error, /^the path must start with "\/"/, path)
    }
    assert.equal(model.supervised.state.status, 'ready', 'no request is left in flight')
  })

  it('with a bad spec is refused, and the field is named', () => {
    const bad: readonly [Record<string, unknown> | null | undefined, RegExp][] = [
      [undefined, /spec must be an object/],
      [null, /spec must be an object/],
      [{ port: 8080 }, /port must be one of/],
      [{ host: '' }, /host must be/],
      [{ host: 'a/b' }, /host must be/],
      [{ healthPath: 'health' }, /healthPath must be a path that starts with "\/"/],
      [{ env: 5 }, /env must be/],
      [{ watchHealth: 'yes' }, /watchHealth must be true or false/],
      [{ ready: { kind: 'spawned' } }, /ready must be left out/],
      [{ launch: () => ({}) }, /launch must be left out/],
    ]
    for (const [more, said] of bad) {
      const spec = more == null ? more : { command: 'x', args: () => [], ...more }
      assert.throws(
        () => Reflect.apply(serveModel, undefined, [spec]),
        (error) => isFault(error) && said.test(error.error),
        String(said),
      )
    }
    assert.throws(() => Reflect.apply(serveModel, undefined, [{ command: 'x', args: [] }]), /args must be a function/)
    assert.throws(() => serveModel({ command: '', args: () => [] }), /command must be a program/)
  })
})
