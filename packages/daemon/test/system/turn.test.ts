import { atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { createRunnerClient } from '@breakfall/runner/client'
import { assembled, assertNoGap, types } from '../support/api.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder, startScriptedModel } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

test('a prompt runs through the model, a tool in the real runner, and back', async (t) => {
  const script = inOrder(
    { text: 'Let me look.', calls: [{ id: 'c1', tool: 'bash', arguments: { command: 'echo hello; echo oops >&2' } }] },
    { text: 'It said hello.' },
  )
  const { api, model } = await rig(t, script)
  const session = await api.session()
  const turnId = await api.prompt(session.id, 'say hello')
  const events = await api.ended(session.id, turnId)
  assertNoGap(events)
  assert.deepEqual(
    [...new Set(types(events))],
    ['turn-start', 'step-start', 'text-delta', 'tool-draft', 'tool-call', 'tool-output', 'tool-result', 'turn-end'],
  )
  const result = events.find((event) => event.type === 'tool-result')
  assert.equal(result?.outcome, 'ok')
  assert.match(result?.text ?? '', /hello/)
  assert.deepEqual([...assembled(events).values()], ['Let me look.', 'It said hello.'])
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end')
  assert.deepEqual([end.text, end.steps, end.faultsSurvived], ['It said hello.', 2, 0])
  assert.deepEqual(end.usage.inputTokens, { value: 20, quality: 'known' })
  const told = model.asked[1]?.messages.at(-1)
  assert.deepEqual([told?.role, told?.tool_call_id], ['tool', 'c1'])
  const turn = await api.turn(turnId)
  assert.deepEqual([turn.state, turn.result?.text], ['finished', 'It said hello.'])
})

test('a huge output is cut, with counts, for readers and for the model; the turn continues', async (t) => {
  const script = inOrder(
    {
      calls: [
        { tool: 'bash', arguments: { command: 'echo FIRST; head -c 3000000 /dev/zero | tr "\\0" x; echo; echo LAST' } },
      ],
    },
    { text: 'long' },
  )
  const { api, model } = await rig(t, script)
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  const output = events.flatMap((event) => (event.type === 'tool-output' ? [event.text] : [])).join('')
  assert.ok(output.length < 600_000 && output.startsWith('FIRST\n') && output.endsWith('LAST\n'), String(output.length))
  const left = /(\d+) bytes left out/.exec(output)
  assert.equal(
    Number(left?.[1]) + output.length - (left?.input.match(/\n\[… .*? …\]\n/)?.[0].length ?? 0),
    3_000_000 + 12,
  )
  const told = model.asked.at(-1)?.messages.at(-1)?.content ?? ''
  assert.ok(told.startsWith('FIRST') && told.includes('LAST') && told.length < 34_000)
})

test('files are read, written and edited by relative and absolute path, and the model learns of mistakes', async (t) => {
  const call = (id: string, tool: string, args: Record<string, unknown>) => ({ id, tool, arguments: args })
  const script = inOrder(
    {
      calls: [
        call('w', 'write', { path: '/workspace/notes/a.txt', content: 'one\ntwo\nthree\n' }),
        call('r', 'read', { path: 'notes/a.txt', offset: 2, limit: 1 }),
        call('e', 'edit', { path: 'notes/a.txt', old: 'two', new: '$& 2' }),
        call('c', 'bash', { command: 'cat notes/a.txt' }),
        call('m', 'read', { path: 'missing.txt' }),
        call('o', 'read', { path: '/etc/passwd' }),
        call('d', 'read', { path: '../execs' }),
        call('b', 'bash', { command: 'ls', timeoutMs: -1 }),
        call('x', 'rm', { path: '/' }),
      ],
    },
    { text: 'done' },
  )
  const { api } = await rig(t, script)
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  const results = new Map(
    events.flatMap((event) => (event.type === 'tool-result' ? [[event.callId, event] as const] : [])),
  )
  const said = (callId: string): string => `${results.get(callId)?.outcome}: ${results.get(callId)?.text}`
  assert.match(said('w'), /^ok: wrote 14 bytes/)
  assert.equal(said('r'), 'ok: two\n[lines 2 to 2 of 3]')
  assert.match(said('e'), /^ok: edited/)
  assert.equal(said('c'), 'ok: one\n$& 2\nthree')
  assert.match(said('m'), /^failed: There is no file/)
  assert.match(said('o'), /^failed: /)
  assert.match(said('d'), /^failed: .*without ".."/, 'a path must not lead to another call of the runner')
  assert.match(said('b'), /^failed: .*timeoutMs must be an integer/)
  assert.match(said('x'), /^failed: There is no tool rm\. The tools are bash, read, write, edit, process/)
})

test('a removed box is created again: the loss of a private box is reported, and the command does not run', async (t) => {
  const runner = await testRunner(t)
  const script = inOrder({ calls: [{ tool: 'bash', arguments: { command: 'echo kept > file' } }] }, { text: 'ok' })
  const { api } = await rig(t, script, { runner: runner.config })
  const { id } = await api.session()
  await api.ended(id, await api.prompt(id, 'first'))
  const token = readFileSync(runner.config.tokenFile ?? '', 'utf8').trim()
  const client = createRunnerClient({ url: runner.url, token })
  atEnd(t, () => client.close())
  await client.removeBox(id)
  const turnId = await api.prompt(id, 'second')
  const result = (await api.ended(id, turnId)).findLast((event) => event.type === 'tool-result')
  assert.equal(result?.outcome, 'failed')
  assert.match(result?.text ?? '', /not run: the sandbox of this session was lost/)
  const third = (await api.ended(id, await api.prompt(id, 'third'))).findLast((event) => event.type === 'tool-result')
  assert.equal(third?.outcome, 'ok')
})

test("the next model of the list is called after the first one's attempts, and the journal says so", async (t) => {
  const good = await startScriptedModel(() => ({ text: 'from the second' }))
  const bad = await startScriptedModel(() => ({ status: 500 }))
  atEnd(t, () => Promise.all([good.close(), bad.close()]))
  const { api } = await rig(t, () => ({}), {
    model: { baseUrl: bad.baseUrl, name: 'first', fallback: [{ baseUrl: good.baseUrl, name: 'second' }] },
    policy: { attemptsMax: 2, backoffMs: 1 },
  })
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end' && end.text === 'from the second')
  assert.deepEqual(
    events.flatMap((event) => (event.type === 'retry' ? [event.action] : [])),
    ['retry', 'fallback'],
  )
  assert.deepEqual([bad.asked.length, good.asked.length, good.asked[0]?.model], [2, 1, 'second'])
})
