/** Sandboxes that are built ahead: the same as any other, used once, never wrong about what ran. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { goText } from '../../src/exec/door.ts'
import { parseStatus } from '../../src/exec/status.ts'
import { findProgram } from '../../src/isolation/find-program.ts'
import { asProgram, inProcess, keepersOf, oneWarm, type RunnerProgram, until, warmOnes, withoutBwrap } from '../kit.ts'

const perl = findProgram('perl', '/usr/bin:/bin')
const PTRACE = { x64: 101, arm64: 117 }[process.arch as string]

const SELF = [
  'id',
  'hostname',
  'pwd',
  'env | sort',
  'grep -E "^(Cap|NoNewPrivs|Seccomp|Sig|Groups)" /proc/self/status',
  'unshare -U true 2>&1 | head -c 20',
  'cut -d" " -f5,6 /proc/self/mountinfo | sort',
  'ls -l /proc/self/fd | grep -o "[0-9]* ->" | sort',
  'ulimit -a',
  'stat -c "%A %u %g %n" /* /dev/*',
  'umask',
  'cat /proc/self/oom_score_adj; echo $PPID',
].join('\n')

describe('a warm sandbox', { skip: withoutBwrap }, async () => {
  test('looks to its command exactly like one that is built for it', async (t) => {
    const runner = await inProcess(t)
    assert.equal((await runner.box({ id: 'b1' })).isolation.warm, true)
    await oneWarm(runner.stateDir)
    const warm = await runner.run('b1', { execId: 'warm', shell: SELF })
    const cold = await runner.run('b1', { execId: 'cold', shell: SELF, stdin: 'pipe' }) // has no warm one
    const plain = (text: string): string => text.replaceAll('execs/warm', 'execs/cold')
    assert.equal(plain(warm.stdout), plain(cold.stdout))
    assert.equal(warm.stderr, cold.stderr)
    assert.deepEqual([warm.exec.exit?.cause, warm.exec.exit?.started, warm.exec.exit?.code], ['exited', true, 0])
  })

  test('is used once: the next command finds no process, no shared memory and no file in /run of the one before', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const look =
      'ls /dev/shm /run; for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline; tr "\\0" "\\n" <$p/environ; done 2>/dev/null; echo end'
    for (let i = 0; i < 3; i += 1) {
      await oneWarm(runner.stateDir)
      const { stdout } = await runner.run('b1', {
        shell: `${look}; echo x >/dev/shm/marker-${i}; echo x >/run/marker-${i}; (setsid sleep 300 &)`,
        env: { MARKER: `marker-${i}` },
      })
      const seen = [...stdout.matchAll(/marker-(\d)/g)].map(([, n]) => Number(n))
      assert.ok(
        seen.every((n) => n === i),
        stdout,
      )
    }
  })

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
      await oneWarm(runner.stateDir)
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

  test('is discarded if its workspace or a guard has changed since', async (t) => {
    const parent = tempFolder(t, 'workspace')
    const project = join(parent, 'project')
    mkdirSync(join(project, '.git/hooks'), { recursive: true })
    writeFileSync(join(project, '.git/config'), 'one')
    const runner = await inProcess(t, { allowWorkspace: [parent] })
    await runner.box({ id: 'b1', workspace: project })
    const [first] = await oneWarm(runner.stateDir)
    writeFileSync(join(project, '.git/next'), 'two')
    renameSync(join(project, '.git/next'), join(project, '.git/config'))
    const { stdout, exec } = await runner.run('b1', 'cat .git/config; test -w .git/config || echo guarded')
    assert.deepEqual([stdout, exec.exit?.diagnostics], ['twoguarded\n', []])
    assert.ok(!existsSync(first ?? ''))
    await oneWarm(runner.stateDir)
    renameSync(project, `${project}-away`)
    mkdirSync(project)
    const refused = await runner.call('POST', 'boxes/b1/exec', { shell: 'echo ran > ran' })
    assert.deepEqual([refused.status, refused.json['reason']], [422, 'cwd_missing'])
    assert.deepEqual(readdirSync(project), [])
  })

  test('gives the command its words and variables unchanged, in any number', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    await oneWarm(runner.stateDir)
    const all = Array.from({ length: 0xff }, (_, i) => String.fromCodePoint(i + 1)).join('')
    const words = [all, '', "'\\''", '-n', '$(id)', ...Array.from({ length: 10 }, () => 'x'.repeat(100_000))]
    const { stdout } = await runner.run('b1', {
      command: ['sh', '-c', 'printf "%s\\0" "$V" "$@"', 'sh', ...words],
      env: { V: all },
    })
    assert.deepEqual(stdout.split('\0').slice(0, -1), [all, ...words])
    for (const env of [
      { 'a.b': '1', 'x-y': "it's" },
      { UID: '5', IFS: 'x', OPTIND: '3', _: 'y', PS4: '$(id)' },
    ]) {
      await oneWarm(runner.stateDir)
      const { stdout: text } = await runner.run('b1', { command: ['env', '-0'], env })
      const seen = Object.fromEntries(
        text.split('\0').map((line) => [line.split('=')[0], line.slice(line.indexOf('=') + 1)]),
      )
      for (const [name, value] of Object.entries(env)) assert.equal(seen[name], value, name)
    }
    await oneWarm(runner.stateDir)
    assert.equal((await runner.run('b1', { shell: 'echo out; echo err >&2; cat', merge: true })).stdout, 'out\nerr\n')
  })

  test('belongs to the boxes that run commands: they take the place of one that only waits', async (t) => {
    const runner = await inProcess(t, { warmAll: 1 })
    await runner.box({ id: 'waits' })
    await oneWarm(runner.stateDir, 'waits')
    await runner.box({ id: 'works' })
    assert.equal((await runner.run('works', 'echo cold')).stdout, 'cold\n')
    await oneWarm(runner.stateDir, 'works')
    await until(
      () => warmOnes(runner.stateDir, 'waits').length,
      (count) => count === 0,
    )
    assert.equal((await runner.run('waits', 'echo ran')).stdout, 'ran\n')
  })

  test('that is killed before it is used costs nothing, and there are never more than four in a box', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    await oneWarm(runner.stateDir)
    for (const pid of keepersOf(runner.runnerId)) process.kill(pid, 'SIGKILL')
    assert.equal((await runner.run('b1', 'echo ran')).stdout, 'ran\n')
    const many = await Promise.all(Array.from({ length: 24 }, (_, i) => runner.run('b1', `echo ${i}`)))
    assert.deepEqual(
      many.map(({ stdout }) => stdout),
      many.map((_, i) => `${i}\n`),
    )
    await until(
      () => warmOnes(runner.stateDir, 'b1').length,
      (count) => count > 1,
    )
    assert.ok(warmOnes(runner.stateDir, 'b1').length <= 4)
    await runner.call('POST', 'boxes/b1/stop')
    assert.deepEqual([warmOnes(runner.stateDir, 'b1'), keepersOf(runner.runnerId)], [[], []])
  })
})

describe('a runner that is killed at a step of a warm exec', { skip: withoutBwrap }, async () => {
  const SHELL = 'echo ran >> ran; while [ ! -e stop ]; do sleep 0.01; done; exit 7'

  async function killedAt(
    t: TestContext,
    step: string,
  ): Promise<{ stateDir: string; ran: () => string; next: () => Promise<RunnerProgram> }> {
    const stateDir = join(mkdtempSync(join(tempFolder(t), 'run-')), 'state')
    const preload = new URL('../programs/dies-at.mjs', import.meta.url).href // as a URL, a path may have spaces
    const env = { ...process.env, DIES_AT: step, NODE_OPTIONS: `--import ${preload}` }
    const runner = await asProgram(t, stateDir, [], {}, {}, env)
    const workspace = join(stateDir, 'boxes/default/b1/workspace')
    const ran = (): string => (existsSync(join(workspace, 'ran')) ? readFileSync(join(workspace, 'ran'), 'utf8') : '')
    await runner.box({ id: 'b1' })
    if (step !== 'made') await oneWarm(stateDir)
    if (step === 'ready') await runner.kill('SIGKILL')
    if (step !== 'made' && step !== 'ready') {
      const started = runner.call('POST', 'boxes/b1/exec', { execId: 'e1', shell: SHELL }).catch(() => undefined)
      if (step === 'begun') {
        await until(ran, (text) => text !== '')
        await runner.kill('SIGKILL')
      }
      await started
    }
    await runner.exited
    await runner.client.close()
    return {
      stateDir,
      ran,
      next: async () => {
        const next = await asProgram(t, stateDir)
        writeFileSync(join(workspace, 'stop'), '')
        return next
      },
    }
  }

  for (const [step, runs] of [
    ['made', undefined],
    ['ready', undefined],
    ['renamed', 0],
    ['written', 0],
    ['claimed', 0],
    ['sent', 1],
    ['begun', 1],
  ] as const) {
    test(`"${step}": ${runs === undefined ? 'leaves nothing, and the next runner serves' : `its id runs ${runs} times, and started is ${runs === 1}`}`, async (t) => {
      const { stateDir, ran, next } = await killedAt(t, step)
      const runner = await next()
      if (runs === undefined) {
        assert.equal((await runner.run('b1', { execId: 'e1', shell: 'echo ran >> ran' })).exec.exit?.code, 0)
        assert.equal(ran(), 'ran\n')
      } else {
        const { exit } = await runner.client.waitExec('b1', 'e1')
        assert.deepEqual([exit?.started, ran()], [runs === 1, 'ran\n'.repeat(runs)], JSON.stringify(exit))
        if (runs === 1) assert.deepEqual([exit?.cause, exit?.code], ['exited', 7])
        const again = await runner.call('POST', 'boxes/b1/exec', { execId: 'e1', shell: SHELL })
        assert.equal(again.status, 200)
        assert.equal(ran(), 'ran\n'.repeat(runs))
      }
      await runner.call('DELETE', 'boxes/b1')
      // Processes of the killed runner notice by themselves.
      await until(
        () => keepersOf(runner.runnerId),
        (left) => left.length === 0,
        30_000,
      )
      assert.ok(!existsSync(join(stateDir, 'boxes/default/b1')))
    })
  }
})

describe(
  'a warm sandbox that is lost after it was taken and before its command began',
  { skip: withoutBwrap },
  async () => {
    for (const loss of ['renamed sandbox', 'renamed keeper', 'claimed sandbox', 'claimed keeper'])
      test(`"${loss}": the command still runs once, in a new sandbox`, async (t) => {
        const preload = new URL('../programs/loses-sandbox.mjs', import.meta.url).href
        const env = { ...process.env, LOSES: loss, NODE_OPTIONS: `--import ${preload}` }
        const runner = await asProgram(t, join(tempFolder(t), 'state'), [], {}, {}, env)
        await runner.box({ id: 'b1' })
        const [first = ''] = await oneWarm(runner.stateDir)
        const { exec, events, stdout } = await runner.run('b1', {
          execId: 'e1',
          shell: 'echo ran >> ran; cat ran; exit 7',
        })
        assert.ok(!existsSync(first))
        assert.equal(stdout, 'ran\n', JSON.stringify(exec.exit))
        assert.deepEqual([exec.exit?.cause, exec.exit?.code, exec.exit?.started], ['exited', 7, true])
        assert.deepEqual(exec.exit?.diagnostics, [])
        assert.deepEqual(
          events.map(({ seq, type }) => `${seq} ${type}`),
          ['1 start', '2 stdout', '3 exit'],
        )
        await runner.call('DELETE', 'boxes/b1')
        await until(
          () => keepersOf(runner.runnerId),
          (left) => left.length === 0,
        )
      })
  },
)

test('the words of a warm exec prove that it began before they start it, and refuse a guard that can be written', () => {
  const job = {
    cwd: '/w',
    environment: { A: "it's" },
    command: ['sh', '-c', 'x'],
    guarded: ['/w/.git/config'],
    merge: true,
    atMs: 5,
    isPlainShell: true,
  }
  const lines = goText(job).split('\n')
  assert.equal(lines[0], "cd -- '/w' || { echo refused >&8; exit 126; }")
  assert.equal(lines[1], "if [ -w '/w/.git/config' ]; then echo refused >&8; exit 126; fi")
  assert.ok(lines.indexOf('echo "begun 5" >&8') < lines.findIndex((line) => line.startsWith("exec 'sh'")))
  assert.match(goText({ ...job, isPlainShell: false }), /exec \/usr\/bin\/env -i 'A'='it'\\''s' 'sh'/)
  const status = parseStatus('keeper 4 k 1\nwarm\npid 5\n{"child-pid": 6}\nready\nbegun 77\nexit 0\n')
  assert.deepEqual([status.warm, status.ready, status.begun, status.atMs, status.sandboxPid], [true, true, true, 77, 6])
})
