import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rig } from '../support/setup.ts'

type Line = { readonly msg: string; readonly sessionId?: string; readonly turnId?: string; readonly requestId?: string }

test('the log has the turning points of a turn and each refused request, with the ids of the API', async (t) => {
  const lines: Line[] = []
  const { api } = await rig(t, (_, request) => (request === 1 ? { status: 500 } : { text: 'a secret of the user' }), {
    logLevel: 'debug',
    logTo: { write: (line) => void lines.push(JSON.parse(line) as Line) },
  })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  await api.ended(id, turnId)
  const ofTurn = lines.filter((line) => line.turnId === turnId)
  assert.deepEqual(
    ofTurn.map(({ msg, sessionId }) => [msg, sessionId]),
    ['turn started', 'retrying', 'turn ended'].map((msg) => [msg, id]),
  )
  assert.ok(!JSON.stringify(lines).includes('a secret of the user'), 'what is said stays in the journal')
  const refused = await api.call('GET', '/v1/turns/no-such-turn')
  const requestId = refused.headers.get('x-request-id')
  assert.deepEqual(
    lines.flatMap((line) => (line.requestId === requestId ? [line.msg] : [])),
    ['a request was refused'],
  )
})
