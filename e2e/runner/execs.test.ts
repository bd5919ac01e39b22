/** Execs over raw HTTP: their inputs, their records, how they end, and what is refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sharedRunner } from './shared-runner.ts'
import { assertProblem, assertWellFormed, ISO, type Json } from './runner-process.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

const { runner, box, place } = await sharedRunner({ box: { env: { FROM_BOX: 'box', BOTH: 'box' } } })

test('a command gets its arguments unchanged, and a shell line goes through a shell', LIMIT, async () => {
  const command = await runner.run(box, { command: ['printf', '%s|', 'a b', '$HOME', '', '*', "'"] })
  assert.equal(await runner.output(box, command.execId), "a b|$HOME||*|'|")
  assert.deepEqual(command.command, ['printf', '%s|', 'a b', '$HOME', '', '*', "'"])
  assert.equal(await runner.shell(box, 'for i in 1 2 3; do echo $i; done | tail -n 1'), '3\n')
})

test('a command starts in the workspace or in the requested folder', LIMIT, async () => {
  const { workspace } = (await runner.get(place)).json
  await runner.shell(box, 'mkdir -p deep/er')
  for (const [cwd, seen] of [
    [undefined, workspace.path],
    ['.', workspace.path],
    ['deep', `${workspace.path}/deep`],
    ['deep/er/..', `${workspace.path}/deep`],
    [`${workspace.path}/deep/er`, `${workspace.path}/deep/er`],
  ] as const) {
    const record = await runner.run(box, { command: ['pwd'], cwd })
    assert.equal(await runner.output(box, record.execId), `${seen}\n`)
  }
})

test('the environment comes from the box, then the exec, and never from the runner', LIMIT, async () => {
  const record = await runner.run(box, {
    shell: 'echo "$FROM_BOX $BOTH $FROM_EXEC"',
    env: { BOTH: 'exec', FROM_EXEC: 'line\nbreak = "x"' },
  })
  assert.equal(await runner.output(box, record.execId), 'box exec line\nbreak = "x"\n')
})

test('a record goes from running to exited with the complete exit, and stays', LIMIT, async () => {
  const started = await runner.post(`${place}/exec`, { execId: 'record', shell: 'printf out; printf erro >&2; exit 3' })
  assert.equal(started.status, 201)
  assert.equal(started.json.execId, 'record')
  assert.equal(started.json.boxId, box)
  assert.match(started.json.state, /^(starting|running|exited)$/)
  const record = await runner.wait(box, 'record')
  assert.equal(record.state, 'exited')
  assert.match(record.startedAt, ISO)
  assert.match(record.endedAt, ISO)
  assert.equal(record.stdoutBytes, 3)
  assert.equal(record.stderrBytes, 4)
  const { durationMs, ...exit } = record.exit
  assert.ok(Number.isInteger(durationMs) && durationMs >= 0)
  assert.deepEqual(exit, {
    cause: 'exited',
    started: true,
    code: 3,
    signal: null,
    signalGuess: null,
    survivors: [],
    stdoutBytes: 3,
    stderrBytes: 4,
    truncated: false,
    diagnostics: [],
  })
  const blocks = await runner.events(`${place}/execs/record/events`)
  assert.equal(record.lastSeq, blocks.at(-1)?.data.seq)
  assert.deepEqual(blocks.at(-1)?.data, { seq: record.lastSeq, type: 'exit', ...record.exit })
  assert.deepEqual((await runner.get(`${place}/execs/record`)).json, record)
  assert.deepEqual(
    (await runner.get(`${place}/execs`)).json.execs.find((one: Json) => one.execId === 'record'),
    record,
  )
})

test('every call on an unknown exec is 404 exec_not_found', LIMIT, async () => {
  for (const path of ['', '/events', '/output/stdout', '/wait'])
    assert.equal(assertProblem(await runner.get(`${place}/execs/none${path}`), 404, 'exec_not_found').execId, 'none')
  assertProblem(await runner.ask('POST', `${place}/execs/none/stdin`, { body: 'x' }), 404, 'exec_not_found')
  assertProblem(await runner.post(`${place}/execs/none/signal`, { signal: 'SIGINT' }), 404, 'exec_not_found')
  assertProblem(await runner.post(`${place}/execs/none/kill`, {}), 404, 'exec_not_found')
})

test('twenty concurrent starts of the same exec get one process, one 201 and one record', LIMIT, async () => {
  const request = { execId: 'once', shell: 'echo ran >> once; sleep 0.2; cat once' }
  const answers = await Promise.all(Array.from({ length: 20 }, () => runner.post(`${place}/exec`, request)))
  assert.equal(answers.filter(({ status }) => status === 201).length, 1)
  assert.equal(answers.filter(({ status }) => status === 200).length, 19)
  for (const { json } of answers) assert.equal(json.execId, 'once')
  await runner.wait(box, 'once')
  assert.equal(await runner.output(box, 'once'), 'ran\n')
  const late = await runner.post(`${place}/exec`, request)
  assert.equal(late.status, 200)
  assert.equal(late.json.exit.code, 0)
  assert.equal(await runner.shell(box, 'cat once'), 'ran\n')
})

test(
  'bodies are compared after defaults, and a different body is 409 exec_conflict and runs nothing',
  LIMIT,
  async () => {
    const request = { execId: 'same', command: ['sh', '-c', 'echo x >> same'] }
    const defaults = { cwd: '.', env: {}, stdin: 'none', killGraceMs: 2000, merge: false, outputBytesMax: 104_857_600 }
    await runner.run(box, request)
    assert.equal((await runner.post(`${place}/exec`, { ...defaults, ...request })).status, 200)
    for (const other of [
      { command: ['sh', '-c', 'echo y >> same'] },
      { cwd: '..' },
      { env: { A: '1' } },
      { stdin: 'pipe' },
      { timeoutMs: 1234 },
      { killGraceMs: 1 },
      { merge: true },
      { outputBytesMax: 5 },
    ]) {
      const problem = assertProblem(await runner.post(`${place}/exec`, { ...request, ...other }), 409, 'exec_conflict')
      assert.equal(problem.execId, 'same')
      assert.equal(problem.boxId, box)
    }
    assert.equal(await runner.shell(box, 'cat same'), 'x\n')
  },
)

test('starting a known exec with an event stream attaches to it from its first event', LIMIT, async () => {
  const request = { execId: 'attach', shell: 'echo a; sleep 0.1; echo b' }
  const streams = await Promise.all(
    Array.from({ length: 5 }, async () => {
      await using stream = await runner.stream('POST', `${place}/exec`, { json: request })
      assert.match(stream.headers['content-type'] ?? '', /^text\/event-stream/)
      return await Array.fromAsync(stream.blocks)
    }),
  )
  for (const blocks of streams) assert.deepEqual(blocks, streams[0])
  assertWellFormed(streams[0] ?? [])
  await using known = await runner.stream('POST', `${place}/exec`, { json: request })
  assert.equal(known.status, 200)
  await using conflict = await runner.stream('POST', `${place}/exec`, { json: { ...request, merge: true } })
  assert.equal(conflict.status, 409)
})

test('exec ids belong to their box, and an exec without an id gets one', LIMIT, async () => {
  const other = await runner.box()
  const [one, two] = [
    await runner.run(box, { execId: 'shared', shell: 'echo one' }),
    await runner.run(other, { execId: 'shared', shell: 'echo two' }),
  ]
  assert.equal(await runner.output(box, one.execId), 'one\n')
  assert.equal(await runner.output(other, two.execId), 'two\n')
  const [three, four] = [await runner.run(box, { shell: 'true' }), await runner.run(box, { shell: 'true' })]
  assert.notEqual(three.execId, four.execId)
})

for (const [what, body, field] of [
  ['no command', {}, 'command'],
  ['both a command and a shell line', { command: ['true'], shell: 'true' }, 'command'],
  ['an empty command', { command: [] }, 'command'],
  ['a command of numbers', { command: [1] }, 'command'],
  ['a command as text', { command: 'true' }, 'command'],
  ['a NUL in an argument', { command: ['echo', 'a\0b'] }, 'command'],
  ['a NUL in the shell line', { shell: 'a\0b' }, 'shell'],
  ['half a letter in an argument', { command: ['echo', '\ud800'] }, 'command'],
  ['an empty folder', { shell: 'true', cwd: '' }, 'cwd'],
  ['a NUL in the folder', { shell: 'true', cwd: 'a\0b' }, 'cwd'],
  ['an environment name with =', { shell: 'true', env: { 'A=B': '' } }, 'env'],
  ['an empty environment name', { shell: 'true', env: { '': '' } }, 'env'],
  ['a NUL in the environment', { shell: 'true', env: { A: '\0' } }, 'env'],
  ['no time', { shell: 'true', timeoutMs: 0 }, 'timeoutMs'],
  ['time below zero', { shell: 'true', timeoutMs: -1 }, 'timeoutMs'],
  ['time as text', { shell: 'true', timeoutMs: '5' }, 'timeoutMs'],
  ['a grace below zero', { shell: 'true', killGraceMs: -1 }, 'killGraceMs'],
  ['an output of half a byte', { shell: 'true', outputBytesMax: 0.5 }, 'outputBytesMax'],
  ['an output below zero', { shell: 'true', outputBytesMax: -1 }, 'outputBytesMax'],
  ['another stdin', { shell: 'true', stdin: 'file' }, 'stdin'],
  ['merge as text', { shell: 'true', merge: 'yes' }, 'merge'],
  ['an unknown field', { shell: 'true', user: 'root' }, 'user'],
  ['a terminal, which comes later', { shell: 'true', tty: true }, 'tty'],
  ['an id that climbs', { shell: 'true', execId: '../e' }, 'execId'],
  ['an empty id', { shell: 'true', execId: '' }, 'execId'],
] as const)
  test(`an exec with ${what} is refused with the field's name and does not run`, LIMIT, async () => {
    const count = async (): Promise<number> => (await runner.get(`${place}/execs`)).json.execs.length
    const before = await count()
    const problem = assertProblem(await runner.post(`${place}/exec`, body), 400, 'invalid_request')
    assert.ok(
      problem.errors.some((error: Json) => error.field.split(/[.[]/)[0] === field),
      `${field} is not in ${JSON.stringify(problem.errors)}`,
    )
    assert.equal(await count(), before)
  })

for (const [reason, prepare, request] of [
  ['not_found', 'true', { command: ['no-such-program'] }],
  ['not_found', 'true', { command: ['./no-such-file'] }],
  ['not_executable', 'echo x > plain; chmod 644 plain', { command: ['./plain'] }],
  ['not_executable', 'mkdir -p folder', { command: ['./folder'] }],
  ['bad_interpreter', 'printf "#!/no/such/sh\\n" > lost; chmod 755 lost', { command: ['./lost'] }],
  ['cwd_missing', 'true', { command: ['true'], cwd: 'nowhere' }],
  ['cwd_not_directory', 'echo x > plain', { command: ['true'], cwd: 'plain' }],
  ['argument_too_long', 'true', { command: ['echo', 'x'.repeat(200_000)] }],
  ['argument_too_long', 'true', { command: ['true'], env: { LONG: 'x'.repeat(200_000) } }],
  ['argument_too_long', 'true', { shell: `: ${'x'.repeat(200_000)}` }],
] as const)
  test(
    `a command that cannot run is 422 ${reason} and reserves nothing: ${JSON.stringify(request).slice(0, 60)}`,
    LIMIT,
    async () => {
      await runner.shell(box, prepare)
      const execId = `spawn-${Math.trunc(performance.now() * 1000)}`
      const problem = assertProblem(await runner.post(`${place}/exec`, { execId, ...request }), 422, 'spawn_failed')
      assert.equal(problem.reason, reason)
      assertProblem(await runner.get(`${place}/execs/${execId}`), 404, 'exec_not_found')
      assert.equal((await runner.run(box, { execId, shell: 'echo now' })).exit.code, 0)
    },
  )

test('a program path is resolved from the folder it starts in', LIMIT, async () => {
  await runner.shell(box, 'mkdir -p sub; printf "#!/bin/sh\\necho from sub\\n" > sub/tool; chmod 755 sub/tool')
  const record = await runner.run(box, { command: ['./tool'], cwd: 'sub' })
  assert.equal(await runner.output(box, record.execId), 'from sub\n')
  const found = await runner.run(box, {
    command: ['tool'],
    env: { PATH: `${(await runner.get(place)).json.workspace.path}/sub:/usr/bin:/bin` },
  })
  assert.equal(await runner.output(box, found.execId), 'from sub\n')
})

test('every exit code is reported exactly', LIMIT, async () => {
  for (const code of [0, 1, 2, 42, 126, 127, 255]) {
    const { exit } = await runner.run(box, { shell: `exit ${code}` })
    assert.equal(exit.cause, 'exited')
    assert.equal(exit.code, code)
    assert.equal(exit.signal, null)
    assert.equal(exit.started, true)
  }
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

test('a command that cannot run names its box and its folder', LIMIT, async () => {
  const answer = await runner.post(`${place}/exec`, { command: ['true'], cwd: 'missing' })
  const problem = assertProblem(answer, 422, 'spawn_failed')
  assert.equal(problem.boxId, box)
  assert.match(problem.detail, /^Cannot run the command true \(the box has no folder .*missing\)/)
  const device = await runner.post(`${place}/exec`, { command: ['/dev/null'] })
  assert.equal(assertProblem(device, 422, 'spawn_failed').reason, 'not_executable')
})

test('a box can use ordinary tools: a shell, pipes, /dev/null, random bytes, a temporary folder', LIMIT, async () => {
  const script =
    'set -e; f=$(mktemp); head -c 10 /dev/urandom > "$f"; wc -c < "$f"; echo lost > /dev/null; id -u > /dev/null; date +%Y > /dev/null; echo ok'
  assert.equal((await runner.shell(box, script)).replaceAll(' ', ''), '10\nok\n')
})

test("commands can start in a box's temporary folders and run programs from them", LIMIT, async (t) => {
  if (runner.level !== 'bwrap') return t.skip('level process uses the machine’s folders')
  for (const folder of ['/tmp', '/var/tmp', '/dev/shm']) {
    const started = await runner.post(`${place}/exec`, { command: ['pwd'], cwd: folder })
    assert.equal(started.status, 201, `${folder}: ${started.text}`)
    await runner.wait(box, started.json.execId)
    assert.equal(await runner.output(box, started.json.execId), `${folder}\n`)
  }
})
