/** What a box can and cannot reach, and that its record reports that truthfully. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { findProgram } from '../../src/isolation/find-program.ts'
import { asProgram, inProcess, withoutBwrap, withoutRoot } from '../kit.ts'

const perl = findProgram('perl', '/usr/bin:/bin')
const PTRACE = { x64: 101, arm64: 117 }[process.arch as string]

describe('a box at level bwrap', { skip: withoutBwrap }, async () => {
  test(
    'has no process of another one: a command that attaches to every process it finds, finds only its own',
    {
      skip: perl === null ? 'perl is not installed' : PTRACE === undefined && 'the number of ptrace is not known here',
    },
    async (t) => {
      const runner = await inProcess(t)
      assert.equal((await runner.box({ id: 'b1' })).isolation.level, 'bwrap')
      const canary = join(tempFolder(t), 'canary')
      writeFileSync(canary, 'secret')
      const program = readFileSync(new URL('../programs/ptraces-everyone.pl', import.meta.url), 'utf8')
      const command = [perl ?? '', '-e', program, String(PTRACE), canary]
      await runner.call('POST', 'boxes/b1/exec', { execId: 'hostile', command })
      for await (const event of runner.client.execEvents('b1', 'hostile'))
        if (event.type === 'stdout' && event.data?.includes('ready') === true) break
      for (let i = 0; i < 5; i += 1) {
        const { stdout } = await runner.run('b1', { shell: 'echo $MARKER', env: { MARKER: `marker${i}` } })
        assert.equal(stdout, `marker${i}\n`)
      }
      await runner.run('b1', 'touch stop')
      const { exit } = await runner.client.waitExec('b1', 'hostile')
      assert.equal(exit?.code, 0)
      const lines = (await runner.client.execOutput('b1', 'hostile', 'stdout')).toString().split('\n')
      assert.ok(lines.includes('attached: own child'), 'ptrace works in a box')
      const own = /^(?:ready|attached: (?:own child|1)|process: \S*(?:bwrap|perl)|)$/ // 1 is the init of its own sandbox
      assert.deepEqual(
        lines.filter((line) => !own.test(line)),
        [],
      )
    },
  )

  test("cannot read /etc/shadow, the runner's state, other boxes, or the host's processes", async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'other' })
    await runner.run('other', 'echo secret-of-other > file')
    await runner.box({ id: 'b1' })
    const { stdout } = await runner.run('b1', {
      shell: `cat /etc/shadow; cat ${runner.stateDir}/token; ls ${runner.stateDir}; cat ${runner.stateDir}/boxes/default/other/workspace/file; ls /root /home; cat /proc/${process.pid}/cmdline; ls /proc | grep -c '^[0-9]'; ls /sys; echo end`,
      merge: true,
    })
    assert.ok(
      !stdout.includes('root:$') && !stdout.includes(runner.token) && !stdout.includes('secret-of-other'),
      stdout,
    )
    assert.match(stdout, /\/etc\/shadow: No such file/)
    assert.ok(Number(/^(\d+)$/m.exec(stdout)?.[1]) < 10, stdout)
    assert.match(stdout, /end\n$/)
  })

  test('with network "none" reaches nothing, not even the loopback of the host; with "host" it does', async (t) => {
    const runner = await inProcess(t)
    const server = createServer((socket) => socket.end('hello')).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.after(() => server.close())
    const { port } = server.address() as { port: number }
    const script = `exec 3<>/dev/tcp/127.0.0.1/${port} && head -c 5 <&3`
    assert.equal((await runner.box({ id: 'none' })).isolation.netns, true)
    const shut = await runner.run('none', { command: ['bash', '-c', script] })
    assert.notEqual(shut.exec.exit?.code, 0)
    assert.equal(shut.stdout, '')
    assert.equal((await runner.box({ id: 'host', network: 'host' })).isolation.netns, false)
    assert.equal((await runner.run('host', { command: ['bash', '-c', script] })).stdout, 'hello')
  })

  test('has only the allow-listed environment, plus the box’s and the exec’s', async (t) => {
    const runner = await inProcess(t, {
      environment: { ...process.env, SECRET_KEY: 'hunter2', LD_PRELOAD_X: '1', TZ: 'UTC' },
    })
    await runner.box({ id: 'b1', env: { FROM_BOX: '1', BOTH: 'box' } })
    const { stdout } = await runner.run('b1', { command: ['env'], env: { FROM_EXEC: '2', BOTH: 'exec' } })
    const names = stdout
      .trim()
      .split('\n')
      .map((line) => line.split('=')[0] ?? '')
      .toSorted()
    assert.deepEqual(
      names.filter((name) => !['LANG', 'LC_ALL', 'LC_CTYPE'].includes(name)),
      ['BOTH', 'FROM_BOX', 'FROM_EXEC', 'HOME', 'LOGNAME', 'PATH', 'PWD', 'SHELL', 'TERM', 'TMPDIR', 'TZ', 'USER'],
    )
    assert.match(stdout, /^BOTH=exec$/m)
  })

  test('has no capabilities, no new privileges, a read-only root, and read-only kernel settings', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const { stdout } = await runner.run('b1', {
      shell:
        'grep -E "^(CapEff|CapBnd|NoNewPrivs)" /proc/self/status; touch /x /usr/x /etc/x; test -w /proc/sys/kernel/core_pattern && echo writable; test -w /proc/sysrq-trigger && echo writable; unshare -U true; mount -t tmpfs t /tmp; echo end',
      merge: true,
    })
    assert.match(stdout, /CapEff:\t0+\n/)
    assert.match(stdout, /NoNewPrivs:\t1/)
    for (const path of ['/x', '/usr/x', '/etc/x'])
      assert.match(
        stdout,
        new RegExp(`${path.replaceAll('/', '\\/')}'?:? .*(Read-only|Permission|denied|read-only)`, 'i'),
        stdout,
      )
    assert.ok(!stdout.includes('writable'), stdout)
    assert.match(stdout, /unshare: .*failed/)
    assert.match(stdout, /mount: /)
  })

  test('keeps files in /workspace, /tmp and home between execs', async (t) => {
    const runner = await inProcess(t)
    const box = await runner.box({ id: 'b1' })
    assert.deepEqual(box.workspace, { kind: 'private', path: '/workspace' })
    await runner.run('b1', 'echo 1 > a; echo 2 > /tmp/b; echo 3 > ~/c; mkdir sub')
    const { stdout } = await runner.run('b1', { shell: 'pwd; cat ../a /tmp/b ~/c', cwd: 'sub' })
    assert.equal(stdout, '/workspace/sub\n1\n2\n3\n')
  })

  test('leaks no descriptor of the runner into a command', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const { stdout } = await runner.run('b1', 'ls -l /proc/self/fd')
    // This process may have inherited descriptors itself; none of ours may be among them.
    const ours = [...stdout.matchAll(/ (\d+) -> (.*)/g)].filter(([, , target]) => target?.includes(runner.stateDir))
    assert.deepEqual(
      ours.map(([, fd]) => fd),
      ['1', '2'],
    )
  })
})

describe('limits', { skip: withoutRoot || withoutBwrap }, async () => {
  for (const level of ['bwrap', 'process'] as const) {
    test(`a command at level ${level} is in every control group that the box's record names`, async (t) => {
      const runner = await inProcess(t, { allowIsolation: ['process'], isolation: level })
      const box = await runner.box({ id: 'b1', limits: { cpus: 1, memoryMb: 128, pids: 99 } })
      assert.deepEqual(box.limits, { memoryMb: 128, pids: 99, cpus: 1, execsMax: 32, processesMax: 8 })
      await runner.call('POST', 'boxes/b1/exec', { execId: 'e1', shell: 'echo up; exec sleep 100' })
      let pid = 0
      for await (const event of runner.client.execEvents('b1', 'e1')) {
        if (event.type === 'start') pid = event.pid
        if (event.type === 'stdout') break
      }
      const groups = readFileSync(`/proc/${pid}/cgroup`, 'utf8')
        .split('\n')
        .filter((line) => line.includes(`breakfall-${runner.runnerId}/default.b1`))
      const named = groups.flatMap((line) => line.split(':')[1]?.split(',') ?? [])
      // Version 2 has one group for all controllers, version 1 one for each.
      if (!named.includes('memory')) assert.ok(named.includes(''), groups.join())
      else for (const controller of ['memory', 'pids', 'cpu']) assert.ok(named.includes(controller), groups.join())
    })
  }

  test('pids counts the command and everything it starts, and none of our processes', async (t) => {
    const runner = await inProcess(t)
    const { isolation } = await runner.box({ id: 'b1', limits: { pids: 12 } })
    if (!isolation.pidsLimit) return t.skip('there is no control group for pids')
    const { stdout } = await runner.run('b1', {
      command: [
        'perl',
        '-e',
        'my $n = 1; while (defined(my $pid = fork)) { if ($pid == 0) { sleep 60; exit } $n++ } print $n; kill 9, -getpgrp',
      ],
    })
    assert.equal(stdout, '12')
  })
})

describe('a host folder as workspace', { skip: withoutBwrap }, async () => {
  test(
    'is mounted at its own path, is written as its owner, and has read-only git hooks and config',
    { skip: withoutRoot },
    async (t) => {
      const parent = tempFolder(t, 'workspace')
      chmodSync(parent, 0o755)
      const folder = join(parent, 'project')
      mkdirSync(join(folder, '.git/hooks'), { recursive: true })
      writeFileSync(join(folder, '.git/config'), 'original')
      writeFileSync(join(folder, 'breakfall.toml'), 'original')
      for (const path of ['', '.git', '.git/hooks', '.git/config', 'breakfall.toml'])
        chownSync(join(folder, path), 1234, 1235)
      const runner = await inProcess(t, { allowWorkspace: [parent] })
      const box = await runner.box({ id: 'b1', workspace: folder })
      assert.deepEqual(box.workspace, { kind: 'host', path: folder })
      const { stdout } = await runner.run('b1', {
        shell:
          'pwd; id -u; id -g; whoami; echo new > made; echo x > .git/hooks/pre-commit; echo x > .git/config; echo x >> breakfall.toml; mv .git gone; echo ok > .git/HEAD; echo tee | tee /dev/stderr; cat /etc/shadow; grep CapEff /proc/self/status',
        merge: true,
      })
      assert.match(stdout, new RegExp(`^${folder}\n1234\n1235\nbox\n`))
      const stat = statSync(join(folder, 'made'))
      assert.deepEqual([stat.uid, stat.gid], [1234, 1235])
      assert.equal(existsSync(join(folder, '.git/hooks/pre-commit')), false)
      assert.equal(
        readFileSync(join(folder, '.git/config'), 'utf8') + readFileSync(join(folder, 'breakfall.toml'), 'utf8'),
        'originaloriginal',
      )
      assert.equal(readFileSync(join(folder, '.git/HEAD'), 'utf8'), 'ok\n')
      assert.match(stdout, /CapEff:\t0+\n/)
      assert.match(stdout, /tee\ntee\n/)
      const put = await runner.call('PUT', 'boxes/b1/files/.git/hooks/pre-commit', 'x')
      assert.equal(put.status, 403, put.text)
      const ok = await runner.call('PUT', 'boxes/b1/files/src/new.txt', 'x')
      assert.equal(ok.status, 201, ok.text)
      assert.deepEqual([statSync(join(folder, 'src')).uid, statSync(join(folder, 'src/new.txt')).uid], [1234, 1234])
    },
  )

  test('is refused, with the field named, if it is not allowed, contains private folders, or does not exist', async (t) => {
    const parent = tempFolder(t, 'workspace')
    const runner = await inProcess(t, { allowWorkspace: [parent, '/'] })
    for (const workspace of [
      '/',
      runner.stateDir,
      join(runner.stateDir, '..'),
      process.env['HOME'] ?? '/root',
      'relative',
      join(parent, 'missing'),
    ]) {
      const answer = await runner.call('POST', 'boxes', { id: 'b1', workspace })
      assert.equal(answer.status, 400, `${workspace}: ${answer.text}`)
      assert.equal((answer.json['errors'] as { field: string }[])[0]?.field, 'workspace')
    }
    for (const folder of ['allowed', 'allowed-not']) mkdirSync(join(parent, folder))
    const strict = await inProcess(t, { allowWorkspace: [join(parent, 'allowed')] })
    symlinkSync(join(parent, 'allowed-not'), join(parent, 'allowed/link-out'))
    writeFileSync(join(parent, 'allowed/a-file'), 'x')
    for (const name of ['', 'allowed-not', 'allowed/link-out', 'allowed/../allowed-not', 'allowed/a-file'])
      assert.equal((await strict.call('POST', 'boxes', { workspace: `${parent}/${name}` })).status, 400, name)
    assert.deepEqual(await strict.client.listBoxes(), [])
    assert.equal((await runner.call('GET', 'boxes/b1')).status, 404)
  })
})

describe('the level of isolation', async () => {
  test('without bwrap, or with one that fails, and without the opt-in the runner starts, and creating a box is 501', async (t) => {
    const broken = tempFolder(t, 'broken')
    writeFileSync(join(broken, 'bwrap'), '#!/bin/sh\necho "bwrap: no permission" >&2\nexit 1\n', { mode: 0o755 })
    for (const PATH of ['/nonexistent', `${broken}:${process.env['PATH']}`]) {
      const runner = await inProcess(t, { environment: { PATH } })
      assert.equal((await runner.call('GET', '/v1/health')).status, 200)
      const refused = await runner.call('POST', 'boxes', { id: 'b1' })
      assert.deepEqual([refused.status, refused.json.category], [501, 'isolation_unavailable'])
      assert.equal((await runner.call('GET', 'boxes/b1')).status, 404)
    }
  })

  test('with the opt-in and without bwrap it is "process", the record says so, and what it cannot provide is 501', async (t) => {
    const runner = await asProgram(t, join(tempFolder(t), 'state'), [
      '--allow-isolation',
      'process',
      '--isolation',
      'process',
    ])
    assert.equal((await runner.call('GET', '/v1/config')).status, 200)
    const refused = await runner.call('POST', 'boxes', { isolation: { min: 'bwrap' } })
    assert.deepEqual([refused.status, refused.json.category], [501, 'isolation_unavailable'])
    const asked = await runner.call('POST', 'boxes', { network: 'none' })
    assert.deepEqual([asked.status, asked.json.category], [501, 'isolation_unavailable'])
    const box = await runner.box({ id: 'b1' })
    assert.deepEqual(
      [box.isolation.level, box.isolation.pidns, box.isolation.netns, box.network],
      ['process', false, false, 'host'],
    )
    assert.equal((await runner.run('b1', 'pwd')).stdout.trim(), box.workspace.path)
  })

  test(
    'a runner without root has the same sandbox, and reports which limits it cannot enforce',
    { skip: withoutRoot || withoutBwrap },
    async (t) => {
      const folder = tempFolder(t)
      chmodSync(folder, 0o777)
      const runner = await asProgram(t, join(folder, 'state'), [], { uid: 65_534, gid: 65_534 })
      const box = await runner.box({ id: 'b1' })
      assert.deepEqual(
        [box.isolation.level, box.isolation.userns, box.isolation.memoryLimit, box.limits.memoryMb, box.limits.pids],
        ['bwrap', true, false, null, null],
      )
      const { stdout, stderr } = await runner.run(
        'b1',
        'id -u; echo hi | tee /dev/stderr; (setsid sleep 7766 &); cat /etc/shadow || true',
      )
      assert.equal(stdout, '65534\nhi\n')
      assert.match(stderr, /^hi\n/)
      const limited = await runner.call('POST', 'boxes', { limits: { memoryMb: 64 } })
      assert.deepEqual([limited.status, limited.json.category], [501, 'isolation_unavailable'])
      assert.equal((await runner.call('PUT', 'boxes/b1/files/a/b.txt', 'x')).status, 201)
    },
  )
})
