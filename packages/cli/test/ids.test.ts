import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SessionViewer } from '@breakfall/client'
import type { Session, SessionQuery } from '@breakfall/wire'
import { fullId } from '../src/sessions/lookup.ts'
import { shortener } from '../src/text/table.ts'
import { aSession, aSummary } from './samples.ts'

const ID = {
  mine: '01a1e24f-0001-7000-8000-000000000001',
  mineTurn: '01a1e24f-0002-7000-8000-000000000002',
  older: '01a1e111-0001-7000-8000-000000000003',
  olderTurn: '01a1e222-0002-7000-8000-000000000004',
} as const

const session = (id: string, turnId: string | null, title: string | null = null): Session =>
  aSession({ id, turnId, title, lastSeq: 9 })

const viewer = (...sessions: readonly Session[]): SessionViewer => ({
  sessionPage: ({ q = '' }: SessionQuery) =>
    Promise.resolve({ sessions: sessions.filter(({ id, title }) => id.startsWith(q) || title?.includes(q) === true) }),
  session: unused,
  turn: unused,
  turns: unused,
  events: unused,
})

const unused = (): never => assert.fail('not asked for')

const both = viewer(session(ID.mine, ID.mineTurn, 'fix it'), {
  ...session(ID.older, null),
  turn: aSummary({ id: ID.olderTurn }),
})

test('a prefix is enough if it fits one session, and a full id is used unchanged', async () => {
  assert.equal(await fullId(both, '01a1e24f'), ID.mine, 'its turn has the same prefix')
  assert.equal(await fullId(both, ID.mine.slice(0, -1)), ID.mine)
  assert.equal(await fullId(both, ID.olderTurn), ID.olderTurn)
})

test('a prefix that fits no session finds a turn: the current one, or the last one of an idle session', async () => {
  assert.equal(await fullId(both, '01a1e24f-0002'), ID.mineTurn)
  assert.equal(await fullId(both, '01a1e222'), ID.olderTurn)
})

test('a prefix of several ids is refused with the candidates, and a prefix of none is returned unchanged', async () => {
  await assert.rejects(fullId(both, '01a1e'), {
    category: 'invalid_request',
    error: `2 ids start with 01a1e; use more characters:\n  01a1e24f-0001  session "fix it"\n  01a1e111-0001  session`,
  })
  await assert.rejects(fullId(both, '01'), { error: /^2 ids start with 01/ })
  assert.equal(await fullId(both, 'ffff'), 'ffff')
  assert.equal(await fullId(both, 'x'), 'x', 'not the prefix of an id')
})

test('ids are shortened as long as they still differ', () => {
  assert.equal(shortener([ID.mine, ID.mineTurn])(ID.mine), '01a1e24f-0001')
  const [one, two] = ['01a1e24f-0001-7000-8000-000000000001', '01a1e24f-0001-7000-8000-000000000002']
  assert.equal(shortener([one, two])(two), two)
})
