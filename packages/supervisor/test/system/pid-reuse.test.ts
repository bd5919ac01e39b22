import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants, writeFileSync } from 'node:fs'
import { it } from 'node:test'
import { supervise } from '../../src/index.ts'
import { eventually, isAlive, QUICK, untilState } from '../child-fixture.ts'

const NEXT_PID = '/proc/sys/kernel/ns_last_pid'

function canChoosePids(): boolean {
  try {
    accessSync(NEXT_PID, constants.W_OK)
    return true
  } catch {
    return false // not Linux, or not root
  }
}

/** An unrelated process that leads its own group under this very pid, unless another process is faster. */
function strangerAt(pid: number): ChildProcess | undefined {
  for (let attempt = 0; attempt < 500; attempt += 1) {
    writeFileSync(NEXT_PID, `${pid - 1}`)
    const stranger = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' })
    if (stranger.pid === pid) return stranger
    stranger.kill('SIGKILL')
  }
  return undefined
}

it('an unrelated process that reuses the pid of a dead child is not hit by the sweep', async (t) => {
  if (!canChoosePids()) return t.skip(`needs to write ${NEXT_PID}`)
  const child = supervise({
    command: 'sh',
    args: ['-c', 'setsid sleep 60 & echo up; read -r _; exit 1'], // the escapee holds the pipes: time to take the pid
    ready: { kind: 'line', pattern: /^up$/ },
    limits: { ...QUICK, drainMs: 2_000, failuresMax: 1 },
  })
  await child.start()
  const pid = child.pid ?? 0
  await child.write('\n')
  await eventually(() => !child.serving, 'the exit')
  const stranger = strangerAt(pid)
  if (stranger === undefined) return t.skip('somebody else got the pid')
  t.after(() => stranger.kill('SIGKILL'))
  const { report } = await untilState(child, 'given_up')
  assert.equal(report.pid, pid)
  assert.equal(report.survivors.length, 1, 'the escapee was found')
  await eventually(() => report.survivors.every((survivor) => !isAlive(survivor)), 'the end of the escapee')
  assert.ok(isAlive(pid), 'the stranger lives')
})
