/** The journal's disk fills up while a command runs: a turn can still end, with a reason. */
import { LIMIT } from '../../../../test/kit/wait.ts'
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { testRunner } from '../support/runner.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'
import { smallDisk } from '../../../engine/test/support/small-disk.ts'
import { lastOf, ofType } from '../../../engine/test/support/events.ts'

const bash = (command: string) => inOrder({ calls: [{ id: 'c1', tool: 'bash', arguments: { command } }] })

test(
  "a cancel ends the turn and its command even if the command's last output does not fit on the disk",
  LIMIT,
  async (t) => {
    const disk = smallDisk(t, '16m')
    if (disk === undefined) return
    const runner = await testRunner(t)
    const command = "trap 'head -c 600000 /dev/zero | tr \\\\0 \\\\1; exit 0' TERM; echo started; sleep 30 & wait"
    const { api } = await rig(t, bash(command), { stateDir: disk.folder, runner: runner.config })
    const { id } = await api.session()
    const turnId = await api.prompt(id, 'go')
    await api.events(id, (event) => event.type === 'tool-output')
    disk.fill()
    assert.equal((await api.call('POST', `/v1/turns/${turnId}/cancel`)).status, 202)
    const events = await api.ended(id, turnId)
    const [result, end] = [events.at(-2), lastOf(events, 'turn-error')]
    assert.ok(result?.type === 'tool-result' && result.exit?.cause === 'killed', JSON.stringify(result))
    assert.match(result.text, /^started\n.*\[cancelled: it was ended; not all of its output is here\]$/s)
    assert.deepEqual([end.category, end.sideEffects], ['cancelled', 'none'])
  },
)

test('a cancel that was accepted on a full disk holds after a restart', LIMIT, async (t) => {
  const disk = smallDisk(t, '16m')
  if (disk === undefined) return
  const runner = await testRunner(t)
  const options = { stateDir: disk.folder, runner: runner.config, limits: { shutdownMs: 100 } }
  const first = await rig(t, bash('echo started; sleep 30'), options)
  const { id } = await first.api.session()
  const turnId = await first.api.prompt(id, 'go')
  await first.api.events(id, (event) => event.type === 'tool-output')
  await runner.stop() // the command cannot be ended yet, and neither can the turn
  const free = disk.fill()
  while ((await first.api.call('POST', '/v1/sessions', {})).status !== 507); // until the disk is really full
  assert.equal((await first.api.call('POST', `/v1/turns/${turnId}/cancel`)).status, 202)
  free()
  const { api } = await first.restart()
  await runner.again(runner.port)
  const end = lastOf(await api.ended(id, turnId), 'turn-error')
  assert.equal(end.category, 'cancelled')
})

test('a turn that may not wait ends without leaving its command behind', LIMIT, async (t) => {
  const disk = smallDisk(t, '16m')
  if (disk === undefined) return
  const runner = await testRunner(t)
  const { api } = await rig(t, bash('echo started; sleep 1; seq 100000; sleep 30'), {
    stateDir: disk.folder,
    runner: runner.config,
  })
  const { id } = await api.session({ policy: { park: 'never' } })
  const turnId = await api.prompt(id, 'go')
  await api.events(id, (event) => event.type === 'tool-output')
  disk.fill()
  const events = await api.ended(id, turnId)
  const [result, end] = [events.at(-2), lastOf(events, 'turn-error')]
  assert.ok(result?.type === 'tool-result' && result.exit?.cause === 'killed', JSON.stringify(result))
  assert.deepEqual([end.category, end.stopped], ['journal_full', 'parking_off'])
})

test(
  'a deadline that passes while nothing can be written is reported as a deadline, and ends the command',
  LIMIT,
  async (t) => {
    const disk = smallDisk(t, '16m')
    if (disk === undefined) return
    const runner = await testRunner(t)
    let ahead = 0
    const { api } = await rig(t, bash('echo started; sleep 1; seq 100000; sleep 30'), {
      stateDir: disk.folder,
      runner: runner.config,
      now: () => Date.now() + ahead,
    })
    const { id } = await api.session({ policy: { deadlineMs: 600_000 } })
    const turnId = await api.prompt(id, 'go')
    await api.events(id, (event) => event.type === 'tool-output')
    rmSync(join(disk.folder, 'journal', 'reserve')) // released by an earlier full disk
    const free = disk.fill()
    while ((await api.turn(turnId)).state !== 'parked') await sleep(20)
    ahead = 700_000
    free()
    const events = await api.ended(id, turnId)
    const [result, end] = [events.at(-2), lastOf(events, 'turn-error')]
    assert.ok(result?.type === 'tool-result' && result.exit?.cause === 'killed', JSON.stringify(result))
    assert.deepEqual([end.category, end.stopped], ['deadline_exceeded', 'deadline_passed'])
  },
)

test('a turn on a disk of a few megabytes resumes when there is space again', LIMIT, async (t) => {
  const disk = smallDisk(t, '6m')
  if (disk === undefined) return
  const runner = await testRunner(t)
  const script = inOrder({ text: 'w'.repeat(400_000), pieceChars: 4_000, pauseMs: 1 })
  const { api } = await rig(t, script, { stateDir: disk.folder, runner: runner.config })
  const { id } = await api.session()
  const free = disk.fill(200_000)
  const turnId = await api.prompt(id, 'go')
  while ((await api.turn(turnId)).state !== 'parked') await sleep(20)
  free()
  const events = await api.ended(id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  const [parked] = ofType(events, 'parked')
  assert.match(parked?.fault.error ?? '', /waits until 8 MiB are free on the journal's disk, or a quarter/)
})
