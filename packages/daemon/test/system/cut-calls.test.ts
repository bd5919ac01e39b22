/** A call that the output limit cuts off is never asked for again unchanged: the next request says what happened. The limit can be set. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { event, messageFrames, messageStart, textFrames, toolFrames } from '../../../../test/kit/anthropic-frames.ts'
import type { Exchange } from '../../../../test/kit/exchange.ts'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { startModelServer } from '../../../../test/kit/model-server.ts'
import { head, json, lastChunk, type Play } from '../../../../test/kit/plays.ts'
import type { ModelConfig } from '../../../engine/src/options.ts'
import { lastOf, ofType } from '../../../engine/test/support/events.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

const answered = (stop_reason: string, ...blocks: readonly (readonly string[])[]): Play => [
  head(),
  messageStart,
  ...blocks.flat(),
  event('message_delta', { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 100 } }),
  event('message_stop'),
  lastChunk,
]
const write = (path: string, content: string): readonly string[] =>
  toolFrames(0, 'toolu_1', 'write', JSON.stringify({ path, content }))
const cutWrite: Play = answered('max_tokens', toolFrames(0, 'toolu_1', 'write', '{"path":"big","content":"aaaa'))
const unwritten: Play = answered('max_tokens', toolFrames(0, 'toolu_1', 'process'))
const done: Play = [head(), ...messageFrames(textFrames(0, 'done')), lastChunk]

async function daemonAt(t: TestContext, script: readonly Play[], model: Partial<ModelConfig> = {}) {
  const server = await startModelServer(script)
  atEnd(t, () => server.close())
  const workspace = tempFolder(t)
  const { api } = await rig(t, inOrder({ text: 'unused' }), {
    model: { baseUrl: server.url, name: 'claude', api: 'anthropic-messages', ...model },
    runner: { allowWorkspace: [workspace] },
  })
  const { id } = await api.session({ box: { workspace } })
  const turnId = await api.prompt(id, 'write a long file')
  return { events: await api.ended(id, turnId), requests: server.requests, workspace }
}

const limits = (requests: readonly Exchange[]): unknown[] => requests.map(({ body }) => body['max_tokens'])

test('a model whose call was cut off reads that it was, works in smaller parts, and finishes', async (t) => {
  const parts = [answered('tool_use', write('big', 'aa')), done]
  const { events, requests, workspace } = await daemonAt(t, [cutWrite, ...parts])
  assert.equal(lastOf(events, 'turn-end').text, 'done')
  assert.equal(readFileSync(join(workspace, 'big'), 'utf8'), 'aa')
  assert.equal(ofType(events, 'tool-call').length, 1)

  const [retry] = ofType(events, 'retry')
  assert.equal(retry?.fault.reason, 'output_limit')
  assert.match(retry?.fault.error ?? '', /cut off at the output limit \(100 tokens\)/)
  assert.equal(retry?.told?.tool, 'write')
  assert.match(retry?.told?.text ?? '', /^Not run: .* after about 100 tokens/)
  const [, second, third] = requests.map(({ messages }) => messages)
  assert.deepEqual(
    second?.map(({ role }) => role),
    ['user', 'assistant', 'user'],
  )
  assert.match(JSON.stringify(second?.at(-1)), /tool_result.*Not run: /)
  assert.match(JSON.stringify(third), /Not run: /, 'and reads it in every later step')
})

test('a model that keeps writing too much ends the turn after four different requests, with advice that is true', async (t) => {
  const { events, requests, workspace } = await daemonAt(t, [cutWrite])
  const end = lastOf(events, 'turn-error')
  assert.equal(end.category, 'tool_call_truncated')
  assert.equal(end.stopped, 'cuts_spent')
  assert.match(end.error, /raise outputTokensMax for this model/)
  assert.equal(end.usage?.outputTokens.value, 400)
  assert.equal(requests.length, 4)
  assert.equal(new Set(requests.map(({ text }) => text)).size, 4)
  assert.equal(existsSync(join(workspace, 'big')), false)
})

test('a call that had no arguments yet at the limit is not run, and the model reads that', async (t) => {
  const { events, requests } = await daemonAt(t, [unwritten, done])
  assert.equal(lastOf(events, 'turn-end').text, 'done')
  assert.equal(ofType(events, 'tool-call').length, 0)
  assert.match(JSON.stringify(requests[1]?.messages.at(-1)), /Not run: /)
})

test('the output limit is that of the model that is asked', async (t) => {
  const refuse = json(401, { error: { type: 'authentication_error', message: 'no' } })
  const own = [{ name: 'second', outputTokensMax: 50_000 }, { name: 'third' }]
  const { requests } = await daemonAt(t, [refuse, refuse, done], { outputTokensMax: 64_000, fallback: own })
  assert.deepEqual(limits(requests), [64_000, 50_000, 30_000])
})
