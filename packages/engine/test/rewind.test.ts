/** What a daemon does about journals that a failover of the database made shorter. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { Fault } from '@breakfall/faults'
import { tempFolder } from '../../../test/kit/folder.ts'
import { CHAIN_START, chainHash } from '../src/store/chain.ts'
import { Acknowledged } from '../src/store/postgres/acknowledged.ts'
import { Connection } from '../src/store/postgres/connection.ts'
import { Rewinds } from '../src/store/postgres/rewind.ts'

const SESSION = '01890000-0000-7000-8000-000000000001'
const event = { seq: 8, type: 'tool-call', turnId: SESSION, body: '{}' }
const noted = { append: { sessionId: SESSION, epoch: 1, after: 7, events: [event] }, hashes: ['h8'], head: 'h8' }
const lost = (): Fault => new Fault('lease_lost', { boundary: 'journal' })

/** The database has these journals, one after the other, each time it is asked; `undefined`: it does not answer. */
function rig(t: TestContext, journals: readonly (Record<string, unknown> | undefined)[]) {
  const acknowledged = new Acknowledged(join(tempFolder(t), 'anchors'), () => 0)
  t.after(() => acknowledged.close())
  acknowledged.note([noted])
  const answers = [...journals]
  const meanwhile: (() => void)[] = []
  const setAside: string[] = []
  const appends: (() => Promise<void>)[] = []
  const rewinds = new Rewinds({
    pool: {
      query: () => {
        meanwhile.shift()?.()
        const row = answers.shift()
        return row === undefined
          ? Promise.reject(new Fault('journal_unreachable'))
          : Promise.resolve([{ session_id: SESSION, set_aside: false, ...row }])
      },
    },
    acknowledged,
    leaseMs: 0,
    append: () => appends.shift()?.() ?? Promise.resolve(),
    setAside: (_, { error }) => Promise.resolve(void setAside.push(error)),
  })
  return { acknowledged, rewinds, setAside, appends, meanwhile }
}

const short = { last_seq: 4, hash: null }
const whole = { last_seq: 9, hash: 'h8' }

test('a journal that its owner repaired meanwhile is not set aside', async (t) => {
  const { rewinds, setAside, appends } = rig(t, [short, whole])
  appends.push(() => Promise.reject(lost())) // the owner's own append was first, and repaired it
  await rewinds.compare()
  assert.deepEqual(setAside, [])
})

test('an event that is acknowledged during the comparison does not count as lost', async (t) => {
  const { rewinds, setAside, acknowledged, meanwhile } = rig(t, [whole])
  const append = { ...noted.append, after: 8, events: [{ ...event, seq: 9 }] }
  meanwhile.push(() => acknowledged.note([{ append, hashes: ['h9'], head: 'h9' }]))
  await rewinds.compare()
  assert.deepEqual(setAside, [])
})

test('a journal that stays short, or has another event there, is set aside', async (t) => {
  const stays = rig(t, [short, short, short, short])
  for (let each = 0; each < 3; each += 1) stays.appends.push(() => Promise.reject(lost()))
  await stays.rewinds.compare()
  assert.match(stays.setAside.join(), /lost its events after 4/)
  const other = rig(t, [{ last_seq: 8, hash: 'another' }])
  await other.rewinds.compare()
  assert.match(other.setAside.join(), /lost its events after 7/)
})

test('if the database does not answer, it is compared at the next renewal, and nothing is claimed until then', async (t) => {
  const { rewinds, setAside } = rig(t, [undefined, whole])
  rewinds.heard(1)
  assert.equal(rewinds.claimEra, 1)
  rewinds.heard(2)
  await new Promise(setImmediate)
  assert.equal(rewinds.claimEra, undefined)
  rewinds.heard(2)
  await new Promise(setImmediate)
  assert.equal(rewinds.claimEra, 2)
  assert.deepEqual(setAside, [])
})

test('a missing event that the given-up first attempt restores meanwhile is restored, not gone', async (t) => {
  const id = '01890000-0000-7000-8000-000000000002'
  const append = { ...noted.append, sessionId: id, after: 0, events: [{ ...event, seq: 1 }] }
  const head = chainHash(CHAIN_START, { seq: 1, epoch: 1, type: event.type, body: event.body })
  for (const [hash, restored] of [
    [head, 'restored'],
    ['another', 'gone'],
  ]) {
    const { rewinds, acknowledged } = rig(t, [])
    acknowledged.note([{ append, hashes: [head], head }])
    const connection = new Connection({ url: 'postgres://127.0.0.1:1', waitMs: 1 })
    connection.queryPlanned = () => Promise.resolve([{ written: '' }]) // it waited for the row, and then nothing was left to do
    connection.query = () => Promise.resolve([{ session_id: id, epoch: 1, last_seq: 1, head: hash, hash }])
    assert.equal(await rewinds.restore(connection, id, { lastSeq: 0, epoch: 1, hash: CHAIN_START }), restored)
  }
})
