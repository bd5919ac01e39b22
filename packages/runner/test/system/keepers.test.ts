/** Keepers serve one exec after another: nothing leaks from one to the next, and no keeper outlives its purpose. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import {
  asProgram,
  groupRoots,
  groupsOf,
  inProcess,
  keepersOf,
  LEVEL_FLAGS,
  type TestRunner,
  until,
  withoutBwrap,
  withoutRoot,
} from '../kit.ts'

const PROCESS = { allowIsolation: ['process'], isolation: 'process' } as const

/** Starts an exec and waits for its first output. */
async function startAndSee(runner: TestRunner, execId: string, shell: string): Promise<number> {
  await runner.call('POST', 'boxes/b1/exec', { execId, shell })
  let pid = 0
  for await (const event of runner.client.execEvents('b1', execId)) {
    if (event.type === 'start') pid = event.pid
    if (event.type === 'stdout') break
  }
  return pid
}

const keeperOf = (runner: TestRunner, execId: string): number => {
  const status = readFileSync(join(runner.stateDir, `boxes/default/b1/execs/${execId}/status`), 'latin1')
  return Number(/^keeper (\d+) /m.exec(status)?.[1])
}

const isWithout =
  (pids: readonly number[]) =>
  (found: readonly number[]): boolean =>
    !pids.some((pid) => found.includes(pid))

for (const level of ['bwrap', 'process'] as const) {
  describe(`keepers at level ${level}`, { skip: level === 'bwrap' && withoutBwrap }, async () => {
    test('one keeper serves consecutive execs, and ends with the box', async (t) => {
      const runner = await inProcess(t, { ...PROCESS, isolation: level })
      await runner.box({ id: 'b1' })
      const served = new Set<number>()
      for (let i = 0; i < 5; i += 1) {
        const code = (await runner.run('b1', `exit ${i}`)).exec.exit?.code
        assert.equal(code, i)
        for (const pid of keepersOf(runner.runnerId)) served.add(pid)
      }
      assert.equal(served.size, 1)
      await runner.call('POST', 'boxes/b1/stop')
      assert.deepEqual([keepersOf(runner.runnerId), groupsOf(runner.runnerId)], [[], []])
    })

    test('a keeper that is killed while idle is replaced, and the exec runs once', async (t) => {
      const runner = await inProcess(t, { ...PROCESS, isolation: level })
      await runner.box({ id: 'b1' })
      for (let i = 0; i < 5; i += 1) {
        await runner.run('b1', 'true')
        const pids = keepersOf(runner.runnerId)
        for (const pid of pids) process.kill(pid, 'SIGKILL')
        if (level === 'bwrap') await until(() => keepersOf(runner.runnerId), isWithout(pids)) // one may be about to begin
        const { exec } = await runner.run('b1', `echo ${i} >> ran`)
        assert.deepEqual([exec.exit?.cause, exec.exit?.code], ['exited', 0], JSON.stringify(exec))
      }
      assert.equal((await runner.run('b1', 'cat ran')).stdout, '0\n1\n2\n3\n4\n')
    })

    test('background processes end with their exec, and are not in the groups of the next', async (t) => {
      const runner = await inProcess(t, { ...PROCESS, isolation: level })
      await runner.box({ id: 'b1' })
      for (let i = 0; i < 3; i += 1) {
        const { exec } = await runner.run(
          'b1',
          '(setsid sleep 7790 >/dev/null 2>&1 &) ; sleep 7790 >/dev/null 2>&1 & echo over',
        )
        assert.deepEqual([exec.exit?.cause, exec.exit?.survivors], ['exited', []])
      }
      await startAndSee(runner, 'e1', 'echo up; exec sleep 7791')
      const inGroups = groupsOf(runner.runnerId)
        .flatMap((group) => readFileSync(join(group, 'cgroup.procs'), 'utf8').split('\n'))
        .filter(Boolean)
        .map((pid) => cmdlineOf(Number(pid)))
      assert.deepEqual(
        inGroups.filter((line) => line.includes('7790')),
        [],
      )
    })

    test('after kill -9 of the runner idle keepers exit, and the next start removes their control groups', async (t) => {
      const stateDir = join(tempFolder(t), 'state')
      const flags = level === 'process' ? LEVEL_FLAGS.process : []
      const first = await asProgram(t, stateDir, flags)
      await first.box({ id: 'b1' })
      await first.box({ id: 'b2' })
      await first.run('b1', 'true')
      await first.run('b2', 'true')
      await startAndSee(first, 'e1', 'echo up; while [ ! -e go ]; do sleep 0.02; done; exit 7')
      await first.kill('SIGKILL')
      await until(
        () => keepersOf(first.runnerId).filter((pid) => cmdlineOf(pid).includes('keeper')),
        (found) => found.length === 1, // the keeper with the exec
      )
      const second = await asProgram(t, stateDir, flags)
      await second.call('PUT', 'boxes/b1/files/go', '')
      const { exit } = await second.client.waitExec('b1', 'e1')
      assert.deepEqual([exit?.cause, exit?.code], ['exited', 7])
      await until(
        () => groupsOf(first.runnerId).filter((group) => !/default\.b[12]$/.test(group)),
        (left) => left.length === 0,
      )
    })
  })
}

describe('keepers', async () => {
  test('a runner leaves no control group behind after a shutdown, even if it was killed in between', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await asProgram(t, stateDir, LEVEL_FLAGS.process)
    await first.box({ id: 'b1' })
    await Promise.all([first.run('b1', 'true'), first.run('b1', 'true')])
    await first.kill('SIGKILL')
    const second = await asProgram(t, stateDir, LEVEL_FLAGS.process)
    await second.run('b1', { shell: 'true', execId: 'e1' })
    await second.kill('SIGTERM')
    assert.deepEqual(groupRoots(first.runnerId), [])
  })

  test('a command at level process that kills its keeper is runner_lost, started, without a code; the next one runs normally', async (t) => {
    const runner = await inProcess(t, PROCESS)
    await runner.box({ id: 'b1' })
    const pid = await startAndSee(
      runner,
      'e1',
      'echo up; while [ ! -e go ]; do sleep 0.02; done; kill -9 $PPID; exec sleep 1000',
    )
    assert.ok(pid > 0 && keeperOf(runner, 'e1') > 0)
    await runner.call('PUT', 'boxes/b1/files/go', '')
    const { exit } = await runner.client.waitExec('b1', 'e1')
    assert.deepEqual([exit?.cause, exit?.code, exit?.started, exit?.survivors], ['runner_lost', null, true, []])
    assert.equal((await runner.run('b1', 'echo fine')).stdout, 'fine\n')
  })

  test('a command at level process that changes its keeper does not affect the next command', async (t) => {
    const runner = await inProcess(t, PROCESS)
    await runner.box({ id: 'b1' })
    const look = 'nice; cat /proc/self/oom_score_adj; ulimit -n'
    const before = await runner.run('b1', look)
    await runner.run('b1', 'renice 5 $PPID; echo 500 > /proc/$PPID/oom_score_adj')
    assert.equal((await runner.run('b1', look)).stdout, before.stdout)
  })

  test('a command at level process that empties the status file is still reported as started', async (t) => {
    const runner = await inProcess(t, PROCESS)
    await runner.box({ id: 'b1' })
    for (const shell of [': > /proc/$PPID/fd/2; echo gone; exit 5', ': > /proc/$PPID/fd/2; exit 5']) {
      const { exit } = (await runner.run('b1', shell)).exec
      assert.notEqual(exit?.started, false)
      assert.notEqual(exit?.cause, 'spawn_failed')
    }
  })

  test('a command at level process gets exactly its arguments and its environment', async (t) => {
    const { PATH, LANG } = process.env
    const runner = await inProcess(t, { ...PROCESS, environment: { PATH, LANG, HOME: tempFolder(t) } }) // without toolchains
    await runner.box({ id: 'b1' })
    const odd = Array.from({ length: 0x2_ff }, (_, i) => String.fromCodePoint(i + 1)).join('')
    const words = [odd, '', ' ', "'", "'\\''", '"$(id)"', '`id`', '-n', '--', '\n', '\\', '*', '🥋', '$PATH']
    const env = { OPTIND: 'x', IFS: ' ', PPID: '1', ODD: odd, EMPTY: '', breakfall_id: 'mine' }
    const script = 'process.stdout.write(JSON.stringify([process.argv.slice(1), process.env]))'
    const { stdout, stderr } = await runner.run('b1', {
      command: [process.execPath, '-e', script, '--', ...words],
      env,
    })
    assert.equal(stderr, '')
    const [gotWords, gotEnv] = JSON.parse(stdout) as [string[], Record<string, string>]
    assert.deepEqual(gotWords, words)
    for (const [name, value] of Object.entries(env)) assert.equal(gotEnv[name], value, name)
    const others = Object.keys(gotEnv).filter((name) => !(name in env) && !/^(LC_|LANG|TZ)/.test(name))
    assert.deepEqual(others.toSorted(), [
      'BREAKFALL_KEEPER',
      'HOME',
      'LOGNAME',
      'PATH',
      'PWD',
      'SHELL',
      'TERM',
      'TMPDIR',
      'USER',
    ])
  })

  test(
    'a command that exceeds the process limit of its box is spawn_failed, and nothing ran',
    { skip: withoutRoot },
    async (t) => {
      const runner = await inProcess(t, PROCESS)
      await runner.box({ id: 'b1', limits: { pids: 4 } })
      await startAndSee(runner, 'full', 'sleep 1000 & sleep 1000 & sleep 1000 & echo up; wait')
      const { exec } = await runner.run('b1', 'echo ran > ran')
      const { cause, started, code, reason, diagnostics } = exec.exit ?? {}
      assert.deepEqual([cause, reason, started, code], ['spawn_failed', 'no_process', false, null])
      assert.deepEqual(
        diagnostics?.map(({ id }) => id),
        ['spawn_refused'],
      )
      await runner.call('POST', 'boxes/b1/execs/full/kill')
      assert.equal((await runner.run('b1', 'ls')).stdout, '')
    },
  )
})

function cmdlineOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return '' // it exited meanwhile
  }
}
