import { LIMIT } from '../../../../test/kit/wait.ts'
import { atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { isTerminal, type Session } from '@breakfall/wire'
import { assertNoGap, types } from '../support/api.ts'
import { inOrder, type Script, startScriptedModel } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'
import { smallDisk } from '../../../engine/test/support/small-disk.ts'

test('a damaged session is quarantined with the evidence, and other sessions are not affected', async (t) => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  const first = await rig(t, () => ({ text: 'ok', until: held }))
  const [bad, good] = [await first.api.session(), await first.api.session()]
  const badTurn = await first.api.prompt(bad.id, 'one')
  const goodTurn = await first.api.prompt(good.id, 'two')
  await first.daemon.close()
  const db = new DatabaseSync(join(first.stateDir, 'journal', 'journal.db'))
  db.exec(`UPDATE events SET body=replace(body,'"one"','"0ne"') WHERE type='turn-start' AND body LIKE '%"one"%'`)
  db.close()
  const { api } = await first.restart()
  release()
  assert.equal((await api.ended(good.id, goodTurn)).at(-1)?.type, 'turn-end')
  const shown = await api.call<Session & { quarantined: { category: string } }>('GET', `/v1/sessions/${bad.id}`)
  assert.deepEqual([shown.json.state, shown.json.quarantined.category], ['idle', 'journal_corrupt'])
  assert.equal((await api.turn(badTurn)).state, 'failed')
  const refused = await api.call('POST', `/v1/sessions/${bad.id}/turns`, { prompt: 'x' })
  assert.deepEqual([refused.status, refused.json['category']], [500, 'journal_corrupt'])
  assert.match(String(refused.json['error']), /first bad event is 1/)
  assert.equal((await api.call('GET', `/v1/sessions/${bad.id}/events`)).status, 500)
  const evidence = join(first.stateDir, 'quarantine', `${bad.id}.json`)
  assert.match(readFileSync(evidence, 'utf8'), /hash chain/)
  assert.equal((await api.call<{ sessions: unknown[] }>('GET', '/v1/sessions')).json.sessions.length, 2)
  assert.equal((await api.call('DELETE', `/v1/sessions/${bad.id}`)).status, 204)
})

test('a bug in a turn ends in a terminal event and a usable session; other turns are not affected', async (t) => {
  const { api } = await rig(t, () => ({}), {
    async *tryAnswer(request) {
      if (request.messages.at(-1)?.content === 'poison')
        throw new TypeError("Cannot read properties of undefined (reading 'x')")
      yield { type: 'text-delta', attempt: 1, part: 'p1', text: 'fine' }
      const none = { value: 0, quality: 'known' } as const
      const record = { attempt: 1, model: '', baseUrl: '', startedAt: '', durationMs: 0, phase: 'stream' } as const
      const rest = { bytes: 4, resumed: false, fault: null, action: null, delayMs: 0 } as const
      const usage = { inputTokens: none, outputTokens: none }
      yield { type: 'done', finish: 'stop', proven: true, record: { ...record, ...rest, usage } }
    },
  })
  const [bad, good] = [await api.session(), await api.session()]
  const end = (await api.ended(bad.id, await api.prompt(bad.id, 'poison'))).at(-1)
  assert.ok(end?.type === 'turn-error')
  assert.deepEqual([end.category, end.class], ['other', 'internal'])
  assert.match(end.errorRaw, /Cannot read properties/)
  for (const { id } of [bad, good])
    assert.equal((await api.ended(id, await api.prompt(id, 'healthy'), 3)).at(-1)?.type, 'turn-end')
})

test(
  'a turn whose end could not be written because of a bug is recovered by the next request for it',
  LIMIT,
  async (t) => {
    let bugs = 1
    const { api } = await rig(t, () => ({ status: 400 }), {
      failpoint: (name) => {
        if (name !== 'before:turn-error' || bugs === 0) return
        bugs -= 1
        throw new TypeError('a bug at the worst place')
      },
    })
    const session = await api.session()
    const turnId = await api.prompt(session.id, 'go')
    const events = await api.ended(session.id, turnId)
    // Its reader is closed, and resumes by cursor.
    if (!events.some(isTerminal)) events.push(...(await api.ended(session.id, turnId, events.length)))
    assert.equal(bugs, 0)
    assertNoGap(events)
    assert.equal(types(events).filter((type) => type === 'taken-over').length, 1)
    assert.equal((await api.turn(turnId)).state, 'failed')
    assert.equal((await api.call<Session>('GET', `/v1/sessions/${session.id}`)).json.state, 'idle')
  },
)

test('a full disk parks the turn before its side effect, visibly, and the turn continues when there is space', async (t) => {
  const big = 'y'.repeat(200_000)
  const script: Script = inOrder(
    { text: big, pieceChars: 20_000, calls: [{ tool: 'bash', arguments: { command: 'echo ran' } }] },
    { text: 'done' },
  )
  const first = await rig(t, script, { journalPagesMax: 40 })
  const { id } = await first.api.session()
  const turnId = await first.api.prompt(id, 'go')
  for (;;) {
    const turn = await first.api.turn(turnId)
    if (turn.state === 'parked') {
      assert.deepEqual([turn.parked?.category, turn.fault?.category], ['journal_full', 'journal_full'])
      break
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  assert.equal((await first.api.call<Session>('GET', `/v1/sessions/${id}`)).json.state, 'parked')
  const { api } = await first.restart({ journalPagesMax: undefined })
  const events = await api.ended(id, turnId)
  assertNoGap(events)
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.equal(types(events).filter((type) => type === 'tool-call').length, 1)
})

test('on a truly full disk the parked event is written from the reserve, and free space wakes the turn', async (t) => {
  const disk = smallDisk(t, '24m')
  if (disk === undefined) return
  const script: Script = inOrder(
    { text: 'z'.repeat(600_000), pieceChars: 20_000, calls: [{ tool: 'bash', arguments: { command: 'echo ran' } }] },
    { text: 'done' },
  )
  const { api } = await rig(t, script, { stateDir: disk.folder })
  const { id } = await api.session()
  const free = disk.fill(200_000)
  const turnId = await api.prompt(id, 'go')
  const parked = (await api.events(id, (event) => event.type === 'parked')).at(-1)
  assert.ok(parked?.type === 'parked' && parked.fault.category === 'journal_full')
  assert.equal((await api.turn(turnId)).state, 'parked')
  free()
  const events = await api.ended(id, turnId)
  assertNoGap(events)
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.deepEqual(
    events.filter((event) => event.type === 'resumed').map((event) => event.because),
    ['signal'],
  )
})

test('no secret gets into events, logs or responses, whatever its source', async (t) => {
  const apiKey = 'an-unusual-key-without-a-known-shape'
  const lines: string[] = []
  const echo = createServer((req, res) => {
    res.writeHead(400, { 'content-type': 'application/json' })
    res.end(
      JSON.stringify({
        error: {
          message: `bad request with ${req.headers.authorization ?? ''} and sk-proj-T3stK3yAbCdEf0123456789xyzABCDEF`,
        },
      }),
    )
  })
  await new Promise<void>((resolve) => echo.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => echo.close())
  const baseUrl = `http://127.0.0.1:${(echo.address() as AddressInfo).port}/v1`
  const { api, daemon } = await rig(t, () => ({}), {
    model: { baseUrl, name: 'm', apiKey },
    logLevel: 'trace',
    logTo: { write: (line) => void lines.push(line) },
  })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  const events = await api.ended(id, turnId)
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-error' && end.category === 'model_bad_request')
  const said = [JSON.stringify(events), lines.join(''), JSON.stringify(await api.turn(turnId))].join('\n')
  for (const secret of [apiKey, 'sk-proj-T3st', daemon.token]) assert.ok(!said.includes(secret), secret)
  assert.match(said, /\[redacted\]/)
  assert.ok(lines.length > 0 && lines.every((line) => JSON.parse(line) !== null))
})

test('a key repeated by a prompt, a command or a file is in no event, view, metric or journal file', async (t) => {
  const apiKey = 'an-unusual-key-without-a-known-shape'
  const script = inOrder(
    { calls: [{ tool: 'bash', arguments: { command: `echo key=${apiKey} | tee .env` } }] },
    { calls: [{ tool: 'read', arguments: { path: '.env' } }] },
    { text: `it is ${apiKey}`, pieceChars: 200 },
  )
  const model = await startScriptedModel(script)
  atEnd(t, () => model.close())
  const { api, stateDir } = await rig(t, script, { model: { baseUrl: model.baseUrl, name: 'm', apiKey } })
  const { id, title } = await api.session({ title: `about ${apiKey}` })
  assert.equal(title, 'about [redacted]')
  const turnId = await api.prompt(id, `my key is ${apiKey}`)
  const events = await api.ended(id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  const metrics = await fetch(`${api.url}/metrics`, { headers: { authorization: `Bearer ${api.token}` } })
  const said = [JSON.stringify(events), JSON.stringify(await api.turn(turnId)), await metrics.text()]
  for (const text of said) assert.ok(!text.includes(apiKey), text)
  assert.match(said[0] ?? '', /key=\[redacted\]/)
  assert.ok(!JSON.stringify(model.asked.map(({ messages }) => messages)).includes(apiKey), 'sent to the model')
  for (const name of readdirSync(join(stateDir, 'journal'))) {
    assert.ok(!readFileSync(join(stateDir, 'journal', name)).includes(apiKey), name)
  }
})

test('a call truncated in the last attempt, after attempts that failed otherwise, does not end the turn', async (t) => {
  const { api } = await rig(t, (_, request) => {
    if (request === 1) return { status: 503 }
    return request === 2 ? { calls: [{ id: 'c1', tool: 'bash', arguments: {} }] } : { text: 'whole' }
  })
  const { id } = await api.session({ policy: { attemptsMax: 2 } })
  const turnId = await api.prompt(id, 'go')
  const seen = await api.events(id, (event) => event.type === 'parked' || isTerminal(event))
  const parked = seen.at(-1)
  assert.ok(parked?.type === 'parked' && parked.fault.category === 'tool_call_truncated', JSON.stringify(parked))
  assert.equal((await api.call('POST', `/v1/turns/${turnId}/resume`)).status, 202)
  assert.equal((await api.ended(id, turnId)).at(-1)?.type, 'turn-end')
})

test('a call that lacks a required argument is asked for once more; then the model reads what is missing', async (t) => {
  const { api, model } = await rig(t, (_, request) =>
    request <= 2 ? { calls: [{ id: 'c1', tool: 'bash', arguments: {} }] } : { text: 'Understood.' },
  )
  const session = await api.session()
  const events = await api.ended(session.id, await api.prompt(session.id, 'go'))
  assert.deepEqual(
    types(events).filter((type) => ['retry', 'tool-call', 'tool-result', 'turn-end'].includes(type)),
    ['retry', 'tool-call', 'tool-result', 'turn-end'],
  )
  const result = events.find((event) => event.type === 'tool-result')
  assert.equal(result?.outcome, 'failed')
  assert.match(result.text, /command/)
  assert.equal(model.asked.length, 3)
})
