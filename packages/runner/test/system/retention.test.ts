/** What is left of execs whose output and records were removed because they are old. No sandbox is needed for this. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { tempFolder } from '../../../../test/kit/folder.ts'
import { systemClock } from '../../src/lib/clock.ts'
import type { RunnerOptions } from '../../src/host/options.ts'
import { inProcess, type TestRunner, until } from '../kit.ts'

const DAY_MS = 24 * 3_600_000

/** Sweeps at the end of every exec. */
function options(t: TestContext, clock = systemClock()): Partial<RunnerOptions> {
  const stateDir = join(tempFolder(t), 'state')
  return { stateDir, clock, retention: { bytesPerBox: 0 }, allowIsolation: ['process'], etcCopyAfterMs: 3_600_000 }
}

const level = { isolation: { level: 'process' } } as const

async function finish(runner: TestRunner, boxId: string, request: { execId: string; shell: string }): Promise<void> {
  await runner.client.startExec(boxId, request)
  await runner.client.waitExec(boxId, request.execId)
}

test('an id that was used never starts again, however long ago, and not at the next runner either', async (t) => {
  const real = systemClock()
  let aheadMs = 0
  const given = options(t, { ...real, now: () => real.now() + aheadMs })
  const runner = await inProcess(t, given)
  await runner.box({ id: 'b1', ...level })
  const effects = join(tempFolder(t), 'effects')
  const request = { execId: 'deploy', shell: `echo deployed >> ${effects}` }
  await finish(runner, 'b1', request)
  aheadMs = 8 * DAY_MS
  await finish(runner, 'b1', { execId: 'sweep', shell: 'echo' })
  assert.ok(!(await runner.client.listExecs('b1')).some(({ execId }) => execId === 'deploy'), 'its record was removed')
  await assert.rejects(runner.client.getExec('b1', 'deploy'), { category: 'exec_not_found' })
  const again = await runner.client.startExec('b1', request)
  assert.deepEqual([again.state, again.exit?.cause, again.exit?.started], ['exited', 'runner_lost', null])
  await assert.rejects(runner.client.startExec('b1', { ...request, shell: 'true' }), { category: 'exec_conflict' })
  aheadMs = 16 * DAY_MS
  await finish(runner, 'b1', { execId: 'sweep-2', shell: 'echo' })
  const ended = await runner.client.killExec('b1', 'deploy', { burn: true })
  assert.deepEqual([ended.exit?.cause, ended.exit?.started], ['runner_lost', null], 'it may have run')
  aheadMs = 24 * DAY_MS
  await finish(runner, 'b1', { execId: 'sweep-3', shell: 'echo' })
  await runner.close()
  const next = await inProcess(t, given)
  const last = await next.client.startExec('b1', request)
  assert.deepEqual([last.exit?.cause, last.exit?.started], ['runner_lost', null])
  assert.equal(readFileSync(effects, 'utf8'), 'deployed\n')
})

test('a client reads the events of a process whose output was dropped, to the end', async (t) => {
  const runner = await inProcess(t, options(t))
  await runner.box({ id: 'b1', ...level })
  const background = { name: 'web', ready: { text: 'listening' } }
  await runner.client.startExec('b1', {
    execId: 'web',
    shell: 'echo listening; until [ -e go ]; do sleep 0.02; done',
    background,
    merge: true,
  })
  await runner.client.writeFile('b1', 'go', Buffer.from(''))
  await runner.client.waitExec('b1', 'web')
  await finish(runner, 'b1', { execId: 'sweep', shell: 'echo' })
  const seen: string[] = []
  for await (const event of runner.client.execEvents('b1', 'web')) seen.push(event.type)
  assert.deepEqual(seen, ['start', 'gap', 'ready', 'exit'])
})

test('a process that waits for its restart is listed, and a kill ends the wait for good', async (t) => {
  const given = options(t)
  const runner = await inProcess(t, given)
  await runner.box({ id: 'b1', ...level })
  const background = { name: 'web', restart: { max: 5 } }
  await runner.client.startExec('b1', { execId: 'web', shell: 'exit 1', background })
  const [waiting] = await until(
    () => runner.client.listProcesses('b1'),
    ([process]) => process?.state === 'restarting',
  )
  assert.deepEqual(waiting, { execId: 'web', name: 'web', state: 'restarting', ports: [] })
  const killed = await runner.client.killExec('b1', 'web')
  assert.deepEqual([killed.exit?.cause, killed.exit?.code], ['exited', 1])
  assert.deepEqual(await runner.client.listProcesses('b1'), [])
  await runner.close()
  const real = systemClock()
  const next = await inProcess(t, { ...given, clock: { ...real, now: () => real.now() + DAY_MS } }) // when it would be due
  assert.deepEqual(await next.client.listProcesses('b1'), [])
})
