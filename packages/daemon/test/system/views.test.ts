/** What clients see of sessions and turns: lists, ends, tokens, cost, and the whole output of a command. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { sessionListSchema, turnListSchema } from '@breakfall/wire'
import { LIMIT } from '../../../../test/kit/wait.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

const LINES = 120_000
const PRINT = `i=0; while [ $i -lt ${LINES} ]; do echo "line $i"; i=$((i+1)); done; echo problem >&2`
const PRICED = { priceIn: 3, priceOut: 15 } as const // the scripted model reports 10 tokens in and 5 out

test(
  'a list shows how each session ended, a turn what it used and changed, and an output is there to its last byte',
  LIMIT,
  async (t) => {
    const works = inOrder(
      { calls: [{ tool: 'bash', arguments: { command: PRINT } }] },
      { calls: [{ tool: 'write', arguments: { path: 'a.txt', content: 'x' } }] },
      { text: 'done' },
    )
    const unpriced = await rig(t, (asked, request) =>
      asked.messages.at(-1)?.content === 'fail' ? { status: 400 } : works(asked, request),
    )
    const priced = await unpriced.restart({ model: { baseUrl: unpriced.model.baseUrl, name: 'scripted', ...PRICED } })
    const call = (method: string, path: string) => priced.api.call(method, path)
    const [good, bad, idle] = [await priced.api.session(), await priced.api.session(), await priced.api.session()]
    const turnId = await priced.api.prompt(good.id, '  count\nto many')
    const events = await priced.api.ended(good.id, turnId)
    await priced.api.ended(bad.id, await priced.api.prompt(bad.id, 'fail'))

    const list = async (query: string) => sessionListSchema.parse((await call('GET', `/v1/sessions?${query}`)).json)
    const { sessions, counts } = await list('counts=1')
    assert.deepEqual(
      new Set(sessions.map(({ id, turn, state, title }) => `${id} ${turn?.state} ${state} ${title}`)),
      new Set([`${good.id} finished idle count`, `${bad.id} failed idle fail`, `${idle.id} undefined idle null`]),
    )
    assert.deepEqual([counts?.finished, counts?.failed, counts?.idle, counts?.parked], [1, 1, 1, 0])
    assert.deepEqual(
      (await list('state=failed&class=invalid&q=FAIL')).sessions.map(({ id }) => id),
      [bad.id],
    )
    const page = await list('limit=2')
    assert.equal((await list(`limit=2&cursor=${page.next}`)).sessions.length, 1)

    const { turns } = turnListSchema.parse((await call('GET', `/v1/sessions/${good.id}/turns`)).json)
    const [turn] = turns
    assert.deepEqual(
      [turn?.id, turn?.tools, turn?.filesChanged, turn?.firstSeq, turn?.lastSeq],
      [turnId, { bash: 1, write: 1 }, ['a.txt'], 1, events.length],
    )
    assert.deepEqual(turn?.cost, { value: 0.000315, currency: 'USD', quality: 'known' })
    const end = events.at(-1)
    assert.deepEqual(end?.type === 'turn-end' ? end.cost : undefined, turn.cost)

    const execId = events.flatMap((event) => (event.type === 'tool-call' ? [event.execId] : []))[0] ?? ''
    const bytes = async (stream: string, headers: Record<string, string> = {}): Promise<Response> =>
      fetch(`${priced.api.url}/v1/sessions/${good.id}/execs/${execId}/output/${stream}`, {
        headers: { authorization: `Bearer ${priced.api.token}`, ...headers },
      })
    const whole = Array.from({ length: LINES }, (_, n) => `line ${n}\n`).join('')
    const sha = (data: Uint8Array | string): string => createHash('sha256').update(data).digest('hex')
    assert.equal(sha(new Uint8Array(await (await bytes('stdout')).arrayBuffer())), sha(whole))
    const part = await bytes('stdout', { range: 'bytes=700000-700099' })
    assert.deepEqual([part.status, await part.text()], [206, whole.slice(700_000, 700_100)])
    assert.equal(part.headers.get('content-range'), `bytes 700000-700099/${whole.length}`)
    const beyond = await bytes('stdout', { range: 'bytes=99000000-' })
    assert.deepEqual([beyond.status, beyond.headers.get('content-range')], [416, `bytes */${whole.length}`])
    assert.equal(await (await bytes('stderr')).text(), 'problem\n')
    assert.equal((await bytes('stdin')).status, 404)

    const metrics = await (
      await fetch(`${priced.api.url}/metrics`, { headers: { authorization: `Bearer ${priced.api.token}` } })
    ).text()
    assert.match(metrics, /breakfall_tokens_total\{direction="input",quality="known"\} 30/)
    assert.match(metrics, /breakfall_cost_total\{currency="USD",quality="known"\} 0\.000315/)

    const missing = await call('GET', `/v1/sessions/${good.id}/execs/nope/output/stdout`)
    assert.deepEqual([missing.status, missing.json['category']], [404, 'exec_not_found'])
    assert.match(String(missing.json['detail']), /is no longer kept: /)
  },
)
