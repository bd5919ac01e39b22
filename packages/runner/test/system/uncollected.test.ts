/**
 * A machine whose PID 1 never collects ended processes, which is a slow one taken to the extreme: here the runner itself is PID 1 of
 * its own process namespace, as in a container without an init. Every ended process counts against the limit of its box forever.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { tempFolder } from '../../../../test/kit/folder.ts'
import { asProgram, groupRoots, withoutBwrap, withoutRoot } from '../kit.ts'

const PIDS = 8
const COMMANDS = 30
/** Starts a program as PID 1. SIGTERM ends it and everything it started. */
const ALONE = ['sh', '-c', 'unshare --pid --fork --mount-proc --kill-child "$@" & trap "kill -9 $!" TERM; wait', 'sh']
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

/** How many processes the kernel counts in a box. */
function pidsOf(runnerId: string, boxId: string): number {
  const [root = ''] = groupRoots(runnerId).filter((each) => each.includes('pids'))
  return Number(readFileSync(join(root, `default.${boxId}`, 'pids.current'), 'utf8'))
}
