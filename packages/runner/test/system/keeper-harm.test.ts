/** Keepers that are stopped, killed, late or tampered with: an exec is reported truthfully, runs once, and leaves nothing to the next. */
import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { describe, test, type TestContext } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { Keepers } from '../../src/box/keepers.ts'
import { RUNNER_DEFAULTS } from '../../src/lib/defaults.ts'
import { EXEC_FILES, removeWorkingFiles } from '../../src/exec/exec-folder.ts'
import { type Job, type Keeper, KEEPER_SCRIPT } from '../../src/exec/keeper.ts'
import { startTimeOf } from '../../src/exec/process-table.ts'
import { findCgroups } from '../../src/isolation/cgroup-find.ts'
import {
  asProgram,
  groupsOf,
  inProcess,
  keepersOf,
  LEVEL_FLAGS,
  type TestRunner,
  until,
  withoutBwrap,
  withoutRoot,
} from '../kit.ts'

const LEVELS = ['bwrap', 'process'] as const
const PROCESS = { allowIsolation: ['process'] } as const
const PLAIN = 12_345 // a user without control groups

/** Two kinds of hosts: root, with control groups if available, and an ordinary user without. */
async function onHost(
  t: TestContext,
  level: (typeof LEVELS)[number],
  uid: number,
  flags: readonly string[] = [],
): Promise<TestRunner> {
  const folder = tempFolder(t)
  chmodSync(folder, 0o755)
  return asProgram(t, join(folder, 'state'), [...LEVEL_FLAGS[level], ...flags], uid === 0 ? {} : { uid, gid: uid })
}

for (const level of LEVELS) {
  describe(`keepers at level ${level}`, { skip: level === 'bwrap' && withoutBwrap }, async () => {
    test('a keeper that was stopped while idle still takes its next job', async (t) => {
      const runner = await inProcess(t, { ...PROCESS, isolation: level })
      await runner.box({ id: 'b1' })
      await runner.run('b1', 'true')
      for (const pid of keepersOf(runner.runnerId)) process.kill(pid, 'SIGSTOP')
      const { exec, stdout } = await runner.run('b1', { shell: 'echo ran; exit 3', timeoutMs: 9_000 })
      assert.deepEqual([exec.exit?.cause, exec.exit?.code, stdout], ['exited', 3, 'ran\n'])
    })

    test('a keeper that was stopped while its command ran still reports the end', async (t) => {
      const runner = await inProcess(t, { ...PROCESS, isolation: level })
      await runner.box({ id: 'b1' })
      await runner.call('POST', 'boxes/b1/exec', {
        execId: 'e1',
        shell: 'echo up; while [ ! -e go ]; do sleep 0.02; done; exit 4',
        timeoutMs: 9_000,
      })
      for await (const event of runner.client.execEvents('b1', 'e1')) if (event.type === 'stdout') break
      const status = readFileSync(join(runner.stateDir, 'boxes/default/b1/execs/e1/status'), 'latin1')
      process.kill(Number(/^keeper (\d+) /m.exec(status)?.[1]), 'SIGSTOP')
      await runner.call('PUT', 'boxes/b1/files/go', '')
      const { exit } = await runner.client.waitExec('b1', 'e1')
      assert.deepEqual([exit?.cause, exit?.code], ['exited', 4])
    })

    for (const uid of [0, PLAIN]) {
      const skip = withoutRoot // needed to test both
      const who = uid === 0 ? 'root' : 'a plain user'

      test(`an exec inherits nothing from the one before it (${who})`, { skip }, async (t) => {
        const runner = await onHost(t, level, uid)
        await runner.box({ id: 'b1' })
        const before = await runner.run('b1', { shell: SELF, execId: 'e1' })
        assert.equal(before.stderr, '')
        let isReused = false // a busy machine may need a second keeper
        for (let round = 2; round < 12 && !isReused; round += 1) {
          const keepers = keepersOf(runner.runnerId)
          const harm = await runner.run('b1', HARM)
          assert.equal(harm.exec.exit?.code, 3, harm.stderr)
          const after = await runner.run('b1', { shell: SELF, execId: `e${round}` })
          assert.equal(after.stdout.replaceAll(`execs/e${round}/`, 'execs/e1/'), before.stdout)
          isReused = isDeepStrictEqual(keepersOf(runner.runnerId), keepers)
        }
        assert.ok(isReused, 'it was never the same keeper')
      })

      test(`a command gets exactly its arguments, in any folder (${who})`, { skip }, async (t) => {
        const runner = await onHost(t, level, uid)
        await runner.box({ id: 'b1' })
        const all = Array.from({ length: 0x2_ff }, (_, i) => String.fromCodePoint(i + 1)).join('')
        const words = [all, '', ' ', "'\\''", '"$(id)"', '`id`', '--', '\n', '\\\n', '*', '🥋', 'x'.repeat(100_000)]
        const cwd = `-odd 'name' $(id) *\n`
        await runner.run('b1', { command: ['mkdir', '--', cwd] })
        const { stdout, stderr } = await runner.run('b1', {
          command: ['sh', '-c', 'pwd; printf "%s\\0" "$LONG" "$@"', 'sh', ...words],
          env: { LONG: all.repeat(50) },
          cwd,
        })
        assert.equal(stderr, '')
        const [place = '', rest = ''] = stdout.split('\n\n', 2)
        assert.ok(place.endsWith(cwd.trim()), place)
        assert.equal(
          stdout.slice(place.length + 2),
          [all.repeat(50), ...words].map((word) => `${word}\0`).join(''),
          rest,
        )
      })
    }
  })
}

describe('in a sandbox', { skip: withoutBwrap }, async () => {
  test('a command can reach neither its status file nor anything else of its keeper', async (t) => {
    const workspace = tempFolder(t, 'workspace')
    const other = tempFolder(t, 'workspace')
    if (withoutRoot === false) chownSync(other, 1234, 1234)
    const runner = await inProcess(t, { allowWorkspace: [workspace, other] })
    for (const [i, place] of [undefined, workspace, other].entries()) {
      await runner.box({ id: `b${i}`, workspace: place })
      const look =
        'for f in /proc/[0-9]*/fd/*; do readlink "$f"; done; for f in /proc/1/fd/*; do echo "exit 0" > "$f"; done 2>/dev/null; exit 7'
      const { exec, stdout } = await runner.run(`b${i}`, { shell: look, execId: 'e1', stdin: 'pipe' })
      const reached = new Set(stdout.split('\n').filter((line) => line !== 'exit 0'))
      const folder = join(runner.stateDir, `boxes/default/b${i}/execs/e1`)
      const own = ['in', 'out', 'err'].map((name) => join(folder, `${name}.fifo`))
      const others = [...reached].filter(
        (path) => !own.includes(path) && !/^($|\/dev\/null$|anon_inode:|\/proc\/)/.test(path),
      )
      assert.deepEqual(others, [], place)
      assert.deepEqual([exec.exit?.cause, exec.exit?.code], ['exited', 7])
    }
  })

  test('a command with more arguments than a sandbox accepts is refused before anything is created', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const env = (count: number): Record<string, string> =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`V${i}`, '']))
    const words = (count: number): string[] => ['sh', '-c', 'echo $#', ...Array.from({ length: count }, () => 'w')]
    for (const body of [{ command: words(9_500) }, { command: words(0), env: env(3_500) }]) {
      const answer = await runner.call('POST', 'boxes/b1/exec', { execId: 'e1', ...body })
      assert.deepEqual([answer.status, answer.json['reason']], [422, 'argument_too_long'], answer.text.slice(0, 500))
    }
    assert.equal((await runner.call('GET', 'boxes/b1/execs/e1')).status, 404)
    assert.equal((await runner.run('b1', { command: words(5_000), env: env(900) })).stdout, '4999\n')
  })
})

describe('keepers', async () => {
  test('an exec whose keeper was killed before it took the job gets a new keeper, not another idle one', async (t) => {
    const { folder, keepers } = keepersOfBox(t)
    const two = ['e1', 'e2'].map((execId) => keepers.run(makeJob(folder, execId, 'true'), () => {}, false))
    for (const [i, keeper] of two.entries()) {
      await until(
        () => readFileSync(join(folder, `e${i + 1}/status`), 'latin1'),
        (status) => status.includes('exit 0'),
      )
      keepers.giveBack(keeper, true)
    }
    const first = keepers.run(makeJob(folder, 'e3', 'true'), () => {}, false)
    const second = keepers.run(makeJob(folder, 'e4', 'true'), () => {}, true)
    assert.ok(two.includes(first))
    assert.ok(!two.includes(second))
    for (const keeper of [first, second]) keepers.giveBack(keeper, false)
  })

  test('the limit for idle keepers holds for all boxes together', async (t) => {
    const { folder, keepers, count } = keepersOfBox(t)
    const serve = async (execId: string): Promise<Keeper> => {
      const keeper = keepers.run(makeJob(folder, execId, 'true'), () => {}, true)
      await until(
        () => readFileSync(join(folder, execId, 'status'), 'latin1'),
        (status) => status.includes('exit 0'),
      )
      keepers.giveBack(keeper, true)
      return keeper
    }
    count.idle = RUNNER_DEFAULTS.keepersIdleAll - 1 // in other boxes
    const [first, second] = [await serve('e1'), await serve('e2')]
    await second.gone
    assert.deepEqual([first.isGone, count.idle], [false, RUNNER_DEFAULTS.keepersIdleAll])
    process.kill(first.pid as number, 'SIGKILL')
    await first.gone
    assert.equal(count.idle, RUNNER_DEFAULTS.keepersIdleAll - 1)
  })

  test('a late keeper whose job is already over runs nothing, claims nothing and exits', async (t) => {
    const folder = tempFolder(t)
    const job = makeJob(folder, 'e1', 'touch ../ran')
    removeWorkingFiles(join(folder, 'e1'))
    const keeper = scriptFor(t, folder)
    keeper.stdin.end(lineOf(job))
    await once(keeper, 'exit')
    assert.deepEqual([existsSync(join(folder, 'ran')), existsSync(join(folder, 'e1/started'))], [false, false])
  })

  test('a keeper that exits on its own also ends the holder of its input', async (t) => {
    const folder = tempFolder(t)
    const job = { ...makeJob(folder, 'e1', 'true'), stdin: 'in.fifo' }
    execFileSync('mkfifo', [join(folder, 'e1/in.fifo')])
    const sleep = join(folder, 'sleep') // ten seconds would be too long
    writeFileSync(sleep, '#!/bin/sh\n[ "$1" = 10 ] && exec sleep 0.05\nexec sleep "$1"\n', { mode: 0o755 })
    const keeper = scriptFor(t, folder, sleep)
    keeper.stdin.end(lineOf(job))
    const status = await until(
      () => readFileSync(join(folder, 'e1/status'), 'latin1'),
      (text) => text.includes('exit 0'),
    )
    const holder = Number(/^holder (\d+)$/m.exec(status)?.[1])
    assert.notEqual(startTimeOf(holder), undefined)
    removeWorkingFiles(join(folder, 'e1'))
    await once(keeper, 'exit')
    await until(
      () => startTimeOf(holder),
      (time) => time === undefined,
    )
  })

  test('the launch file is removed before the claim when an exec is cleaned up', (t) => {
    const folder = join(tempFolder(t), 'e1')
    mkdirSync(join(folder, EXEC_FILES.launch), { recursive: true }) // a folder cannot be unlinked
    writeFileSync(join(folder, EXEC_FILES.claim), '')
    assert.throws(() => removeWorkingFiles(folder))
    assert.ok(existsSync(join(folder, EXEC_FILES.claim)))
  })

  test('a keeper that a command moved out of its control groups is not reused', { skip: withoutRoot }, async (t) => {
    const runner = await inProcess(t, { ...PROCESS, isolation: 'process' })
    await runner.box({ id: 'b1' })
    await runner.run('b1', 'true')
    const [before] = keepersOf(runner.runnerId)
    const top = groupsOf(runner.runnerId).map((group) => join(group, '../../../cgroup.procs'))
    const groups = top.filter((file) => existsSync(file)).join(' ')
    await runner.run('b1', `for g in ${groups}; do echo $PPID > $g; done`)
    await runner.run('b1', 'true')
    assert.ok(!keepersOf(runner.runnerId).includes(before ?? 0))
  })
})

// ---- details ----

/** What a process inherits. Without a sandbox the mounts are the machine's own. */
const SELF = [
  'pwd; umask; ulimit -a; env | sort | grep -v "^BREAKFALL_KEEPER=\\|^_="; trap',
  'grep "^Sig[^Q]\\|^Shd\\|^Cap\\|^NoNew\\|^Groups\\|^Uid\\|^Cpus_allowed:" /proc/self/status',
  'cut -d" " -f19,41 /proc/self/stat; ionice -p $$; cat /proc/self/oom_score_adj /proc/self/coredump_filter',
  '[ $$ -gt 10 ] || cut -d" " -f4- /proc/self/mountinfo',
  'for n in 0 1 2 3 4 5 6 7 8 9 10 11; do readlink /proc/$$/fd/$n && echo "is $n"; done',
  'cat',
].join('; ')

const HARM =
  'cd /; umask 077; ulimit -n 50; trap "" INT TERM HUP; export LEFT=1; renice 10 $$ >/dev/null; ionice -c3 -p $$; (setsid sleep 7793 >/dev/null 2>&1 &); exec 7>/dev/null; exit 3'

/** The keepers of a box on a host without control groups. */
function keepersOfBox(t: TestContext): { folder: string; keepers: Keepers; count: { made: number; idle: number } } {
  const folder = tempFolder(t)
  const count = { made: 0, idle: 0, hasCollected: false }
  const host = {
    cgroups: findCgroups('none', '', ''),
    runnerId: 'r',
    bootId: '000000000000',
    keepers: count,
    programs: { sleep: '/bin/sleep' },
    inherited: [],
    keyring: [],
  }
  const keepers = new Keepers(host, { groupName: 'default.b1', execs: folder, pids: () => null })
  atEnd(t, () => keepers.close())
  return { folder, keepers, count }
}

/** A folder for a job, as the runner makes it. */
function makeJob(folder: string, execId: string, command: string): Job {
  const at = join(folder, execId)
  mkdirSync(at)
  writeFileSync(join(at, 'launch'), `set -- ${command}\n`)
  for (const name of ['status', 'out.fifo', 'err.fifo']) writeFileSync(join(at, name), '')
  return { execId, mode: 'plain', stdin: undefined, stderr: 'err.fifo', atMs: 1 }
}

const lineOf = (job: Job): string => `${job.execId} ${job.mode} ${job.stdin ?? '-'} ${job.stderr} ${job.atMs}\n`

function scriptFor(t: TestContext, folder: string, sleep = '/bin/sleep'): ChildProcessByStdio<Writable, null, null> {
  const child = spawn('/bin/sh', ['-c', KEEPER_SCRIPT, 'keeper', folder, 'name', sleep], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  t.after(() => child.kill('SIGKILL'))
  return child
}
