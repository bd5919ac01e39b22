/** Rare cases of the daemon: huge output, odd text, lost boxes, changed config, crash loops, long lists. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { shared } from '../shared.ts'
import { call, type Json, present } from './client.ts'
import { assembled, Rig } from './rig.ts'
import { ask, bash, refuse, say, stallAfter } from '../answers.ts'
import { isHistory, isProblem, isSession, isTurn } from './shapes.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

const rig = await shared(Rig.start())

describe('what passes through unchanged', { ...LIMIT, concurrency: 3 }, () => {
  test('text of every kind: emoji cut anywhere, control characters, text that looks like protocol frames', async () => {
    const odd = 'a👩‍🚀é漢\u0000\u2028\r\n\r\ndata: {"x":1}\n\nid: 7\n\nevent: reset\n: no\n\ufeff'
    const { id, model } = await rig.session([
      say(...odd.split('')),
      ask([{ tool: 'bash', arguments: { command: `printf %s '👩‍🚀'` } }]),
      say('x'),
    ])
    const prompt = odd.replace('\u0000', '')
    const first = await rig.wholeTurn(id, prompt)
    isHistory(first.events)
    assert.equal(first.last['text'], odd)
    assert.deepEqual([...assembled(first.events, first.turnId)], [[1, odd]])
    assert.equal(first.events[0]?.['prompt'], prompt)
    assert.equal((await rig.call('GET', `/v1/turns/${first.turnId}`)).json.prompt, prompt)
    const { events } = await rig.wholeTurn(id, 'tool')
    const result = present(events.find(({ type }) => type === 'tool-result'))
    assert.match(result['text'], /👩‍🚀/)
    assert.ok(JSON.stringify(rig.model.received(model)[1]?.messages).includes('👩‍🚀'))
  })

  test('output that is not UTF-8 is shown without breaking the stream', async () => {
    const { id } = await rig.session([ask([bash(String.raw`printf 'ok\377\376end'`)]), say('x')])
    const { events, last } = await rig.wholeTurn(id)
    isHistory(events)
    assert.equal(last.type, 'turn-end')
    assert.match(present(events.find(({ type }) => type === 'tool-result'))['text'], /ok.*end/s)
  })

  test('a long prompt', async () => {
    const { id, model } = await rig.session([say('long')])
    const { last } = await rig.wholeTurn(id, 'p'.repeat(500_000))
    assert.equal(last['text'], 'long')
    assert.ok(JSON.stringify(rig.model.received(model)[0]?.messages).length > 500_000)
  })

  test('a tool call with slow arguments emits at most one draft per second', async () => {
    const content = 'z'.repeat(20_000)
    const { id } = await rig.session([
      ask([{ tool: 'write', arguments: { path: 'big.txt', content } }]),
      ask([bash('wc -c < big.txt')]),
      say('x'),
    ])
    const { events } = await rig.wholeTurn(id)
    isHistory(events)
    assert.ok(events.filter(({ type }) => type === 'tool-draft').length <= 3)
    assert.match(
      events
        .filter(({ type }) => type === 'tool-result')
        .map((event) => event['text'])
        .join(),
      /20000/,
    )
  })

  test('a session has only the tools of its request', async () => {
    const { id, model } = await rig.session([ask([bash('echo no')]), say('x')], { tools: ['read'] })
    const { events } = await rig.wholeTurn(id)
    isHistory(events)
    const offered = (present(rig.model.received(model)[0]).body['tools'] as Json[]).map((tool) => tool.function.name)
    assert.deepEqual(offered, ['read'])
    assert.ok(!events.some((event) => event.type === 'tool-output'))
  })

  test('creating a session is refused for a missing folder and for a folder that the runner does not allow', async () => {
    for (const workspace of ['/etc', '/not/there']) {
      const made = await rig.call('POST', '/v1/sessions', { body: { box: { workspace } } })
      isProblem(made, 400, 'invalid_request')
      assert.equal(made.json.errors[0].field, 'box.workspace')
    }
  })
})

describe('lists and bad input', LIMIT, () => {
  test('the pages of a long list contain every session exactly once', async () => {
    const ids = new Set<string>()
    for (let i = 0; i < 5; i++) ids.add((await rig.session([])).id)
    const seen: string[] = []
    let cursor: string | undefined
    for (let page = 0; page < 50; page++) {
      const query = `?limit=2${cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`}`
      const reply = await rig.call('GET', `/v1/sessions${query}`)
      if (reply.status === 400) return // the server may limit the page size
      for (const session of reply.json.sessions) isSession(session)
      assert.ok(reply.json.sessions.length <= 2)
      seen.push(...reply.json.sessions.map((session: { id: string }) => session.id))
      cursor = reply.json.next
      if (cursor === undefined || cursor === null) break
    }
    assert.equal(new Set(seen).size, seen.length)
    for (const id of ids) assert.ok(seen.includes(id))
  })

  test('hostile bodies are 400 and never 500', async () => {
    const { id } = await rig.session([])
    for (const raw of [
      'null',
      '[]',
      '"x"',
      '7',
      '',
      '{"prompt":null}',
      '{"__proto__":{"a":1},"prompt":"x"}',
      '{"prompt":"x","constructor":1}',
      `${'['.repeat(50_000)}`,
      '\u0000',
      '{"prompt":"\\ud800"',
    ])
      isProblem(await rig.call('POST', `/v1/sessions/${id}/turns`, { raw }), 400, 'invalid_request')
    for (const raw of [
      'null',
      '[]',
      '{"box":{"env":{"A=B":"x"}}}',
      '{"box":{"workspace":"relative"}}',
      '{"policy":null}',
      '{"model":""}',
      '{"tools":["no-such-tool"]}',
    ]) {
      const reply = await rig.call('POST', '/v1/sessions', { raw })
      isProblem(reply, 400, 'invalid_request')
    }
    assert.equal((await rig.call('GET', `/v1/sessions/${id}`)).json.lastSeq, 0)
  })

  test('an invalid cursor is refused or reset, and nothing hangs', async () => {
    const { id } = await rig.session([say('x')])
    await rig.wholeTurn(id)
    for (const after of ['abc', '-1', '1.5', '1e999', '%00', 'a-b-c']) {
      const stream = await rig.events(id, `?after=${after}`).catch((error: Error) => error)
      if (stream instanceof Error) {
        assert.match(stream.message, /400/)
        continue
      }
      await stream.type('turn-end')
      assert.equal(stream.frames[0]?.event, 'reset', after)
      stream.close()
    }
  })

  test('a parked session and a session with a queue can be deleted', async () => {
    const { id } = await rig.session([refuse(401, { message: 'Incorrect API key provided', code: 'invalid_api_key' })])
    const { events } = await rig.turn(id)
    await events.type('parked')
    await rig.prompt(id, 'later', { queue: true })
    assert.equal((await rig.call('DELETE', `/v1/sessions/${id}`)).status, 204)
    isProblem(await rig.call('GET', `/v1/sessions/${id}`), 404, 'not_found')
    await events.closed
  })
})

describe('races', LIMIT, () => {
  test('of twenty concurrent prompts one starts, and the others get its id', async () => {
    const { id } = await rig.session([stallAfter('…')])
    const replies = await Promise.all(Array.from({ length: 20 }, (_, i) => rig.prompt(id, `p${i}`)))
    const [started, ...more] = replies.filter(({ status }) => status === 202)
    assert.equal(more.length, 0)
    const { turnId } = present(started).json
    for (const reply of replies) if (reply !== started) assert.equal(reply.json.turnId, turnId, reply.text)
    await rig.call('POST', `/v1/turns/${turnId}/cancel`)
  })

  test('a cancel at any moment of a turn leaves one terminal event, a free session and no half result', async () => {
    const turns = Array.from({ length: 12 }, async (_, i) => {
      const { id } = await rig.session([ask([bash('echo a')]), ask([bash('echo b')]), say('end'), say('free')])
      const { turnId, events } = await rig.turn(id)
      await events.until(({ seq }) => seq > i)
      const replies = await Promise.all([1, 2, 3].map(() => rig.call('POST', `/v1/turns/${turnId}/cancel`)))
      for (const reply of replies) assert.ok([200, 202].includes(reply.status), reply.text)
      const last = await events.ended(turnId)
      const turn = (await rig.call('GET', `/v1/turns/${turnId}`)).json
      isTurn(turn, last.type === 'turn-end' ? 'finished' : 'cancelled')
      const next = await rig.wholeTurn(id)
      isHistory(next.events)
      assert.equal(next.last.type, 'turn-end')
    })
    await Promise.all(turns)
  })
})

describe('boxes', LIMIT, () => {
  test('live and die with their session, and a lost box is reported or recreated', async () => {
    const { url } = rig.listening.runner as { url: string }
    const token = present(readFileSync(join(rig.stateDir, 'runner.token'), 'utf8').trim().split(/\s/)[0])
    const boxes = async (): Promise<string[]> =>
      (await call(url, 'GET', '/v1/default/boxes', { token })).json.boxes.map((box: { id: string }) => box.id)
    for (const [workspace, outcome] of [
      [rig.place.folder, 'ok'],
      [undefined, undefined],
    ] as const) {
      const { id, record, model } = await rig.session(
        [ask([bash('echo kept > kept.txt')]), say('a'), ask([bash('cat kept.txt')]), say('b')],
        workspace === undefined ? {} : { box: { workspace } },
      )
      assert.ok(!(await boxes()).includes(record.boxId), 'no box before the first tool')
      await rig.wholeTurn(id)
      assert.ok((await boxes()).includes(record.boxId))
      assert.equal((await call(url, 'DELETE', `/v1/default/boxes/${record.boxId}`, { token })).status, 204)
      const { turnId, events, last } = await rig.wholeTurn(id)
      isHistory(events)
      const result = present(events.find((event) => event.turnId === turnId && event.type === 'tool-result'))
      if (outcome !== undefined) assert.equal(result['outcome'], outcome, JSON.stringify(result))
      else if (last.type === 'turn-end')
        assert.match(JSON.stringify(rig.model.received(model).at(-1)?.messages), /lost|gone/)
      assert.equal((await rig.call('DELETE', `/v1/sessions/${id}`)).status, 204)
      await eventually('the box is gone', async () => !(await boxes()).includes(record.boxId))
    }
  })
})
