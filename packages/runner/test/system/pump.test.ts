/** The pump, which copies output: it loses nothing if its runner is killed, and its own death is reported. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { startTimeOf } from '../../src/exec/process-table.ts'
import { LEVEL_FLAGS, asProgram, inProcess, pumpOf, type RunnerProgram, until } from '../kit.ts'

const flags = LEVEL_FLAGS.process // isolation does not affect pipes
const FLOOD = { shell: 'exec seq 1 3000000', bytes: 22_888_896 }

const execFile = (stateDir: string, execId: string, name: string): string =>
  join(stateDir, 'boxes/default/b1/execs', execId, name)

const kept = (stateDir: string, execId: string): number =>
  statSync(execFile(stateDir, execId, 'stdout'), { throwIfNoEntry: false })?.size ?? 0

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

const floodSum = (): string => {
  const sum = createHash('sha256')
  for (let i = 1; i <= 3_000_000; i += 1_000) sum.update(Array.from({ length: 1_000 }, (_, n) => `${i + n}\n`).join(''))
  return sum.digest('hex')
}

/** The same times for the same seed. */
function moments(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

async function startFlood(runner: RunnerProgram, execId: string): Promise<void> {
  const { status, text } = await runner.call('POST', 'boxes/b1/exec', { execId, shell: FLOOD.shell })
  assert.equal(status, 201, text)
}

/** Checks and acts without a pause in between. */
async function untilKept(stateDir: string, execId: string, bytes: number): Promise<void> {
  while (kept(stateDir, execId) < bytes) await new Promise((resolve) => setImmediate(resolve))
}

describe('the pump', async () => {
  test('kill -9 of the runner in a flood of output loses nothing', async (t) => {
    const seed = 20_261_116
    const stateDir = join(tempFolder(t), 'state')
    const [next, wanted] = [moments(seed), floodSum()]
    let runner = await asProgram(t, stateDir, flags)
    await runner.box({ id: 'b1' })
    const KILLS = 8 // without the pump, one kill in five lost output
    let inFlood = 0
    for (let kills = 1; kills <= KILLS; kills += 1) {
      const execId = `e${kills}`
      await startFlood(runner, execId)
      await untilKept(stateDir, execId, next() * FLOOD.bytes * 0.6)
      await runner.kill('SIGKILL')
      if (kept(stateDir, execId) < FLOOD.bytes) inFlood += 1
      runner = await asProgram(t, stateDir, flags)
      const { exit } = await runner.client.waitExec('b1', execId)
      const bytes = await runner.client.execOutput('b1', execId, 'stdout')
      assert.deepEqual(
        [exit?.cause, exit?.code, exit?.truncated, exit?.diagnostics, exit?.stdoutBytes, sha256(bytes)],
        ['exited', 0, false, [], FLOOD.bytes, wanted],
        `kill ${kills} of seed ${seed}`,
      )
    }
    t.diagnostic(`${inFlood} of ${KILLS} kills were in the middle of the flood`)
    assert.ok(inFlood >= 3, `only ${inFlood} of ${KILLS} kills were in the middle of the flood`)
  })

  test('exits with its runner, and the next runner waits for that', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await asProgram(t, stateDir, flags)
    await first.box({ id: 'b1' })
    await startFlood(first, 'e1')
    await untilKept(stateDir, 'e1', 1)
    const pump = pumpOf(stateDir)
    process.kill(pump, 'SIGSTOP') // delayed, as by a slow disk
    await first.kill('SIGKILL')
    const starting = asProgram(t, stateDir, flags)
    const isWaiting = await Promise.race([starting.then(() => false), sleep(500, true)])
    assert.ok(isWaiting, 'it did not wait')
    process.kill(pump, 'SIGCONT')
    const second = await starting
    assert.equal(startTimeOf(pump), undefined)
    const { exit } = await second.client.waitExec('b1', 'e1')
    assert.deepEqual([exit?.code, exit?.stdoutBytes, exit?.diagnostics], [0, FLOOD.bytes, []])
    const last = pumpOf(stateDir)
    await second.kill('SIGTERM')
    assert.deepEqual([startTimeOf(last), existsSync(join(stateDir, 'pump.json'))], [undefined, false])
  })

  test('is replaced if it is killed alone: all execs continue, and each reports a possible loss', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const runner = await asProgram(t, stateDir, flags)
    await runner.box({ id: 'b1' })
    await runner.call('POST', 'boxes/b1/exec', {
      execId: 'e1',
      shell: 'echo a; while [ ! -e go ]; do sleep 0.02; done; echo b',
    })
    for await (const event of runner.client.execEvents('b1', 'e1')) if (event.type === 'stdout') break
    const pump = pumpOf(stateDir)
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(pump, signal) // it ignores these
    assert.equal((await runner.run('b1', 'echo c')).stdout, 'c\n')
    assert.equal(pumpOf(stateDir), pump)
    process.kill(pump, 'SIGKILL')
    await until(
      () => (existsSync(join(stateDir, 'pump.json')) ? pumpOf(stateDir) : 0),
      (pid) => pid !== 0 && pid !== pump, // the note is there before it is written
    )
    assert.deepEqual((await runner.run('b1', 'touch go')).exec.exit?.diagnostics, [])
    const { exit } = await runner.client.waitExec('b1', 'e1')
    assert.equal((await runner.client.execOutput('b1', 'e1', 'stdout')).toString(), 'a\nb\n')
    assert.deepEqual([exit?.code, exit?.truncated], [0, true])
    assert.deepEqual(
      exit?.diagnostics.map(({ id, evidence }) => [id, evidence]),
      [['output_lost', ['byte 2 of stdout, 0 of stderr']]],
    )
  })

  test('killed together with its runner: the next runner reports a possible loss for running execs only', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await asProgram(t, stateDir, flags)
    await first.box({ id: 'b1' })
    await first.run('b1', { execId: 'over', shell: 'echo x' })
    await first.call('POST', 'boxes/b1/exec', {
      execId: 'e1',
      shell: 'echo a; while [ ! -e go ]; do sleep 0.02; done; echo b',
    })
    for await (const event of first.client.execEvents('b1', 'e1')) if (event.type === 'stdout') break
    process.kill(pumpOf(stateDir), 'SIGKILL')
    first.child.kill('SIGKILL')
    await first.kill('SIGKILL')
    const second = await asProgram(t, stateDir, flags)
    assert.deepEqual((await second.run('b1', 'touch go')).exec.exit?.diagnostics, [])
    const { exit } = await second.client.waitExec('b1', 'e1')
    assert.equal((await second.client.execOutput('b1', 'e1', 'stdout')).toString(), 'a\nb\n', JSON.stringify(exit))
    assert.deepEqual(
      exit?.diagnostics.map(({ id }) => id),
      ['output_lost'],
    )
    assert.deepEqual((await second.client.getExec('b1', 'over')).exit?.diagnostics, [])
  })

  test('an exec fails to start if no pump can be started, and the next one starts when one can', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const problems: string[] = []
    const level = { isolation: 'process', allowIsolation: ['process'] } as const
    const runner = await inProcess(t, { stateDir, ...level, onProblem: (line) => problems.push(line) })
    await runner.box({ id: 'b1' })
    const node = process.execPath
    t.after(() => (process.execPath = node))
    process.execPath = join(stateDir, 'no-such-program')
    process.kill(pumpOf(stateDir), 'SIGKILL')
    await until(() => problems.some((line) => line.includes('cannot start')), Boolean)
    const { exit } = (await runner.run('b1', 'touch ran; sleep 600')).exec
    assert.deepEqual([exit?.cause, exit?.reason, exit?.started], ['spawn_failed', 'no_process', false])
    assert.match(exit?.diagnostics[0]?.message ?? '', /cannot start the process that copies output: .*ENOENT/)
    process.execPath = node
    assert.equal((await runner.run('b1', 'ls; echo again')).stdout, 'again\n')
  })

  test('an exec whose output cannot be stored ends with the reason, and no other exec is affected', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const runner = await asProgram(t, stateDir, flags)
    await runner.box({ id: 'b1' })
    const shell = 'while [ ! -e go ]; do sleep 0.02; done; echo x'
    for (const execId of ['good', 'bad']) await runner.call('POST', 'boxes/b1/exec', { execId, shell })
    mkdirSync(execFile(stateDir, 'bad', 'stdout')) // in the way of its spool
    await runner.run('b1', 'touch go')
    const [good, bad] = await Promise.all(['good', 'bad'].map((execId) => runner.client.waitExec('b1', execId)))
    assert.deepEqual([good?.exit?.cause, good?.exit?.stdoutBytes, good?.exit?.diagnostics], ['exited', 2, []])
    assert.deepEqual([bad?.exit?.stdoutBytes, bad?.exit?.truncated], [0, true])
    assert.deepEqual(
      bad?.exit?.diagnostics.map(({ id, message }) => [id, /EISDIR/.test(message)]),
      [['output_not_kept', true]],
    )
  })
})
