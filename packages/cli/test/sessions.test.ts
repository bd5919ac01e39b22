import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '@breakfall/faults'
import type { Session, Turn } from '@breakfall/wire'
import { cancel, resume, sessionLines, sessionTable, turnLines } from '../src/commands/sessions.ts'
import type { DaemonClient } from '../src/daemon/client.ts'
import type { Output } from '../src/render/output.ts'

const at = '2026-11-15T12:00:00.000Z'
const session = (fields: Partial<Session> = {}): Session => ({
  id: 's1',
  title: 'mend it',
  state: 'idle',
  turnId: null,
  model: 'qwen3',
  boxId: 's1',
  createdAt: at,
  lastSeq: 3,
  ...fields,
})
const turn = (fields: Partial<Turn> = {}): Turn => ({
  id: 't1',
  sessionId: 's1',
  state: 'parked',
  prompt: 'p',
  steps: 1,
  attempts: 2,
  parked: { category: 'model_unreachable', since: at, resumeAt: null },
  fault: null,
  result: null,
  usage: { inputTokens: { value: null, quality: 'unknown' }, outputTokens: { value: null, quality: 'unknown' } },
  startedAt: at,
  endedAt: null,
  ...fields,
})
const plain: Output['style'] = (_style, text) => text

test('the list has a head, a line per session, and what a parked one waits for', () => {
  const sessions = [
    session({ state: 'parked', turnId: 't1', workspace: '/src/app' }),
    session({ id: 's2', title: null, model: '' }),
  ]
  assert.deepEqual(sessionTable(sessions, new Map([['s1', turn()]]), plain), [
    'SESSION  STATE   FOLDER     MODEL      TITLE',
    's1       parked  /src/app   qwen3      mend it',
    '  waits for the model server (model_unreachable) since 2026-11-15 12:00:00 UTC',
    '  goes on by itself; to try now: breakfall resume s1',
    's2       idle    (private)  (default)',
  ])
})

test('a line break in a name does not look like another session', () => {
  const table = sessionTable([session({ title: 'x\ns9  idle', workspace: '/a\nb' })], new Map(), plain)
  assert.deepEqual(table.slice(1), ['s1       idle   /a b    qwen3  x s9 idle'])
})

test('ids are shortened to what tells them apart, also in the command under a parked one', () => {
  const id = '01a1e24f-0001-7000-8000-000000000001'
  const lines = sessionTable(
    [session({ id, state: 'parked', turnId: 't1' }), session({ id: '01a1e24f-0002-7000-8000-000000000001' })],
    new Map([[id, turn({ sessionId: id, parked: { category: 'model_rate_limited', since: at, resumeAt: at } })]]),
    plain,
  )
  assert.deepEqual(
    lines.map((line) => line.split('  ')[0]),
    ['SESSION      ', '01a1e24f-0001', '', '', '01a1e24f-0002'].map((word) => word.trimEnd()),
  )
  assert.match(lines[2] ?? '', /\(model_rate_limited\), until 2026-11-15 12:00:00 UTC since 2026-11-15 12:00:00 UTC$/)
  assert.match(lines[3] ?? '', /breakfall resume 01a1e24f-0001$/)
})

test('a session is shown without the fields that say nothing', () => {
  const lines = sessionLines(session({ quarantined: null, policy: {}, tools: ['bash', 'read'] }))
  assert.ok(lines.includes('tools      bash, read'))
  assert.ok(lines.every((line) => !/quarantined|policy|turnId/.test(line)))
})

test('one is singular', () => {
  assert.equal(turnLines(turn())[0], 'turn t1: parked, 1 step, 2 attempts')
})

test("a session's id stands for its current turn, and a cancel shows how the turn ended", async () => {
  const calls: string[] = []
  const missing = new Fault('not_found')
  const client = {
    turn: async (id: string) => {
      if (id !== 't1') throw missing
      return turn(calls.length === 0 ? {} : { state: 'cancelled', parked: null })
    },
    session: async (id: string) => {
      if (id === 's1') return session({ state: 'parked', turnId: 't1' })
      if (id === 's2') return session({ id: 's2' })
      throw missing
    },
    cancel: async (id: string) => {
      calls.push(id)
      return turn()
    },
    events: async function* () {
      yield await Promise.resolve({ type: 'turn-error', turnId: 't1' })
    },
  } as unknown as DaemonClient
  const shown: unknown[] = []
  const out = { json: true, result: (value: unknown) => void shown.push(value) } as unknown as Output
  await cancel(client, 's1', undefined, out)
  assert.deepEqual(calls, ['t1'])
  assert.equal((shown[0] as Turn).state, 'cancelled')
  await assert.rejects(cancel(client, 's2', undefined, out), /idle/)
  await assert.rejects(resume(client, 'nobody', out), /no session or turn of that id/)
})
