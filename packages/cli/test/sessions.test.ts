import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '@breakfall/faults'
import type { Session, SessionEvent, Turn } from '@breakfall/wire'
import { cancel, resume } from '../src/commands/cancel-resume/cancel-resume.ts'
import { sessionLines, sessionTable } from '../src/render/session-lines.ts'
import { turnLines } from '../src/render/turn-lines.ts'
import type { Output } from '../src/terminal/output.ts'
import { anEvent, aSession, aSummary, AT, aTurn, capturedOutput, jsonLines } from './samples.ts'

const plain: Output['style'] = (_style, text) => text

const NOW = Date.parse(AT) + 180_000

test('the list says how old a session is, how it ended, and what a parked one waits for', () => {
  const parked = { category: 'model_unreachable', since: AT, resumeAt: null }
  const fault = { category: 'model_auth_failed', class: 'needs_action', title: 't', error: 'e' }
  const sessions = [
    aSession({ state: 'parked', turnId: 't1', workspace: '/src/app', turn: aSummary({ state: 'parked', parked }) }),
    aSession({ id: 's2', title: null, model: '', turn: aSummary({ prompt: 'say hello\nand more' }) }),
    aSession({ id: 's3', turn: aSummary({ state: 'failed', fault }), updatedAt: '2026-11-13T12:00:00.000Z' }),
    aSession({ id: 's4', turn: null }),
    aSession({ id: 's5', state: 'busy', live: false, turn: aSummary({ state: 'running' }) }),
  ]
  assert.deepEqual(sessionTable(sessions, plain, NOW), [
    'SESSION  AGE    STATE                      FOLDER     MODEL      TITLE',
    's1       3 min  parked                     /src/app   qwen3      fix it',
    '  waiting for the model server (model_unreachable) since 2026-11-15 12:00:00 UTC',
    '  continues automatically; to retry now: breakfall resume s1',
    's2       3 min  finished                   (private)  (default)  say hello',
    's3       2 d    failed: model_auth_failed  (private)  qwen3      fix it',
    's4       3 min  new                        (private)  qwen3      fix it',
    's5       3 min  running, no daemon         (private)  qwen3      fix it',
  ])
})

test('a line break in a name does not look like another session', () => {
  const table = sessionTable([aSession({ title: 'x\ns9  idle', workspace: '/a\nb' })], plain, NOW)
  assert.deepEqual(table.slice(1), ['s1       3 min  new    /a b    qwen3  x s9 idle'])
})

test('ids are shortened as far as they differ, also in the command below a parked session', () => {
  const id = '01a1e24f-0001-7000-8000-000000000001'
  const turn = aSummary({ state: 'parked', parked: { category: 'model_rate_limited', since: AT, resumeAt: AT } })
  const lines = sessionTable(
    [aSession({ id, state: 'parked', turnId: 't1', turn }), aSession({ id: '01a1e24f-0002-7000-8000-000000000001' })],
    plain,
    NOW,
  )
  assert.deepEqual(
    lines.map((line) => line.split('  ')[0]),
    ['SESSION      ', '01a1e24f-0001', '', '', '01a1e24f-0002'].map((word) => word.trimEnd()),
  )
  assert.match(lines[2] ?? '', /\(model_rate_limited\), until 2026-11-15 12:00:00 UTC since 2026-11-15 12:00:00 UTC$/)
  assert.match(lines[3] ?? '', /breakfall resume 01a1e24f-0001$/)
})

const usage = (input: number | null, output: number): Turn['usage'] => ({
  inputTokens: input === null ? { value: null, quality: 'unknown' } : { value: input, quality: 'known' },
  outputTokens: { value: output, quality: 'known' },
})

test('a session is shown with its turns, its tokens and its cost, and an unknown amount stays unknown', () => {
  const cost = { value: 0.25, currency: 'USD', quality: 'known' } as const
  const turns = [
    aTurn({ usage: usage(1_200, 30), cost }),
    aTurn({ usage: usage(null, 4), cost: { ...cost, value: null, quality: 'unknown' } }),
  ]
  const lines = sessionLines(aSession({ quarantined: null, policy: {}, tools: ['bash', 'read'] }), turns, NOW)
  assert.deepEqual(lines, [
    'session  s1',
    'title    fix it',
    'state    new, changed 3 min ago',
    'folder   (private)',
    'model    qwen3',
    'created  2026-11-15 12:00:00 UTC, 3 min ago',
    'turns    2',
    'used     about 1,200 tokens in, 34 out, about $0.2500',
    'tools    bash, read',
  ])
})

test('a turn is shown with its prompt, tools, faults, tokens, cost, files and time', () => {
  const turn = aTurn({
    state: 'finished',
    parked: null,
    prompt: 'fix it\nplease',
    tools: { bash: 2, edit: 1 },
    faultsSurvived: 1,
    unknownOutcomes: 1,
    usage: usage(10, 5),
    cost: { value: 0, currency: 'USD', quality: 'known' },
    filesChanged: ['a.txt', 'b.txt'],
    endedAt: '2026-11-15T12:00:41.000Z',
    result: { text: 'done' },
  })
  assert.deepEqual(turnLines(turn), [
    'turn t1: finished, 1 step, 2 attempts, 41 s',
    '  prompt   fix it (and 1 more line)',
    '  tools    bash ×2, edit',
    '  survived 1 fault',
    '  unknown  whether 1 call ran',
    '  used     10 tokens in, 5 out, $0.00',
    '  changed  a.txt, b.txt',
    'done',
  ])
  const named = turnLines(turn, { survived: ['model_unreachable', 'taken_over', 'model_unreachable'] })
  assert.ok(named.includes('  survived 1 fault: model_unreachable ×2, taken_over'), named.join('\n'))
  assert.ok(turnLines(aTurn()).includes('  used     unknown tokens in, unknown out'))
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
    sessionPage: () => Promise.resolve({ sessions: [] }),
    turns: () => Promise.resolve({ turns: [] }),
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
