/** A provider's prompt cache: each step repeats the request of the step before, byte for byte, and marks how far. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { lastOf } from '../../../engine/test/support/events.ts'
import { startCachingModel } from '../support/caching-model.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

test('every step of a turn reads from the cache what the step before it sent, however many calls a step makes', async (t) => {
  const workspace = tempFolder(t)
  writeFileSync(join(workspace, 'notes'), 'a line of text\n'.repeat(100))
  const steps = 12
  const calls = (step: number) => (step === 5 ? 15 : 1) // 30 blocks: more than a provider looks back from a mark
  const model = await startCachingModel({ steps, calls, path: 'notes' })
  atEnd(t, () => model.close())
  const { api } = await rig(t, inOrder({ text: 'unused' }), {
    model: { baseUrl: model.baseUrl, name: 'claude', api: 'anthropic-messages', priceIn: 3, priceOut: 15 },
    runner: { allowWorkspace: [workspace] },
  })
  const { id } = await api.session({ box: { workspace } })
  const turnId = await api.prompt(id, 'read the notes again and again')
  const end = lastOf(await api.ended(id, turnId), 'turn-end')

  const { counted, plain } = model
  assert.equal(counted.length, steps + 1)
  for (const [at, { read, fresh }] of counted.entries()) {
    const before = counted[at - 1]
    if (before === undefined) continue
    assert.equal(read, before.read + before.written, `request ${at + 1} reads what request ${at} wrote`)
    assert.equal(fresh, 0, 'and writes the rest')
    const [sent, next] = [plain[at - 1] ?? '', plain[at] ?? '']
    const end = sent.lastIndexOf('],"stream"')
    assert.equal(next.slice(0, end), sent.slice(0, end), 'the conversation only grows')
    assert.equal(next.slice(next.lastIndexOf('],"stream"')), sent.slice(end), 'and all that is around it stays')
  }
  const total = (key: 'fresh' | 'read' | 'written') => counted.reduce((sum, one) => sum + one[key], 0)
  const [read, written] = [total('read'), total('written')]
  assert.ok(read / (read + written + total('fresh')) > 0.8)
  assert.equal(end.usage.inputTokens.value, read + written + total('fresh'))
  assert.equal(end.usage.cacheReadTokens, read)
  assert.equal(end.usage.cacheWriteTokens, written)
  const dollars = (0.3 * read + 3.75 * written + 3 * total('fresh') + 15 * 20 * counted.length) / 1_000_000
  assert.ok(Math.abs((end.cost?.value ?? 0) - dollars) < 1e-9)
})
