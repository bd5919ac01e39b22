/** Deadlines, kills and signals: they end the whole tree, the grace period is real, and the cause is reported. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import { inProcess, type TestRunner, until, withoutBwrap, withoutRoot } from '../kit.ts'

// The programs use the shell's `wait`: dash loses signals that arrive while it forks in a loop.
const ESCAPES = 'setsid sh -c "(setsid sleep 7777 >/dev/null 2>&1 &) ; setsid sleep 7777 &" & sleep 7777 & '

/** Live processes of a runner's execs with this argument. */
function alive(argument: string): readonly string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
      return !stat.includes(') Z ') && readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').includes(argument)
    } catch {
      return false // not a process, or exited meanwhile
    }
  })
}

for (const level of ['bwrap', 'process'] as const) {
  describe(`ending an exec at level ${level}`, { skip: level === 'bwrap' && withoutBwrap }, async () => {
    let runner: TestRunner
    let end = (): unknown => undefined
    before(async () => {
      runner = await inProcess({ after: (clean) => (end = clean) }, { allowIsolation: ['process'], isolation: level })
    })
    after(() => end())
    beforeEach(async () => void (await runner.box({ id: 'b1' })))
    afterEach(async () => void (await runner.call('DELETE', 'boxes/b1')))

    test('a program that handles SIGTERM gets its grace period, prints and exits on its own', async () => {
      const { exec, stdout } = await runner.run('b1', {
        shell: "trap 'echo bye; exit 9' TERM; echo up; sleep 1000 & while :; do wait; done",
        timeoutMs: 300,
        killGraceMs: 5_000,
      })
      assert.equal(stdout, 'up\nbye\n')
      assert.deepEqual([exec.exit?.cause, exec.exit?.code], ['timed_out', 9])
      assert.ok((exec.exit?.durationMs ?? 0) >= 300)
    })

    test('a program that ignores SIGTERM is killed after the grace period, not before', async () => {
      await runner.call('POST', 'boxes/b1/exec', {
        execId: 'e1',
        shell: "trap '' TERM; echo up; while :; do sleep 0.02; done",
        killGraceMs: 300,
      })
      for await (const event of runner.client.execEvents('b1', 'e1')) if (event.type === 'stdout') break
      const from = performance.now()
      const { json } = await runner.call('POST', 'boxes/b1/execs/e1/kill')
      assert.equal((json['exit'] as { cause: string }).cause, 'killed')
      assert.ok(performance.now() - from >= 300)
    })

    test('background children, double forks and setsid children end with their exec', async () => {
      const { exec, stdout } = await runner.run('b1', `${ESCAPES.replaceAll('7777', '7771')} sleep 0.2; echo over`)
      assert.equal(stdout, 'over\n')
      assert.deepEqual([exec.exit?.cause, exec.exit?.code, exec.exit?.survivors], ['exited', 0, []])
      await until(
        () => alive('7771'),
        (found) => found.length === 0,
      )
    })

    test('a deadline also ends processes that left their group', async () => {
      const { exec } = await runner.run('b1', {
        shell: `${ESCAPES.replaceAll('7777', '7772')} wait; sleep 7772`,
        timeoutMs: 300,
        killGraceMs: 100,
      })
      assert.equal(exec.exit?.cause, 'timed_out')
      await until(
        () => alive('7772'),
        (found) => found.length === 0,
      )
    })

    test('kill is idempotent, keeps the record and returns it', async () => {
      await runner.call('POST', 'boxes/b1/exec', { execId: 'e1', command: ['sleep', '7773'] })
      const [one, two] = await Promise.all([
        runner.call('POST', 'boxes/b1/execs/e1/kill'),
        runner.call('POST', 'boxes/b1/execs/e1/kill'),
      ])
      const three = await runner.call('POST', 'boxes/b1/execs/e1/kill')
      for (const answer of [one, two, three]) {
        assert.equal(answer.status, 200)
        assert.equal((answer.json['exit'] as { cause: string }).cause, 'killed')
      }
      await until(
        () => alive('7773'),
        (found) => found.length === 0,
      )
    })

    test('signals reach the command; after its end they are 409, unknown ones 400', async () => {
      await runner.call('POST', 'boxes/b1/exec', {
        execId: 'e1',
        shell: "trap 'echo int' INT; trap 'echo usr; exit 3' USR1; echo up; sleep 1000 & while :; do wait; done",
      })
      const lines: string[] = []
      for await (const event of runner.client.execEvents('b1', 'e1')) {
        if (event.type !== 'stdout') continue
        lines.push(event.data ?? '')
        if (event.data === 'up\n')
          assert.equal((await runner.call('POST', 'boxes/b1/execs/e1/signal', { signal: 'SIGINT' })).status, 200)
        if (event.data?.startsWith('int') === true) await runner.client.signalExec('b1', 'e1', 'SIGUSR1')
      }
      assert.equal(lines.join(''), 'up\nint\nusr\n')
      const { exit } = await runner.client.getExec('b1', 'e1')
      assert.deepEqual([exit?.cause, exit?.code], ['exited', 3])
      const late = await runner.call('POST', 'boxes/b1/execs/e1/signal', { signal: 'SIGINT' })
      assert.deepEqual([late.status, late.json.category], [409, 'exec_finished'])
      assert.equal((await runner.call('POST', 'boxes/b1/execs/e1/signal', { signal: 'SIGNOPE' })).status, 400)
    })

    test('a command that a signal ends is reported as such: proven at level process, guessed in a sandbox', async () => {
      const { exec } = await runner.run('b1', { command: ['sh', '-c', 'kill -SEGV $$'] })
      const { cause, code, signal, signalGuess } = exec.exit ?? {}
      const seen = { cause, code, signal, signalGuess }
      if (level === 'process')
        assert.deepEqual(seen, { cause: 'signaled', code: null, signal: 'SIGSEGV', signalGuess: null })
      else assert.deepEqual(seen, { cause: 'exited', code: 139, signal: null, signalGuess: 'SIGSEGV' })
      const plain = await runner.run('b1', 'exit 139')
      assert.deepEqual([plain.exec.exit?.cause, plain.exec.exit?.code], ['exited', 139])
    })

    test(
      'using more memory than the box has is reported as OOM, and nothing else is affected',
      { skip: withoutRoot },
      async () => {
        await runner.box({ id: 'small', limits: { memoryMb: 64 } })
        const other = runner.run('b1', 'sleep 1; echo fine')
        await runner.call('POST', 'boxes/small/exec', { execId: 'beside', command: ['cat'], stdin: 'pipe' })
        const fill = 'x=$(head -c 300000000 /dev/zero | tr "\\0" a)'
        const { exec } = await runner.run('small', fill)
        assert.equal(exec.exit?.cause, 'oom_killed')
        const child = await runner.run('small', `(${fill}); echo survived; exit 0`)
        assert.deepEqual([child.exec.exit?.cause, child.exec.exit?.code], ['exited', 0])
        assert.ok(
          child.exec.exit?.diagnostics.some(({ id }) => id === 'oom_killed_child'),
          JSON.stringify(child.exec.exit),
        )
        await runner.call('POST', 'boxes/small/exec', { execId: 'hog', shell: fill, background: { timeoutMs: 0 } })
        const hog = await runner.client.waitExec('small', 'hog')
        assert.equal(hog.exit?.cause, 'oom_killed', 'a background process says the same')
        assert.equal(
          (await runner.client.getExec('small', 'beside')).state,
          'running',
          'other commands of the box live',
        )
        const next = await runner.run('small', 'exit 137')
        assert.deepEqual([next.exec.exit?.cause, next.exec.exit?.diagnostics], ['exited', []]) // it does not inherit the earlier kill
        assert.equal((await other).stdout, 'fine\n')
      },
    )

    test(
      'under a fork bomb the runner keeps answering, and the exec ends at its deadline',
      { skip: withoutRoot },
      async () => {
        await runner.box({ id: 'bomb', limits: { pids: 64 } })
        const bomb = runner.run('bomb', {
          shell: 'b() { b | b & }; b; sleep 30',
          timeoutMs: 800,
          killGraceMs: 100,
          outputBytesMax: 10_000_000,
        })
        for (let i = 0; i < 10; i += 1) assert.equal((await runner.call('GET', '/v1/health')).status, 200)
        assert.equal((await runner.run('b1', 'echo fine')).stdout, 'fine\n')
        assert.equal((await bomb).exec.exit?.survivors.length, 0)
      },
    )
  })
}
