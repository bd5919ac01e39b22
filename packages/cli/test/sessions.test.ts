import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '@breakfall/faults'
import type { Session, SessionEvent, Turn } from '@breakfall/wire'
import { cancel, resume } from '../src/commands/steer.ts'
import type { Output } from '../src/render/output.ts'
import { sessionLines, sessionTable, turnLines } from '../src/render/session-lines.ts'
import { anEvent, aSession, aTurn, AT, capturedOutput, jsonLines } from './samples.ts'

const plain: Output['style'] = (_style, text) => text

test('the list has a header, a line per session, and what a parked session waits for', () => {
  const sessions = [
    aSession({ state: 'parked', turnId: 't1', workspace: '/src/app' }),
    aSession({ id: 's2', title: null, model: '' }),
  ]
  assert.deepEqual(sessionTable(sessions, new Map([['s1', aTurn()]]), plain), [
    'SESSION  STATE   FOLDER     MODEL      TITLE',
    's1       parked  /src/app   qwen3      fix it',
    '  waiting for the model server (model_unreachable) since 2026-11-15 12:00:00 UTC',
    '  continues automatically; to retry now: breakfall resume s1',
    's2       idle    (private)  (default)',
  ])
})

test('a line break in a name does not look like another session', () => {
  const table = sessionTable([aSession({ title: 'x\ns9  idle', workspace: '/a\nb' })], new Map(), plain)
  assert.deepEqual(table.slice(1), ['s1       idle   /a b    qwen3  x s9 idle'])
})

test('ids are shortened as far as they differ, also in the command below a parked session', () => {
  const id = '01a1e24f-0001-7000-8000-000000000001'
  const lines = sessionTable(
    [aSession({ id, state: 'parked', turnId: 't1' }), aSession({ id: '01a1e24f-0002-7000-8000-000000000001' })],
    new Map([[id, aTurn({ sessionId: id, parked: { category: 'model_rate_limited', since: AT, resumeAt: AT } })]]),
    plain,
  )
  assert.deepEqual(
    lines.map((line) => line.split('  ')[0]),
    ['SESSION      ', '01a1e24f-0001', '', '', '01a1e24f-0002'].map((word) => word.trimEnd()),
  )
  assert.match(lines[2] ?? '', /\(model_rate_limited\), until 2026-11-15 12:00:00 UTC since 2026-11-15 12:00:00 UTC$/)
  assert.match(lines[3] ?? '', /breakfall resume 01a1e24f-0001$/)
})

test('a session is shown without its empty fields', () => {
  const lines = sessionLines(aSession({ quarantined: null, policy: {}, tools: ['bash', 'read'] }))
  assert.ok(lines.includes('tools      bash, read'))
  assert.ok(lines.every((line) => !/quarantined|policy|turnId/.test(line)))
})

test('one step is singular', () => {
  assert.equal(turnLines(aTurn())[0], 'turn t1: parked, 1 step, 2 attempts')
})

test("a session's id stands for its current turn, and a cancel shows how the turn ended", async () => {
  const calls: string[] = []
  const missing = new Fault('not_found')
  const client = {
    turn: async (id: string): Promise<Turn> => {
      if (id !== 't1') throw missing
      return aTurn(calls.length === 0 ? {} : { state: 'cancelled', parked: null })
    },
    session: async (id: string): Promise<Session> => {
      if (id === 's1') return aSession({ state: 'parked', turnId: 't1' })
      if (id === 's2') return aSession({ id: 's2' })
      throw missing
    },
    sessions: () => Promise.resolve([]),
    cancel: async (id: string): Promise<Turn> => {
      calls.push(id)
      return aTurn()
    },
    resume: () => Promise.reject(missing),
    events: async function* (): AsyncGenerator<SessionEvent> {
      yield await Promise.resolve(anEvent({ type: 'turn-error', ...new Fault('cancelled').report }))
    },
  }
  const { out, text } = capturedOutput({ json: true })
  await cancel(client, 's1', undefined, out)
  assert.deepEqual(calls, ['t1'])
  assert.equal(jsonLines(text())[0]?.['state'], 'cancelled')
  await assert.rejects(cancel(client, 's2', undefined, out), /idle/)
  await assert.rejects(resume(client, 'nobody', out), /No session or turn has the id nobody/)
})
