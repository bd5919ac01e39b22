/**
 * A machine whose PID 1 never collects ended processes, which is a slow one taken to the extreme: here the runner itself is PID 1 of
 * its own process namespace, as in a container without an init. Every ended process counts against the limit of its box forever.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { tempFolder } from '../../../../test/kit/folder.ts'
import { startTimeOf } from '../../src/exec/process-table.ts'
import { asProgram, groupRoots, until, withoutBwrap, withoutRoot } from '../kit.ts'

const PIDS = 8
const COMMANDS = 30
/** Starts a program as PID 1. SIGTERM ends it and everything it started. */
const ALONE = ['sh', '-c', 'unshare --pid --fork --mount-proc --kill-child "$@" & trap "kill -9 $!" TERM; wait', 'sh']
/** The same, but PID 1 is a shell that collects what has ended whenever it reads a line from a pipe. */
const LATE = [...ALONE, 'sh', '-c', 'late=$1; shift; "$@" & while read -r line; do /bin/true; done <"$late"', 'sh']
const file = { after: (clean: () => unknown) => after(async () => void (await clean())) }

describe('on a machine whose PID 1 collects no ended processes', { skip: withoutRoot || withoutBwrap }, async () => {
  const flags = ['--allow-isolation', 'process']
  const runner = await asProgram(file, join(tempFolder(file), 'state'), flags, {}, {}, process.env, ALONE)

  for (const level of ['bwrap', 'process'] as const)
    test(`level ${level}: no command fails because earlier ones ended, and the limit for living processes holds`, async () => {
      const box = await runner.box({ id: level, isolation: { level }, limits: { pids: PIDS } })
      assert.equal(box.isolation.level, level)
      for (let i = 0; i < COMMANDS; i += 1) {
        const { exec, stdout, stderr } = await runner.run(
          level,
          'for n in 1 2; do (setsid sleep 1000 &); done; echo ran',
        )
        assert.deepEqual([exec.exit?.cause, stdout], ['exited', 'ran\n'], `command ${i}: ${stderr}`)
      }
      const uncollected = pidsOf(runner.runnerId, level)
      assert.ok(uncollected > COMMANDS, `${uncollected} processes: this machine collects them after all`)
      const bomb = await runner.run(level, `n=0; trap 'echo $n' EXIT; while n=$((n + 1)); do sleep 1000 & done`)
      const living = Number(/\d+/.exec(bomb.stdout)?.[0])
      assert.ok(living >= 1 && living < PIDS * 2, `${living} processes at a limit of ${PIDS}: ${bomb.stderr}`)
    })
})

describe('on a machine whose PID 1 collects ended processes late', { skip: withoutRoot }, () => {
  test('fork bombs that are ended again and again do not get more than twice the limit', async (t) => {
    const folder = tempFolder(t)
    const pipe = join(folder, 'late')
    execFileSync('mkfifo', [pipe])
    const late = openSync(pipe, constants.O_RDWR)
    t.after(() => closeSync(late))
    const flags = ['--allow-isolation', 'process', '--isolation', 'process']
    const runner = await asProgram(t, join(folder, 'state'), flags, {}, {}, process.env, [...LATE, pipe])
    const collect = (): number => writeSync(late, '\n')
    const limit = 64 // the least that ended processes may add
    await runner.box({ id: 'bombs', limits: { pids: limit } })
    const max = (): number => pidsOf(runner.runnerId, 'bombs', 'max')
    /** Resolves after the runner has looked at what has ended. Only then does the limit fall that a command with input had raised. */
    const looked = async (): Promise<void> => {
      const before = max()
      await runner.call('POST', 'boxes/bombs/exec', { command: ['cat'], stdin: 'pipe', execId: 'input' })
      const raised = await until(max, (pids) => pids > before)
      await runner.call('POST', 'boxes/bombs/execs/input/kill', {})
      await until(max, (pids) => pids < raised)
    }
    await runner.run('bombs', BOMB)
    await until(max, (pids) => pids > limit + OURS) // the runner counts what has ended
    collect()
    await until(max, (pids) => pids <= limit + OURS) // and has seen that it was collected

    const last = runner.run('bombs', { command: ['perl', '-e', FORKS_ONCE_TOLD, join(folder, 'go')], execId: 'last' })
    await until(
      () => runner.call('GET', 'boxes/bombs/execs/last'),
      ({ json }) => json['state'] === 'running',
    )
    await runner.run('bombs', BOMB)
    await looked()
    await runner.run('bombs', BOMB)
    writeFileSync(join(folder, 'go'), '')
    await until(
      () => pidsOf(runner.runnerId, 'bombs'),
      (pids) => pids >= max(),
    )
    collect()
    await until(max, (pids) => pids <= limit + OURS)
    const living = await until(
      () => livingIn(runner.runnerId, 'bombs'),
      (count) => count >= limit, // it forks until nothing is free
    )
    assert.ok(living <= 2 * limit + OURS, `${living} living processes at a limit of ${limit}`)
    await runner.call('POST', 'boxes/bombs/execs/last/kill', {})
    await last
  })
})

const OURS = 3 // keepers
const BOMB = 'while :; do sleep 1000 & done 2>/dev/null'
const FORKS_ONCE_TOLD = `select undef, undef, undef, 0.01 until -e $ARGV[0];
  while (1) { my $pid = fork; if (!defined $pid) { select undef, undef, undef, 0.001 } elsif ($pid == 0) { sleep 1000; exit } }`

const groupOf = (runnerId: string, boxId: string): string => {
  const [root = ''] = groupRoots(runnerId).filter((each) => each.includes('pids'))
  return join(root, `default.${boxId}`)
}

/** How many processes the kernel counts in a box, or allows. */
function pidsOf(runnerId: string, boxId: string, what: 'current' | 'max' = 'current'): number {
  return Number(readFileSync(join(groupOf(runnerId, boxId), `pids.${what}`), 'utf8'))
}

function livingIn(runnerId: string, boxId: string): number {
  const pids = readFileSync(join(groupOf(runnerId, boxId), 'cgroup.procs'), 'utf8')
    .trim()
    .split('\n')
  return pids.filter((pid) => startTimeOf(Number(pid)) !== undefined).length
}
