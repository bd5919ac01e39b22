/** Execs over raw HTTP: what they are given, what they print, and who may read it how often and from where. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertProblem, type Block, BOXES, bytesOf, ISO, type Json, WireRunner } from './wire-runner.ts'

const LIMIT = { timeout: 30_000 }
let runner: WireRunner
let box: string
let place: string

before(async () => {
  runner = await WireRunner.start({ flags: ['--allow-isolation', 'process'] })
  box = await runner.box({ env: { FROM_BOX: 'box', BOTH: 'box' } })
  place = `${BOXES}/${box}`
})
after(() => runner[Symbol.asyncDispose]())

test('a command runs as its arguments stand, a shell line as a shell reads it', LIMIT, async () => {
  const command = await runner.run(box, { command: ['printf', '%s|', 'a b', '$HOME', '', '*', "'"] })
  assert.equal(await runner.output(box, command.execId), "a b|$HOME||*|'|")
  assert.deepEqual(command.command, ['printf', '%s|', 'a b', '$HOME', '', '*', "'"])
  assert.equal(await runner.shell(box, 'for i in 1 2 3; do echo $i; done | tail -n 1'), '3\n')
})

test('a command starts in the workspace, or in the folder that it names', LIMIT, async () => {
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

test('the environment is the box’s, then the exec’s, and nothing of the runner’s', LIMIT, async () => {
  const record = await runner.run(box, {
    shell: 'echo "$FROM_BOX $BOTH $FROM_EXEC"',
    env: { BOTH: 'exec', FROM_EXEC: 'line\nbreak = "x"' },
  })
  assert.equal(await runner.output(box, record.execId), 'box exec line\nbreak = "x"\n')
})

test('a record goes from running to exited with the whole exit record, and stays', LIMIT, async () => {
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

test('events are a start, every byte in order, and one exit that is last, with id and event lines', LIMIT, async () => {
  const script = 'for i in $(seq 200); do echo "out $i"; echo "err $i" >&2; done'
  await using stream = await runner.stream('POST', `${place}/exec`, { json: { execId: 'order', shell: script } })
  const blocks = await Array.fromAsync(stream.blocks)
  assertWellFormed(blocks)
  const { at, pid, ...start } = blocks[0]?.data ?? {}
  assert.match(at, ISO)
  assert.ok(Number.isInteger(pid))
  assert.deepEqual(start, { seq: 1, type: 'start', execId: 'order' })
  const lines = (word: string): string => Array.from({ length: 200 }, (_, i) => `${word} ${i + 1}\n`).join('')
  assert.equal(bytesOf(blocks, 'stdout').toString(), lines('out'))
  assert.equal(bytesOf(blocks, 'stderr').toString(), lines('err'))
  assert.equal(await runner.output(box, 'order'), lines('out'))
  assert.equal(await runner.output(box, 'order', 'stderr'), lines('err'))
})

test('a reader may come back after any event, by after or Last-Event-ID, and gets the same chunks', LIMIT, async () => {
  const script = 'for i in 1 2 3 4 5 6 7 8; do printf "é$i\\n"; printf "\\377$i" >&2; sleep 0.02; done; exit 4'
  await runner.post(`${place}/exec`, { execId: 'resume', shell: script })
  const live = await runner.events(`${place}/execs/resume/events`)
  assertWellFormed(live)
  assert.ok(live.length >= 6)
  for (let seq = 0; seq <= live.length; seq++) {
    assert.deepEqual(await runner.events(`${place}/execs/resume/events?after=${seq}`), live.slice(seq))
    assert.deepEqual(
      await runner.events(`${place}/execs/resume/events`, { 'last-event-id': String(seq) }),
      live.slice(seq),
    )
  }
  for (const after of ['x', '-1', '1.5'])
    assertProblem(await runner.get(`${place}/execs/resume/events?after=${after}`), 400, 'invalid_request')
})

test('a reader that is cut off again and again while the exec runs holds every byte once', LIMIT, async () => {
  const script = 'for i in $(seq 300); do echo "line $i"; [ $((i % 10)) -eq 0 ] && sleep 0.01; done; true'
  await runner.post(`${place}/exec`, { execId: 'cuts', shell: script })
  const held: Block[] = []
  while (held.at(-1)?.event !== 'exit') {
    await using stream = await runner.stream('GET', `${place}/execs/cuts/events?after=${held.at(-1)?.id ?? 0}`)
    for (let i = 0; i < 3; i++) {
      const { value, done } = await stream.blocks.next()
      if (done === true) break
      held.push(value)
    }
  }
  assertWellFormed(held)
  assert.deepEqual(held, await runner.events(`${place}/execs/cuts/events`))
  assert.equal(bytesOf(held, 'stdout').toString(), Array.from({ length: 300 }, (_, i) => `line ${i + 1}\n`).join(''))
})

test(
  'what is no UTF-8 comes as base64, a text event is never cut inside a letter, and bytes are exact',
  LIMIT,
  async () => {
    const script = String.raw`printf 'a\000b'; printf '\303'; sleep 0.1; printf '\251'; printf '\377\376'; sleep 0.1; printf '\360\237\221'; printf end`
    const record = await runner.run(box, { execId: 'bytes', shell: script })
    const blocks = await runner.events(`${place}/execs/bytes/events`)
    assertWellFormed(blocks)
    const bytes = Buffer.from('610062c3a9fffef09f91656e64', 'hex')
    assert.deepEqual(bytesOf(blocks, 'stdout'), bytes)
    assert.deepEqual((await runner.get(`${place}/execs/bytes/output/stdout`)).bytes, bytes)
    assert.equal(record.stdoutBytes, bytes.length)
    assert.ok(blocks.some(({ data }) => data.dataBase64 !== undefined))
  },
)

test('a lone bad byte is exactly the event that the contract shows', LIMIT, async () => {
  await runner.run(box, { execId: 'bad-byte', shell: String.raw`printf 'hi\n'; sleep 0.1; printf '\377' >&2` })
  const [, out, bad] = (await runner.events(`${place}/execs/bad-byte/events`)).map(({ data }) => data)
  assert.deepEqual(out, { seq: 2, type: 'stdout', offset: 0, data: 'hi\n' })
  assert.deepEqual(bad, { seq: 3, type: 'stderr', offset: 0, dataBase64: '/w==' })
})

test('merge gives both streams as stdout in the exact order of the writes', LIMIT, async () => {
  const script = 'for i in $(seq 300); do echo "out $i"; echo "err $i" >&2; done'
  const record = await runner.run(box, { execId: 'merge', shell: script, merge: true })
  const all = Array.from({ length: 300 }, (_, i) => `out ${i + 1}\nerr ${i + 1}\n`).join('')
  assert.equal(await runner.output(box, 'merge'), all)
  assert.equal(await runner.output(box, 'merge', 'stderr'), '')
  assert.equal(record.stderrBytes, 0)
  const blocks = await runner.events(`${place}/execs/merge/events`)
  assertWellFormed(blocks)
  assert.ok(!blocks.some(({ event }) => event === 'stderr'))
})

test('writing to /dev/stderr and /dev/stdout by name works and destroys nothing', LIMIT, async () => {
  const script =
    'echo one >&2; echo two > /dev/stderr; echo three | tee /dev/stderr; echo four > /dev/stdout; echo five >&2'
  await runner.run(box, { execId: 'named', shell: script })
  assert.equal(await runner.output(box, 'named', 'stderr'), 'one\ntwo\nthree\nfive\n')
  assert.equal(await runner.output(box, 'named'), 'three\nfour\n')
  const merged = await runner.run(box, { shell: script, merge: true })
  assert.equal(
    (await runner.output(box, merged.execId)).split('\n').toSorted().join(' '),
    ' five four one three three two',
  )
})

test(
  'waiters before, during and after the end all get the same record, and a wait that is up is 202',
  LIMIT,
  async () => {
    await runner.post(`${place}/exec`, { execId: 'waited', shell: 'read line; echo "$line"', stdin: 'pipe' })
    const early = Array.from({ length: 20 }, () => runner.get(`${place}/execs/waited/wait`))
    const soFar = await runner.get(`${place}/execs/waited/wait?timeoutMs=50`)
    assert.equal(soFar.status, 202)
    assert.equal(soFar.json.execId, 'waited')
    assert.equal(soFar.json.exit, null)
    assert.equal(soFar.json.endedAt, null)
    assert.equal((await runner.get(`${place}/execs/waited/wait?timeoutMs=0`)).status, 202)
    for (const wrong of ['x', '-1', '1.5', ''])
      assertProblem(await runner.get(`${place}/execs/waited/wait?timeoutMs=${wrong}`), 400, 'invalid_request')
    await runner.ask('POST', `${place}/execs/waited/stdin`, { body: 'go\n' })
    const records = await Promise.all(early)
    const late = await Promise.all(
      Array.from({ length: 20 }, () => runner.get(`${place}/execs/waited/wait?timeoutMs=1`)),
    )
    for (const answer of [...records, ...late]) {
      assert.equal(answer.status, 200)
      assert.deepEqual(answer.json, records[0]?.json)
    }
    assert.equal(records[0]?.json.exit.code, 0)
  },
)

test('output is served in ranges, and a range beyond it is 416 with the length', LIMIT, async () => {
  await runner.run(box, { execId: 'range', command: ['printf', '0123456789'] })
  const path = `${place}/execs/range/output/stdout`
  const whole = await runner.get(path)
  assert.equal(whole.status, 200)
  assert.equal(whole.headers['accept-ranges'], 'bytes')
  assert.equal(whole.headers['content-length'], '10')
  for (const [range, text, described] of [
    ['bytes=0-3', '0123', 'bytes 0-3/10'],
    ['bytes=4-', '456789', 'bytes 4-9/10'],
    ['bytes=-2', '89', 'bytes 8-9/10'],
    ['bytes=8-100', '89', 'bytes 8-9/10'],
    ['bytes=9-9', '9', 'bytes 9-9/10'],
    ['bytes=-100', '0123456789', 'bytes 0-9/10'],
  ] as const) {
    const part = await runner.get(path, { headers: { range } })
    assert.equal(part.status, 206, range)
    assert.equal(part.text, text)
    assert.equal(part.headers['content-range'], described)
  }
  for (const range of ['bytes=10-', 'bytes=50-60', 'bytes=-0']) {
    const answer = await runner.get(path, { headers: { range } })
    assertProblem(answer, 416, 'range_not_satisfiable')
  }
  assert.equal((await runner.get(`${place}/execs/range/output/stderr`)).text, '')
  const other = await runner.get(`${place}/execs/range/output/stdin`)
  assert.ok(other.status === 404 || other.status === 400, other.text)
})

test('every call on an exec that is not there is 404 exec_not_found', LIMIT, async () => {
  for (const path of ['', '/events', '/output/stdout', '/wait'])
    assert.equal(assertProblem(await runner.get(`${place}/execs/none${path}`), 404, 'exec_not_found').execId, 'none')
  assertProblem(await runner.ask('POST', `${place}/execs/none/stdin`, { body: 'x' }), 404, 'exec_not_found')
  assertProblem(await runner.post(`${place}/execs/none/signal`, { signal: 'SIGINT' }), 404, 'exec_not_found')
  assertProblem(await runner.post(`${place}/execs/none/kill`, {}), 404, 'exec_not_found')
})

test('twenty who start the same exec at once get one process, one 201 and one record', LIMIT, async () => {
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

test('the same body is compared after defaults, another one is 409 exec_conflict and runs nothing', LIMIT, async () => {
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
})

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

test('exec ids belong to their box, and one that is not chosen is made', LIMIT, async () => {
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
  test(`an exec with ${what} is refused by the field's name and not run`, LIMIT, async () => {
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
    `what cannot be run is 422 ${reason} and reserves nothing: ${JSON.stringify(request).slice(0, 60)}`,
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

test('a program named by a path is looked for from the folder that it starts in', LIMIT, async () => {
  await runner.shell(box, 'mkdir -p sub; printf "#!/bin/sh\\necho from sub\\n" > sub/tool; chmod 755 sub/tool')
  const record = await runner.run(box, { command: ['./tool'], cwd: 'sub' })
  assert.equal(await runner.output(box, record.execId), 'from sub\n')
  const found = await runner.run(box, {
    command: ['tool'],
    env: { PATH: `${(await runner.get(place)).json.workspace.path}/sub:/usr/bin:/bin` },
  })
  assert.equal(await runner.output(box, found.execId), 'from sub\n')
})

test('a hundred short execs, ten at a time, lose not a byte', LIMIT, async () => {
  for (let round = 0; round < 10; round++)
    await Promise.all(
      Array.from({ length: 10 }, async (_, i) => {
        await using stream = await runner.stream('POST', `${place}/exec`, { json: { shell: `echo ${round}-${i}` } })
        const blocks = await Array.fromAsync(stream.blocks)
        assertWellFormed(blocks)
        assert.equal(bytesOf(blocks, 'stdout').toString(), `${round}-${i}\n`)
      }),
    )
})

/** Seq from 1 without holes, ids and event names as in the data, offsets that fit, text that is text, one exit, last. */
function assertWellFormed(blocks: readonly Block[]): void {
  const offsets: Record<string, number> = { stdout: 0, stderr: 0 }
  for (const [i, { id, event, data }] of blocks.entries()) {
    assert.equal(data.seq, i + 1)
    assert.equal(id, String(i + 1))
    assert.equal(event, data.type)
    assert.equal(event === 'start', i === 0)
    assert.equal(event === 'exit', i === blocks.length - 1)
    if (event !== 'stdout' && event !== 'stderr') continue
    assert.equal(data.offset, offsets[event])
    assert.notEqual(data.data === undefined, data.dataBase64 === undefined)
    if (data.data !== undefined) assert.ok(!data.data.includes('\uFFFD'))
    const bytes = data.data === undefined ? Buffer.from(data.dataBase64, 'base64') : Buffer.from(data.data)
    assert.ok(bytes.length > 0)
    if (data.dataBase64 !== undefined)
      assert.ok(bytes.toString().includes('\uFFFD'), 'base64 only where text will not do')
    offsets[event] = (offsets[event] ?? 0) + bytes.length
  }
  assert.equal(blocks.at(-1)?.data.stdoutBytes, offsets['stdout'])
  assert.equal(blocks.at(-1)?.data.stderrBytes, offsets['stderr'])
}
