/** How execs end, over raw HTTP: codes, signals, deadlines for the whole process tree, kills, output limits, stdin, memory. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test, type TestContext } from 'node:test'
import { assertProblem, BOXES, type Json, processesRunning, WireRunner } from './runner-process.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

let runner: WireRunner
let box: string
let place: string
let marks = 0

before(async () => {
  runner = await WireRunner.start({ flags: ['--allow-isolation', 'process'] })
  box = await runner.box()
  place = `${BOXES}/${box}`
})
after(() => runner[Symbol.asyncDispose]())

/** A `sleep` that can be found among all processes by its number of seconds. */
const sleepMark = (): string => `sleep 9${process.pid}${(marks++).toString().padStart(3, '0')}`

test('every exit code is reported exactly', LIMIT, async () => {
  for (const code of [0, 1, 2, 42, 126, 127, 255]) {
    const { exit } = await runner.run(box, { shell: `exit ${code}` })
    assert.equal(exit.cause, 'exited')
    assert.equal(exit.code, code)
    assert.equal(exit.signal, null)
    assert.equal(exit.started, true)
  }
})

test('a death by signal is reported with what is known, never as a success', LIMIT, async () => {
  for (const [name, number] of [
    ['SIGKILL', 9],
    ['SIGSEGV', 11],
    ['SIGTERM', 15],
  ] as const) {
    const { exit } = await runner.run(box, { shell: `kill -${number} $$` })
    if (exit.cause === 'signaled') assert.equal(exit.signal, name)
    else {
      assert.equal(exit.cause, 'exited')
      assert.equal(exit.code, 128 + number)
      assert.equal(exit.signal, null)
      assert.equal(exit.signalGuess, name)
    }
  }
})

test(
  'a deadline ends the whole process tree, including background children, double forks and new sessions',
  LIMIT,
  async () => {
    const [child, fork, session] = [sleepMark(), sleepMark(), sleepMark()]
    const shell = `${child} & (sh -c '${fork} &' &) ; setsid sh -c 'trap "" TERM HUP INT; ${session} >/dev/null 2>&1 </dev/null' & echo up; wait`
    await runner.post(`${place}/exec`, { execId: 'tree', shell, timeoutMs: 1500, killGraceMs: 100 })
    await eventually('all three processes run', () =>
      [child, fork, session].every((mark) => processesRunning(mark).length > 0),
    )
    const { exit } = await runner.wait(box, 'tree')
    assert.equal(exit.cause, 'timed_out')
    assert.equal(exit.started, true)
    assert.ok(exit.durationMs >= 1500, `ended after ${exit.durationMs} ms`)
    assert.equal(await runner.output(box, 'tree'), 'up\n')
    for (const mark of [child, fork, session]) assert.deepEqual(processesRunning(mark), [], mark)
  },
)

test('a program that handles SIGTERM gets its grace period and can still print', LIMIT, async () => {
  const shell = 'trap "echo goodbye; exit 9" TERM; echo up; while :; do sleep 0.05; done'
  const { execId, exit } = await runner.run(box, { shell, timeoutMs: 500, killGraceMs: 20_000 })
  assert.equal(await runner.output(box, execId), 'up\ngoodbye\n')
  assert.equal(exit.cause, 'timed_out')
  assert.ok(exit.durationMs < 20_000)
})

test('a program that ignores SIGTERM is killed after its grace period', LIMIT, async () => {
  const mark = sleepMark()
  const shell = `trap "" TERM; echo up; while :; do ${mark}; done`
  const { execId, exit } = await runner.run(box, { shell, timeoutMs: 400, killGraceMs: 300 })
  assert.equal(await runner.output(box, execId), 'up\n')
  assert.equal(exit.cause, 'timed_out')
  assert.ok(exit.durationMs >= 700)
  assert.deepEqual(processesRunning(mark), [])
})

test('background processes of an exec end with it and do not delay it', LIMIT, async () => {
  const [plain, session] = [sleepMark(), sleepMark()]
  const { execId, exit } = await runner.run(box, { shell: `${plain} & setsid ${session} & sleep 0.2; echo done` })
  assert.equal(exit.cause, 'exited')
  assert.equal(exit.code, 0)
  assert.equal(await runner.output(box, execId), 'done\n')
  for (const mark of [plain, session]) assert.deepEqual(processesRunning(mark), [])
  assert.ok(Array.isArray(exit.survivors))
})

test('kill ends an exec with cause killed, and is idempotent', LIMIT, async () => {
  const mark = sleepMark()
  await runner.post(`${place}/exec`, { execId: 'killed', shell: `setsid ${mark} & echo up; wait`, killGraceMs: 200 })
  await eventually('the process runs', () => processesRunning(mark).length > 0)
  const first = await runner.post(`${place}/execs/killed/kill`, {})
  assert.equal(first.status, 200)
  assert.equal(first.json.execId, 'killed')
  const record = await runner.wait(box, 'killed')
  assert.equal(record.exit.cause, 'killed')
  assert.deepEqual(processesRunning(mark), [])
  const again = await runner.ask('POST', `${place}/execs/killed/kill`)
  assert.equal(again.status, 200)
  assert.deepEqual(again.json, record)
})

test(
  'a signal reaches the program, an unknown one is 400, and after the end it is 409 exec_finished',
  LIMIT,
  async () => {
    const shell =
      'trap "echo int" INT; trap "echo usr1" USR1; trap "echo bye; exit 5" TERM; echo up; while :; do sleep 0.02; done'
    await runner.post(`${place}/exec`, { execId: 'signals', shell })
    const printed = (text: string) =>
      eventually('the output is complete', async () => (await runner.output(box, 'signals')) === text)
    await printed('up\n')
    let text = 'up\n'
    for (const [signal, word] of [
      ['SIGINT', 'int'],
      ['SIGUSR1', 'usr1'],
      ['SIGTERM', 'bye'],
    ] as const) {
      const sent = await runner.post(`${place}/execs/signals/signal`, { signal })
      assert.ok(sent.status >= 200 && sent.status < 300, sent.text)
      await printed((text += `${word}\n`))
      if (signal !== 'SIGINT') continue
      for (const wrong of [
        { signal: 'SIGWHAT' },
        { signal: 9 },
        { signal: '' },
        {},
        { signal: 'SIGINT', force: true },
      ]) {
        const problem = assertProblem(await runner.post(`${place}/execs/signals/signal`, wrong), 400, 'invalid_request')
        assert.ok(problem.errors.length > 0)
      }
    }
    const { exit } = await runner.wait(box, 'signals')
    assert.equal(exit.cause, 'exited')
    assert.equal(exit.code, 5)
    const late = assertProblem(
      await runner.post(`${place}/execs/signals/signal`, { signal: 'SIGINT' }),
      409,
      'exec_finished',
    )
    assert.equal(late.execId, 'signals')
  },
)

test('output beyond the limit ends the exec as output_limit with exactly the bytes that fit', LIMIT, async () => {
  const { execId, exit } = await runner.run(box, { shell: 'yes & yes >&2', outputBytesMax: 10_000 })
  assert.equal(exit.cause, 'output_limit')
  assert.equal(exit.truncated, true)
  assert.equal(exit.stdoutBytes + exit.stderrBytes, 10_000)
  assert.equal((await runner.output(box, execId)).length, exit.stdoutBytes)
  assert.equal((await runner.output(box, execId, 'stderr')).length, exit.stderrBytes)
})

test('output that just fits is complete, and a limit of zero does not end a silent program', LIMIT, async () => {
  const fits = await runner.run(box, {
    shell: 'head -c 6000 /dev/zero; head -c 4000 /dev/zero >&2',
    outputBytesMax: 10_000,
  })
  assert.equal(fits.exit.cause, 'exited')
  assert.equal(fits.exit.truncated, false)
  assert.equal(fits.stdoutBytes, 6000)
  assert.equal(fits.stderrBytes, 4000)
  const one = await runner.run(box, { shell: 'printf abc', outputBytesMax: 1 })
  assert.equal(one.exit.truncated, true)
  assert.equal(await runner.output(box, one.execId), 'a')
})

test('stdin "none" is empty, and a pipe carries bytes until eof, then refuses more', LIMIT, async () => {
  assert.equal((await runner.run(box, { command: ['cat'] })).exit.code, 0)
  await runner.post(`${place}/exec`, { execId: 'stdin', command: ['cat'], stdin: 'pipe' })
  const send = (body: string | Buffer, query = '') => runner.ask('POST', `${place}/execs/stdin/stdin${query}`, { body })
  for (const answer of [await send('one '), await send(Buffer.from([0xff, 0x00])), await send('two', '?eof=1')])
    assert.ok(answer.status >= 200 && answer.status < 300, answer.text)
  assert.equal((await runner.wait(box, 'stdin')).exit.code, 0)
  const { bytes } = await runner.get(`${place}/execs/stdin/output/stdout`)
  assert.deepEqual(bytes, Buffer.from([...Buffer.from('one '), 0xff, 0x00, ...Buffer.from('two')]))
  assertProblem(await send('more'), 409, 'exec_finished')
})

test('an eof without bytes ends a reader, and bytes after eof are refused', LIMIT, async () => {
  await runner.post(`${place}/exec`, { execId: 'eof', shell: 'cat; echo read; sleep 600', stdin: 'pipe' })
  const eof = await runner.ask('POST', `${place}/execs/eof/stdin?eof=1`)
  assert.ok(eof.status >= 200 && eof.status < 300, eof.text)
  await eventually('the reader has seen eof', async () => (await runner.output(box, 'eof')) === 'read\n')
  const more = await runner.ask('POST', `${place}/execs/eof/stdin`, { body: 'x' })
  assert.ok(more.status >= 400 && more.status < 500, more.text)
  assertProblem(more, more.status, more.json.category)
  assert.equal((await runner.post(`${place}/execs/eof/kill`, {})).status, 200)
})

test('stdin for an exec without stdin is refused', LIMIT, async () => {
  await runner.post(`${place}/exec`, { execId: 'no-stdin', shell: 'sleep 600' })
  const answer = await runner.ask('POST', `${place}/execs/no-stdin/stdin`, { body: 'x' })
  assert.ok(answer.status >= 400 && answer.status < 500, answer.text)
  assertProblem(answer, answer.status, answer.json.category)
  await runner.post(`${place}/execs/no-stdin/kill`, {})
})

test('megabytes of stdin arrive complete at a slow reader', LIMIT, async () => {
  const bytes = Buffer.alloc(3_000_000, 'breakfall stdin ')
  await runner.post(`${place}/exec`, { execId: 'much', shell: 'sleep 0.3; sha256sum', stdin: 'pipe' })
  for (let at = 0; at < bytes.length; at += 1_000_000) {
    const answer = await runner.ask('POST', `${place}/execs/much/stdin${at === 2_000_000 ? '?eof=1' : ''}`, {
      body: bytes.subarray(at, at + 1_000_000),
    })
    assert.ok(answer.status >= 200 && answer.status < 300, answer.text)
  }
  await runner.wait(box, 'much')
  assert.match(await runner.output(box, 'much'), new RegExp(`^${createHash('sha256').update(bytes).digest('hex')} `))
})

test('a program that exits without reading its stdin does no harm', LIMIT, async () => {
  await runner.post(`${place}/exec`, { execId: 'deaf', shell: 'sleep 0.1; echo bye; exit 6', stdin: 'pipe' })
  const sent = await runner.ask('POST', `${place}/execs/deaf/stdin`, { body: Buffer.alloc(900_000) })
  assert.ok(sent.status < 500, sent.text)
  const { exit } = await runner.wait(box, 'deaf')
  assert.equal(exit.code, 6)
  assert.equal(await runner.output(box, 'deaf'), 'bye\n')
})

test('memory beyond the limit is reported as oom_killed, and the box keeps working', LIMIT, async (t) => {
  const limited = await limitedBox(t, { memoryMb: 64 })
  if (limited === undefined) return
  const { exit } = await runner.run(limited, { command: ['tail', '/dev/zero'] })
  assert.equal(exit.cause, 'oom_killed')
  assert.equal(await runner.shell(limited, 'echo alive'), 'alive\n')
})

test('a child killed for memory while its parent lives is a diagnostic, not the cause of the end', LIMIT, async (t) => {
  const limited = await limitedBox(t, { memoryMb: 64 })
  if (limited === undefined) return
  const { exit } = await runner.run(limited, { shell: 'tail /dev/zero; echo "child ended with $?"; exit 3' })
  assert.equal(exit.cause, 'exited')
  assert.equal(exit.code, 3)
  assert.ok(
    exit.diagnostics.some((one: Json) => one.id === 'oom_killed_child'),
    JSON.stringify(exit.diagnostics),
  )
})

test('a fork bomb hits the pids limit, and the runner keeps answering', LIMIT, async (t) => {
  const limited = await limitedBox(t, { pids: 32 })
  if (limited === undefined) return
  const bomb = { execId: 'bomb', shell: 'b() { b | b & }; b; sleep 600', timeoutMs: 1500, killGraceMs: 100 }
  await runner.post(`${BOXES}/${limited}/exec`, bomb)
  const over = runner.wait(limited, 'bomb')
  for (let i = 0; i < 20; i++) assert.equal((await runner.get('/v1/health')).status, 200)
  assert.match((await over).exit.cause, /^(timed_out|exited)$/)
  assert.equal(await runner.shell(limited, 'echo alive'), 'alive\n')
})

async function limitedBox(t: TestContext, limits: Json): Promise<string | undefined> {
  const made = await runner.post(BOXES, { limits })
  if (made.status === 501) {
    assertProblem(made, 501, 'isolation_unavailable')
    t.skip('the runner cannot enforce it on this machine')
    return undefined
  }
  assert.equal(made.status, 201, made.text)
  for (const [name, value] of Object.entries(limits)) assert.equal(made.json.limits[name], value)
  return made.json.id
}
