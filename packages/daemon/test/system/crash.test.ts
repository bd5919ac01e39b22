import { LIMIT } from '../../../../test/kit/wait.ts'
import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { LIMITS } from '@breakfall/faults'
import { createRunnerClient } from '@breakfall/runner/client'
import { readRunnerFile } from '../../../engine/src/runner/local-runner.ts'
import { types } from '../support/api.ts'
import { crashDaemon, spawnDaemon } from '../support/daemon-process.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder, type Script } from '../../../engine/test/support/scripted-model.ts'
import { optionsFor, rig } from '../support/setup.ts'

const slow = (command: string): Script =>
  inOrder({ calls: [{ id: 'c1', tool: 'bash', arguments: { command } }] }, { text: 'I know.' })

test("a runner killed in the middle of a command is restarted, and the command's exec is found again", async (t) => {
  const { stateDir, options, workspace } = await optionsFor(
    t,
    slow('echo started >> ledger; echo started; sleep 1.5; echo ended; exit 7'),
  )
  const { api } = await rig(t, slow(''), options)
  const { id } = await api.session({ box: { workspace } })
  const turnId = await api.prompt(id, 'go')
  await api.events(id, (event) => event.type === 'tool-output')
  const runner = readRunnerFile(stateDir)
  process.kill(runner?.pid ?? 0, 'SIGKILL')
  const events = await api.ended(id, turnId)
  const result = events.find((event) => event.type === 'tool-result')
  assert.deepEqual([result?.outcome, result?.exit?.code, result?.exit?.cause], ['failed', 7, 'exited'])
  const output = events.flatMap((event) => (event.type === 'tool-output' ? [event.text] : [])).join('')
  assert.equal(output, 'started\nended\n')
  assert.equal(readFileSync(join(workspace, 'ledger'), 'utf8'), 'started\n')
  assert.equal(events.at(-1)?.type, 'turn-end')
  const retry = events.find((event) => event.type === 'retry')
  assert.equal(retry?.fault.phase, 'stream', 'the loss itself is reported, not only the failed reconnects')
  assert.deepEqual([retry?.action, retry?.attempt, retry?.delayMs], ['resolve', 1, 0])
})

test('a command that loses its runner again and again continues as long as it makes progress', LIMIT, async (t) => {
  const losses = LIMITS.resolvesMax + 2
  const lines = Array.from({ length: losses }, (_, n) => `echo ${n}; while [ ! -e go${n} ]; do sleep 0.02; done`)
  let runner = await testRunner(t)
  const token = readFileSync(runner.config.tokenFile ?? '', 'utf8').trim()
  const { api } = await rig(t, slow(lines.join('; ')), { runner: runner.config })
  const { id } = await api.session({ policy: { backoffMs: 100, failuresMax: 1_000 } })
  const turnId = await api.prompt(id, 'go')
  let seen = 0
  const seenNext = async (type: string): Promise<void> => {
    seen = (await api.events(id, (event) => event.type === type, seen)).at(-1)?.seq ?? seen
  }
  for (let n = 0; n < losses; n += 1) {
    await seenNext('tool-output')
    await runner.stop()
    await seenNext('retry')
    runner = await runner.again(runner.port)
    const client = createRunnerClient({ url: runner.url, token })
    await client.writeFile(id, `go${n}`, Buffer.from(''))
    await client.close()
  }
  const events = await api.ended(id, turnId)
  assert.ok(!types(events).includes('parked'), types(events).join(' '))
  const output = events.flatMap((event) => (event.type === 'tool-output' ? [event.text] : [])).join('')
  assert.equal(output, Array.from({ length: losses }, (_, n) => `${n}\n`).join(''))
  assert.equal(events.at(-1)?.type, 'turn-end')
})

for (const policy of ['tell', 'stop'] as const) {
  test(`a command whose runner was replaced is unknown and never runs again (outcomeUnknown: ${policy})`, async (t) => {
    const mine = await testRunner(t)
    const where = join(tempFolder(t), 'where')
    writeFileSync(where, mine.url)
    const runner = { ...mine.config, resolveCommand: ['cat', where] }
    const { api, model } = await rig(t, slow('echo started; sleep 20'), { runner })
    const { id } = await api.session({ policy: { outcomeUnknown: policy, backoffMs: 1 } })
    const turnId = await api.prompt(id, 'go')
    await api.events(id, (event) => event.type === 'tool-output')
    // The other runner is up before this one is gone: a turn that finds neither parks for its own.
    const other = await testRunner(t, { tokenFile: mine.config.tokenFile ?? '' })
    writeFileSync(where, other.url)
    await mine.stop()
    const events = await api.ended(id, turnId)
    const result = events.find((event) => event.type === 'tool-result')
    assert.equal(result?.outcome, 'unknown')
    assert.match(result?.text ?? '', /was not run again/)
    const end = events.at(-1)
    if (policy === 'tell') {
      assert.equal(end?.type, 'turn-end')
      assert.match(model.asked.at(-1)?.messages.at(-1)?.content ?? '', /It is unknown whether this ran/)
    } else {
      assert.ok(end?.type === 'turn-error')
      assert.deepEqual([end.category, end.sideEffects], ['exec_outcome_unknown', 'unknown'])
    }
    await mine.again()
  })
}

test('a daemon that keeps dying on one turn gives it up with crash_loop, and the session is usable', async (t) => {
  const { options } = await optionsFor(t, () => ({ text: 'never heard' }))
  const first = await spawnDaemon(options)
  await first.arm('answer:attempt-start')
  const { id } = await first.api.session()
  const turnId = await first.api.prompt(id, 'go').catch(() => '')
  await first.ended
  for (let crash = 1; crash < LIMITS.restartsMax; crash += 1)
    assert.equal(await crashDaemon(options, 'answer:attempt-start'), 'SIGKILL')
  const last = await spawnDaemon(options)
  atEnd(t, () => last.kill('SIGKILL'))
  const events = await last.api.events(id)
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-error' && end.category === 'crash_loop', types(events).join(' '))
  assert.equal(types(events).filter((type) => type === 'taken-over').length, LIMITS.restartsMax)
  if (turnId !== '') assert.equal((await last.api.turn(turnId)).state, 'failed')
  await last.api.prompt(id, 'another')
})

test('SIGTERM hands a running turn over, the daemon exits quickly, and the next daemon continues', async (t) => {
  const { options, workspace } = await optionsFor(t, slow('echo x >> ledger; sleep 1'))
  const first = await spawnDaemon(options)
  const { id } = await first.api.session({ box: { workspace } })
  const turnId = await first.api.prompt(id, 'go')
  await first.api.events(id, (event) => event.type === 'tool-call')
  first.kill('SIGTERM')
  assert.equal(await first.ended, 0)
  const second = await spawnDaemon(options)
  atEnd(t, () => second.kill('SIGKILL'))
  const events = await second.api.ended(id, turnId)
  const parked = events.find((event) => event.type === 'parked')
  assert.equal(parked?.fault.category, 'shutting_down')
  assert.equal(events.find((event) => event.type === 'resumed')?.because, 'restart')
  assert.ok(!types(events).includes('taken-over'))
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end' && end.faultsSurvived === 0)
  assert.equal(readFileSync(join(workspace, 'ledger'), 'utf8'), 'x\n')
})
