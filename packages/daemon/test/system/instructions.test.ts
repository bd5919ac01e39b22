/** Project instructions and the system prompt: what reaches the model, when it is read, and that a recovered turn sends the same. */
import assert from 'node:assert/strict'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { spawnDaemon } from '../support/daemon-process.ts'
import { ofType } from '../../../engine/test/support/events.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { optionsFor, rig } from '../support/setup.ts'

test('a turn that a killed daemon left sends the same system prompt; the next turn reads AGENTS.md again', async (t) => {
  const script = inOrder({ calls: [{ tool: 'bash', arguments: { command: 'true' } }] }, { text: 'done' })
  const { options, workspace, model } = await optionsFor(t, script)
  mkdirSync(join(workspace, '.git'))
  const file = join(workspace, 'AGENTS.md')
  writeFileSync(file, 'Always say please.\n')
  let daemon = await spawnDaemon(options)
  atEnd(t, () => daemon.kill('SIGKILL'))
  const { id } = await daemon.api.session({ box: { workspace }, agent: { append: 'Be brief.' } })
  await daemon.arm('after:tool-call')
  const turnId = await daemon.api.prompt(id, 'work')
  assert.equal(await daemon.ended, 'SIGKILL')
  writeFileSync(file, 'Never say please.\n')
  daemon = await spawnDaemon(options)
  const events = await daemon.api.ended(id, turnId)
  const systems = model.asked.map(({ messages }) => messages[0]?.content)
  assert.ok(systems.length >= 2)
  assert.equal(new Set(systems).size, 1, 'the same text before and after the crash')
  const [system = ''] = systems
  assert.ok(typeof system === 'string' && system.includes('Always say please.') && system.endsWith('Be brief.'))
  assert.match(system, new RegExp(`Commands start in ${workspace}`))
  assert.match(system, /ended after 120 s/)
  const [start] = ofType(events, 'turn-start')
  assert.deepEqual(
    start?.instructions?.map(({ path, bytes }) => [path, bytes]),
    [['AGENTS.md', 19]],
  )
  assert.equal(start?.system, system)

  const before = model.asked.length
  await daemon.api.ended(id, await daemon.api.prompt(id, 'more'))
  const later = model.asked[before]?.messages[0]?.content
  assert.ok(typeof later === 'string' && later.includes('Never say please.') && !later.includes('Always'))

  rmSync(file)
  const last = await daemon.api.prompt(id, 'and more')
  const [again] = ofType(await daemon.api.ended(id, last), 'turn-start').slice(-1)
  assert.equal(again?.instructions, undefined)
  const { json } = await daemon.api.call<{ instructions: unknown }>('GET', `/v1/sessions/${id}`)
  assert.deepEqual(json.instructions, [])
})

test('with a runner on another machine, the model is told to read AGENTS.md there, and the turn says so', async (t) => {
  const folder = tempFolder(t)
  writeFileSync(join(folder, 'AGENTS.md'), 'Always say please.\n')
  const runner = await testRunner(t, { allowWorkspace: [folder] })
  const { url: _url, ...config } = runner.config // known by its address, it would be on this machine
  const remote = { ...config, resolveCommand: ['echo', runner.url] }
  const { api, model } = await rig(t, () => ({ text: 'done' }), { runner: remote })
  const { id } = await api.session({ box: { workspace: folder } })
  const [start] = ofType(await api.ended(id, await api.prompt(id, 'work')), 'turn-start')
  const [file] = start?.instructions ?? []
  assert.deepEqual([file?.path, file?.sentBytes], ['AGENTS.md', 0])
  assert.match(String(file?.refused), /on the machine of the runner/)
  const system = String(model.asked[0]?.messages[0]?.content)
  assert.match(system, /has an AGENTS\.md .*read it first/)
  assert.ok(!system.includes('Always say please.'))
})
