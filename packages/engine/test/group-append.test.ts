/** Batches that fail as a whole. What a real server answers is in `postgres-store.test.ts` and `postgres-fleet.test.ts`. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { isFault } from '@breakfall/faults'
import pg from 'pg'
import { CHAIN_START, chainHash } from '../src/store/chain.ts'
import { Connection, type PgValue } from '../src/store/postgres/connection.ts'
import { GroupAppend } from '../src/store/postgres/group-append.ts'

const [A, B, BAD, LATE] = [1, 2, 3, 4].map((nr) => `01890000-0000-7000-8000-00000000000${nr}`)
assert.ok(A !== undefined && B !== undefined && BAD !== undefined && LATE !== undefined)

/** A connection whose server writes everything, unless `fail` throws. */
class Scripted extends Connection {
  readonly #fail: (ids: readonly string[]) => void

  constructor(fail: (ids: readonly string[]) => void) {
    super({ url: 'postgres://127.0.0.1:1', waitMs: 1 })
    this.#fail = fail
  }

  override async queryPlanned(_: string, values: readonly PgValue[]) {
    const [sessionIds] = values
    assert.ok(Array.isArray(sessionIds))
    const ids = sessionIds.map(String)
    await Promise.resolve()
    this.#fail(ids)
    return [{ written: ids.join(',') }]
  }
}

function group(t: TestContext, fail: Scripted | ((ids: readonly string[]) => void)): GroupAppend {
  const made = new GroupAppend({
    connections: [fail instanceof Scripted ? fail : new Scripted(fail)],
    barrier: () => Promise.resolve(),
    restore: () => Promise.resolve('complete'),
    gone: () => assert.fail('nothing is gone'),
    onCommit: () => undefined,
    pause: () => new Promise(setImmediate),
  })
  t.after(() => made.close())
  return made
}

const append = (sessionId: string) => ({
  sessionId,
  epoch: 1,
  after: 0,
  events: [{ seq: 1, type: 'text-delta', turnId: A, body: '{}' }],
})

test('an append that breaks each connection holds up no other, and gives its connection back', async (t) => {
  let breaks = 0
  const appends = group(t, (ids) => {
    if (!ids.includes(BAD)) return
    breaks += 1
    throw new Error('Connection terminated unexpectedly')
  })
  const written: string[] = []
  const write = (id: string): Promise<unknown> => appends.append(append(id)).then(() => written.push(id), isFault)
  const until = async (isSo: () => boolean): Promise<void> => {
    for (let looks = 0; !isSo(); looks += 1) {
      assert.ok(looks < 10_000, `${written.join()} are written, and one broke its connection ${breaks} times`)
      await new Promise(setImmediate)
    }
  }
  const all = [A, BAD, B].map(write)
  await until(() => written.length === 2)
  assert.deepEqual(written.toSorted(), [A, B])
  const before = breaks
  await until(() => breaks > before + 20)
  all.push(write(LATE))
  await until(() => written.includes(LATE))
  appends.close()
  await Promise.all(all)
})

test('a mistake in our own code fails that append at once', async (t) => {
  const appends = group(t, (ids) => {
    if (ids.includes(BAD)) throw new TypeError("Cannot read properties of undefined (reading 'seq')")
  })
  const [right, wrong] = await Promise.allSettled([A, BAD].map((id) => appends.append(append(id))))
  assert.equal(right?.status, 'fulfilled')
  assert.ok(wrong?.status === 'rejected' && isFault(wrong.reason) && wrong.reason.category === 'other')
})

test('an append that fails after an attempt whose outcome is unknown is refused only if the journal does not have it', async (t) => {
  const hash = chainHash(CHAIN_START, { seq: 1, epoch: 1, type: 'text-delta', body: '{}' })
  const landed = { session_id: A, epoch: 1, last_seq: 1, head: hash, hash, command: null, outcome: null }
  for (const [row, outcome] of [
    [landed, 'written'],
    [{ ...landed, last_seq: 0, head: CHAIN_START, hash: null }, 'journal_full'],
  ] as const) {
    const errors = [new Error('Connection terminated unexpectedly'), databaseError('53100')]
    const connection = new Scripted(() => {
      const error = errors.shift()
      assert.ok(error !== undefined, 'it was sent once more')
      throw error
    })
    connection.query = () => Promise.resolve([row])
    const appended = group(t, connection).append(append(A))
    assert.equal(await appended.then(() => 'written', categoryOf), outcome)
  }
})

const databaseError = (code: string): Error => Object.assign(new pg.DatabaseError('x', 1, 'error'), { code })
const categoryOf = (error: unknown): unknown => (isFault(error) ? error.category : error)
