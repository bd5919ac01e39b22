/** The runner is killed with -9 at any moment and restarted on the same folder. */
import { atEnd, removeFolder, tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { ExecEvent } from '@breakfall/wire'
import { readProcess, socketsOf } from '@breakfall/supervisor/platform'
import { systemClock } from '../../src/lib/clock.ts'
import { startTimeOf } from '../../src/exec/process-table.ts'
import { readJsonFile } from '../../src/lib/disk.ts'
import {
  asProgram,
  bytesOf,
  groupsOf,
  inProcess,
  keepersOf,
  LEVEL_FLAGS,
  type TestRunner,
  until,
  withoutBwrap,
} from '../kit.ts'

test(
  'a runner that is killed while it tries a network leaves no process and no folder',
  { skip: withoutBwrap },
  async (t) => {
    const folder = tempFolder(t)
    const [stateDir, tools, tried] = [join(folder, 'state'), join(folder, 'tools'), join(folder, 'tried')]
    for (const each of [stateDir, tools]) mkdirSync(each)
    writeFileSync(
      join(tools, 'nsenter'),
      `#!/bin/sh\necho $2 >${tried}.new; mv ${tried}.new ${tried}; exec sleep 600 </dev/null >/dev/null 2>&1\n`,
      { mode: 0o755 },
    ) // never joins
    const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
    const flags = ['--json', '--state-dir', stateDir, '--token-file', join(stateDir, 'token')]
    const runner = spawn(process.execPath, [main, ...flags], {
      env: { ...process.env, PATH: `${tools}:${process.env['PATH']}` },
      stdio: 'ignore',
      detached: true, // so the stand-in for nsenter can be ended as well
    })
    await until(() => existsSync(tried), Boolean)
    const holder = Number(readFileSync(tried, 'utf8'))
    const monitor = readProcess(holder)?.ppid ?? 0
    assert.notEqual(startTimeOf(holder), undefined)
    runner.kill('SIGKILL')
    for (const pid of [holder, monitor])
      await until(
        () => startTimeOf(pid),
        (found) => found === undefined,
      )
    process.kill(-(runner.pid ?? 0), 'SIGKILL')
    assert.deepEqual(
      readdirSync(stateDir).filter((name) => name.startsWith('probe')),
      [],
    )
  },
)

for (const level of ['bwrap', 'process'] as const) {
  const flags = LEVEL_FLAGS[level]
  describe(`kill -9 of the runner, level ${level}`, { skip: level === 'bwrap' && withoutBwrap }, async () => {
    test('kill -9 of the runner during an exec loses no output and no exit code', async (t) => {
      const stateDir = join(tempFolder(t), 'state')
      const first = await asProgram(t, stateDir, flags)
      await first.box({ id: 'b1' })
      await first.call('POST', 'boxes/b1/exec', {
        execId: 'e1',
        shell: 'for i in $(seq 150); do head -c 1003 /dev/urandom; sleep 0.005; done | tee copy; echo end >&2; exit 9',
      })
      const before: ExecEvent[] = []
      for await (const event of first.client.execEvents('b1', 'e1')) {
        if (event.type === 'fault') throw event.fault
        before.push(event)
        if (before.length > 20) break
      }
      await first.kill('SIGKILL')
      const second = await asProgram(t, stateDir, flags)
      assert.equal(second.runnerId, first.runnerId)
      const after: ExecEvent[] = []
      for await (const event of second.client.execEvents('b1', 'e1', { after: before.at(-1)?.seq ?? 0 })) {
        if (event.type === 'fault') throw event.fault
        after.push(event)
      }
      const all = [...before, ...after]
      assert.deepEqual(
        all.map(({ seq }) => seq),
        all.map((_, i) => i + 1),
      )
      const exit = all.at(-1)
      assert.ok(exit?.type === 'exit' && exit.cause === 'exited' && exit.code === 9, JSON.stringify(exit))
      const wanted = (await second.run('b1', 'sha256sum copy | cut -c 1-64')).stdout.trim()
      assert.equal(createHash('sha256').update(bytesOf(all, 'stdout')).digest('hex'), wanted)
      assert.equal(bytesOf(all, 'stdout').length, 150_450)
      assert.equal(bytesOf(all, 'stderr').toString(), 'end\n')
      assert.deepEqual(await second.events('b1', 'e1'), JSON.parse(JSON.stringify(all)))
    })

    test('an exec whose keeper was killed is runner_lost without a code, and its processes are ended', async (t) => {
      const stateDir = join(tempFolder(t), 'state')
      const first = await asProgram(t, stateDir, flags)
      await first.box({ id: 'b1' })
      await first.call('POST', 'boxes/b1/exec', { execId: 'e1', shell: 'echo $$; exec sleep 1000' })
      let pid = 0
      for await (const event of first.client.execEvents('b1', 'e1')) {
        if (event.type === 'start') pid = event.pid
        if (event.type === 'stdout') break
      }
      const status = readFileSync(join(stateDir, 'boxes/default/b1/execs/e1/status'), 'latin1')
      const keeper = Number(/^keeper (\d+) /m.exec(status)?.[1])
      await first.kill('SIGKILL')
      process.kill(keeper, 'SIGKILL')
      const second = await asProgram(t, stateDir, flags)
      const { exit } = await second.client.waitExec('b1', 'e1')
      assert.deepEqual([exit?.cause, exit?.code, exit?.started], ['runner_lost', null, true])
      assert.equal(startTimeOf(pid), undefined)
    })

    test('killed at any moment during 40 starts: each exec ends, none runs twice, no code is invented', async (t) => {
      const stateDir = join(tempFolder(t), 'state')
      const first = await asProgram(t, stateDir, flags)
      await first.box({ id: 'b1', limits: { execsMax: 100 } })
      const started: string[] = []
      const calls = Array.from({ length: 40 }, async (_, i) => {
        const answer = await first.call('POST', 'boxes/b1/exec', { execId: `e${i}`, shell: `echo ${i} >> ran; exit 5` })
        if (answer.status === 201) started.push(`e${i}`)
        if (i === 12) void first.kill('SIGKILL')
      })
      await Promise.allSettled(calls)
      const second = await asProgram(t, stateDir, flags)
      for (const execId of started) assert.equal((await second.call('GET', `boxes/b1/execs/${execId}`)).status, 200)
      const records = await Promise.all(
        (await second.client.listExecs('b1')).map(({ execId }) => second.client.waitExec('b1', execId)),
      )
      const ran = (await second.run('b1', 'cat ran || true')).stdout.trim().split('\n').filter(Boolean)
      assert.equal(new Set(ran).size, ran.length, 'twice')
      for (const { execId, exit } of records) {
        const number = execId.slice(1)
        if (exit?.started === false) assert.ok(!ran.includes(number), `${execId} ran, but says it never did`)
        else assert.deepEqual([exit?.cause, exit?.code, ran.includes(number)], ['exited', 5, true], execId)
      }
    })
  })
}

describe('restarts', { skip: withoutBwrap }, async () => {
  test('an exec that ended while no runner was alive keeps its output and its code', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await asProgram(t, stateDir)
    const box = await first.box({ id: 'b1' })
    await first.call('POST', 'boxes/b1/exec', {
      execId: 'e1',
      shell: 'echo up; while [ ! -e go ]; do sleep 0.02; done; echo late; touch done; exit 4',
    })
    for await (const event of first.client.execEvents('b1', 'e1')) if (event.type === 'stdout') break
    await first.kill('SIGKILL')
    const workspace = join(stateDir, 'boxes/default/b1/workspace')
    assert.ok(box.workspace.path === '/workspace' || box.workspace.path === workspace)
    writeFileSync(join(workspace, 'go'), '')
    await until(() => existsSync(join(workspace, 'done')), Boolean)
    const second = await asProgram(t, stateDir)
    const { exit } = await second.client.waitExec('b1', 'e1')
    assert.deepEqual([exit?.cause, exit?.code, exit?.started], ['exited', 4, true])
    assert.equal((await second.client.execOutput('b1', 'e1', 'stdout')).toString(), 'up\nlate\n')
  })

  test('an id started before the kill is never started again; another body is a conflict', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await asProgram(t, stateDir)
    await first.box({ id: 'b1' })
    const body = { execId: 'e1', shell: 'echo ran >> count; sleep 0.5; cat count' }
    const answers = await Promise.all(Array.from({ length: 20 }, () => first.call('POST', 'boxes/b1/exec', body)))
    assert.equal(answers.filter(({ status }) => status === 201).length, 1)
    assert.equal(answers.filter(({ status }) => status === 200).length, 19)
    await first.kill('SIGKILL')
    const second = await asProgram(t, stateDir)
    const again = await second.call('POST', 'boxes/b1/exec', { ...body, timeoutMs: 3_600_000, cwd: '.' })
    assert.equal(again.status, 200, again.text)
    const other = await second.call('POST', 'boxes/b1/exec', { ...body, shell: 'true' })
    assert.deepEqual([other.status, other.json.category], [409, 'exec_conflict'])
    await second.client.waitExec('b1', 'e1')
    assert.equal((await second.run('b1', 'cat count')).stdout, 'ran\n')
  })

  test('boxes are recovered in the state they were in, and so are records', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await asProgram(t, stateDir)
    await first.box({ id: 'up' })
    await first.box({ id: 'down' })
    await first.box({ id: 'gone' })
    await first.run('up', { execId: 'e1', shell: 'echo kept' })
    await first.call('POST', 'boxes/down/stop')
    await first.call('DELETE', 'boxes/gone')
    await first.kill('SIGKILL')
    const unused = join(stateDir, 'boxes/default/up/warm') // an earlier version built sandboxes ahead
    mkdirSync(join(unused, 'lxyz-1'), { recursive: true })
    const second = await asProgram(t, stateDir)
    assert.ok(!existsSync(unused))
    assert.deepEqual(
      (await second.client.listBoxes()).map(({ id, state }) => [id, state]),
      [
        ['down', 'stopped'],
        ['up', 'running'],
      ],
    )
    assert.equal((await second.client.getExec('up', 'e1')).exit?.code, 0)
    assert.equal((await second.client.execOutput('up', 'e1', 'stdout')).toString(), 'kept\n')
    await second.kill('SIGTERM')
  })

  test('SIGTERM tells clients where to resume and leaves execs running, and a client follows an exec across the restart', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await asProgram(t, stateDir)
    await first.box({ id: 'b1' })
    await first.call('POST', 'boxes/b1/exec', {
      execId: 'e1',
      shell: 'for i in $(seq 30); do echo $i; sleep 0.05; done',
    })
    const port = new URL(first.url).port
    const raw = first.events('b1', 'e1')
    const lines: string[] = []
    const following = (async () => {
      for await (const event of first.client.execEvents('b1', 'e1')) {
        if (event.type === 'stdout') lines.push(event.data ?? '')
        if (event.type === 'exit' || event.type === 'fault') return event
      }
      return undefined
    })()
    await until(
      () => lines.length,
      (count) => count > 3,
    )
    first.child.kill('SIGTERM')
    const told = (await raw).at(-1)
    assert.equal(told?.type, 'going-away')
    assert.ok(told !== undefined && told.seq > 3)
    await first.exited
    assert.equal(first.child.exitCode, 0)
    await asProgram(t, stateDir, ['--port', port])
    const last = await following
    assert.equal(last?.type, 'exit', JSON.stringify(last))
    assert.equal(lines.join(''), Array.from({ length: 30 }, (_, i) => `${i + 1}\n`).join(''))
  })

  test('a deadline that passed while no runner was alive is enforced at the restart', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await asProgram(t, stateDir)
    await first.box({ id: 'b1' })
    await first.call('POST', 'boxes/b1/exec', { execId: 'e1', shell: 'echo up; exec sleep 1000', timeoutMs: 400 })
    for await (const event of first.client.execEvents('b1', 'e1')) if (event.type === 'stdout') break
    await first.kill('SIGKILL')
    const second = await asProgram(t, stateDir)
    assert.equal((await second.client.waitExec('b1', 'e1')).exit?.cause, 'timed_out')
  })

  test('after a power cut that lost the folder but not the reservation, the id is known, its outcome is unknown, and it is not started again', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await inProcess(t, { stateDir })
    await first.box({ id: 'b1' })
    const body = { execId: 'e1', shell: 'echo ran >> count' }
    await first.run('b1', body)
    await first.close()
    rmSync(join(stateDir, 'boxes/default/b1/execs/e1'), { recursive: true })
    const clock = { ...systemClock(), machineBootId: 'another-life-of-the-machine' }
    const second = await inProcess(t, { stateDir, clock })
    const again = await second.call('POST', 'boxes/b1/exec', body)
    assert.equal(again.status, 200, again.text)
    const { cause, started, code } = again.json['exit'] as Record<string, unknown>
    assert.deepEqual({ cause, started, code }, { cause: 'runner_lost', started: null, code: null })
    assert.equal((await second.events('b1', 'e1')).at(-1)?.type, 'exit')
    assert.equal((await second.run('b1', 'cat count')).stdout, 'ran\n')
  })

  test('a runner that was killed during an upload removes its remains when it is restarted', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await asProgram(t, stateDir)
    await first.box({ id: 'b1' })
    await first.client.writeFile('b1', 'folder/file', Buffer.from('old'))
    const { hostname, port, host } = new URL(first.url)
    for (const path of ['folder/file', 'not/there/yet']) {
      const socket = connect(Number(port), hostname)
      socket.on('error', () => {}) // the runner is killed
      const head = `PUT /v1/default/boxes/b1/files/${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${first.token}`
      socket.write(`${head}\r\nContent-Length: 1000\r\n\r\nhalf of it`)
    }
    const unfinished = (runner: TestRunner): Promise<number> =>
      runner.client.listFiles('b1', '{.breakfall-*,*/.breakfall-*}').then(({ length }) => length)
    await until(
      () => unfinished(first),
      (count) => count === 2,
    )
    await first.kill('SIGKILL')
    const second = await asProgram(t, stateDir)
    assert.equal(await unfinished(second), 0)
    assert.deepEqual(
      (await second.client.listFiles('b1', '**')).map(({ path }) => path),
      ['folder', 'folder/file'],
    )
    assert.equal((await second.client.readFile('b1', 'folder/file')).bytes.toString(), 'old')
  })

  test('a second runner on the same folder is refused and affects nothing', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await inProcess(t, { stateDir })
    await first.box({ id: 'b1' })
    await assert.rejects(inProcess(t, { stateDir }), /another runner is using/)
    assert.equal((await first.run('b1', 'echo still')).stdout, 'still\n')
    // Any user of the machine can bind an abstract socket, so nothing may depend on one.
    const own = new Set(socketsOf(process.pid))
    const unix = readFileSync('/proc/net/unix', 'utf8')
      .split('\n')
      .map((line) => line.split(/\s+/))
    assert.deepEqual(
      unix.filter(([, , , , , , socket = '', name = '']) => own.has(socket) && name.startsWith('@')),
      [],
    )
  })

  test('a keeper whose folder is gone exits once its command is over', async (t) => {
    const folder = tempFolder(t)
    const first = await asProgram(t, join(folder, 'state'), LEVEL_FLAGS.process)
    await first.box({ id: 'b1' })
    await first.call('POST', 'boxes/b1/exec', {
      execId: 'e1',
      shell: `echo up; while [ -e ${folder}/state ]; do sleep 0.02; done`,
      env: { PATH: '/bin' },
    })
    for await (const event of first.client.execEvents('b1', 'e1')) if (event.type === 'stdout') break
    await first.kill('SIGKILL')
    assert.ok(keepersOf(first.runnerId).length > 0)
    // While the pump still removes its pipes, Node may stop half-way without an error.
    removeFolder(join(folder, 'state'))
    await until(
      () => keepersOf(first.runnerId),
      (found) => found.length === 0,
    )
  })

  test('a finished exec leaves only its record: no pipe, no process, no control group', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    await runner.run('b1', { execId: 'e1', shell: 'echo x' })
    assert.deepEqual(readdirSync(join(runner.stateDir, 'boxes/default/b1/execs/e1')).toSorted(), [
      'exit',
      'index',
      'request.json',
      'stdout',
    ])
    assert.equal(keepersOf(runner.runnerId).length, 1) // the idle keeper
    await runner.call('POST', 'boxes/b1/stop')
    assert.deepEqual(keepersOf(runner.runnerId), [])
    assert.deepEqual(groupsOf(runner.runnerId), [])
  })
})

test('a runner whose parent dies before it can report its address still serves', async (t) => {
  const stateDir = join(tempFolder(t), 'state')
  const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
  const child = spawn(process.execPath, [main, '--json', '--state-dir', stateDir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  child.stdout.destroy()
  const exited = once(child, 'exit')
  atEnd(t, () => void child.kill('SIGKILL'))
  const found = await until(
    async () => readJsonFile(join(stateDir, 'runner.json')) as { url: string } | undefined,
    (file) => file !== undefined,
  )
  const { status } = await fetch(`${found?.url}/v1/health`)
  child.kill('SIGTERM')
  assert.deepEqual([status, ...(await exited)], [200, 0, null])
})
