import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Session } from '@breakfall/wire'
import { shortener, wholeId } from '../src/sessions/ids.ts'
import type { Viewer } from '../src/sessions/offline.ts'

const ID = {
  mine: '01a1e24f-0001-7000-8000-000000000001',
  mineTurn: '01a1e24f-0002-7000-8000-000000000002',
  older: '01a1e111-0001-7000-8000-000000000003',
  olderTurn: '01a1e222-0002-7000-8000-000000000004',
} as const

const session = (id: string, turnId: string | null, title: string | null = null): Session =>
  ({ id, turnId, title, lastSeq: 9 }) as unknown as Session

const viewer = (...sessions: readonly Session[]): Viewer =>
  ({
    sessions: () => Promise.resolve(sessions),
    events: async function* () {
      yield await Promise.resolve({ turnId: ID.olderTurn })
    },
  }) as unknown as Viewer

const both = viewer(session(ID.mine, ID.mineTurn, 'mend it'), session(ID.older, null))

test('the beginning of an id is enough where it fits one session, and a whole id is taken as it is', async () => {
  assert.equal(await wholeId(both, '01a1e24f'), ID.mine, 'its turn begins with the same time')
  assert.equal(await wholeId(both, ID.mine.slice(0, -1)), ID.mine)
  assert.equal(await wholeId(both, ID.olderTurn), ID.olderTurn)
})

test('where no session fits it is a turn: the current one of a session, or the last one of an idle session', async () => {
  assert.equal(await wholeId(both, '01a1e24f-0002'), ID.mineTurn)
  assert.equal(await wholeId(both, '01a1e222'), ID.olderTurn)
})

test('a beginning of several ids is refused with the candidates, and one of none comes back as it is', async () => {
  await assert.rejects(wholeId(both, '01a1e'), {
    category: 'invalid_request',
    error: `01a1e is the beginning of 2 ids; say more of it:\n  01a1e24f-0001  session "mend it"\n  01a1e111-0001  session`,
  })
  await assert.rejects(wholeId(both, '01'), { error: /^01 is the beginning of 2 ids/ })
  assert.equal(await wholeId(both, 'ffff'), 'ffff')
  assert.equal(await wholeId(both, 'x'), 'x', 'no id begins so')
})

test('ids are shortened as far as they can still be told apart', () => {
  assert.equal(shortener([ID.mine, ID.mineTurn])(ID.mine), '01a1e24f-0001')
  const [one, two] = ['01a1e24f-0001-7000-8000-000000000001', '01a1e24f-0001-7000-8000-000000000002']
  assert.equal(shortener([one, two])(two), two)
})
