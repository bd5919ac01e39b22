/** A session as a bundle, the runner's boxes, one category, and the gateway beside the daemon. */
import assert from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import { test } from 'node:test'
import { boxOverviewSchema, parseEvent } from '@breakfall/wire'
import { redactTexts, redactUnknown } from '../../engine/src/turn/redact-event.ts'
import { inOrder } from '../../engine/test/support/scripted-model.ts'
import { rig } from './support/setup.ts'

const GATEWAY = {
  at: '2026-11-16T10:00:00.000Z',
  live: [],
  recent: [],
  totals: { requests: 0, attempts: 0, faults: 0, healed: 0, lost: 0, unhealed: 0, repaired: 0 },
  upstreams: [],
}

const WORDS = ['marmalade', 'rhubarb', 'zucchini']

test('a bundle is the journal line by line, and without its texts it has neither prompt, answer, command nor output', async (t) => {
  const call = { id: 'c1', tool: 'bash', arguments: { command: 'echo rhubarb; exit 3' } }
  const { api } = await rig(t, inOrder({ text: 'I look.', calls: [call] }, { text: 'It was zucchini.' }), {
    faultPage: (category) => fileURLToPath(new URL(`../../../docs/faults/${category}.md`, import.meta.url)),
    gateway: () => GATEWAY,
    runner: { isolation: 'process', level: 'process' },
  })
  assert.deepEqual((await api.call('GET', '/v1/boxes')).json, { boxes: [] }, 'a look starts no runner')
  const { id } = await api.session({ policy: { approve: 'never' } })
  const events = await api.ended(id, await api.prompt(id, 'find the marmalade'))
  const bundle = async (query = ''): Promise<readonly Record<string, unknown>[]> => {
    const response = await fetch(`${api.url}/v1/sessions/${id}/export${query}`, {
      headers: { authorization: `Bearer ${api.token}` },
    })
    assert.equal(response.status, 200)
    assert.equal(response.headers.get('content-type'), 'application/x-ndjson')
    const lines = (await response.text()).trimEnd().split('\n')
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  }
  const [head, ...journalled] = await bundle()
  assert.deepEqual([head?.['event'], head?.['version']], ['bundle', 1])
  assert.deepEqual(journalled, events)
  const redacted = await bundle('?redact=text')
  const text = JSON.stringify(redacted)
  for (const word of WORDS) assert.ok(JSON.stringify(journalled).includes(word) && !text.includes(word), word)
  assert.ok(!text.includes('echo'))
  const [, ...events2] = redacted
  assert.deepEqual(
    events2.map((event) => [event['type'], event['at'], JSON.stringify(event).length]),
    journalled.map((event) => [event['type'], event['at'], JSON.stringify(event).length]),
    'types, times and sizes stay',
  )
  for (const event of events2) parseEvent(event)
  assert.equal((await api.call('GET', `/v1/sessions/${id}/export?redact=all`)).status, 400)
  assert.equal((await api.call('GET', '/v1/sessions/none/export')).status, 404)

  const { boxes } = boxOverviewSchema.parse((await api.call('GET', '/v1/boxes')).json)
  assert.deepEqual(
    boxes.map((box) => [box.id, box.execs]),
    [[id, []]],
  )
  const { json } = await api.call('GET', '/v1/faults/model_overloaded')
  assert.deepEqual([json['category'], json['http']], ['model_overloaded', 503])
  assert.match(String(json['page']), /^# /)
  assert.equal((await api.call('GET', '/v1/faults/nothing_such')).status, 404)
  assert.deepEqual((await api.call('GET', '/v1/gateway')).json, GATEWAY)
})

test('a fault keeps its words without the texts, and an event that nobody knows keeps only its envelope', () => {
  const fault = { category: 'other', error: 'it broke', diagnostics: [{ id: 'oom', evidence: ['a line of output'] }] }
  assert.deepEqual(redactTexts({ type: 'retry', fault, attempt: 1 }), {
    type: 'retry',
    attempt: 1,
    fault: { ...fault, diagnostics: [{ id: 'oom', evidence: ['x xxxx xx xxxxxx'] }] },
  })
  assert.deepEqual(redactUnknown({ type: 'new', seq: 1, note: 'a b', deep: { words: ['c'], n: 2 } }), {
    type: 'new',
    seq: 1,
    note: 'x x',
    deep: { words: ['x'], n: 2 },
  })
})
