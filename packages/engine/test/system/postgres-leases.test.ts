/** The leases of daemons that share a database: who may work, and until when. They last seconds, so these are no unit tests. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import { isFault } from '@breakfall/faults'
import { newId } from '@breakfall/wire/node'
import { eventually } from '../../../../test/kit/wait.ts'
import { systemClock } from '../../src/clock.ts'
import { LeaseGate } from '../../src/session/ownership.ts'
import { Lifecycle } from '../../src/session/lifecycle.ts'
import { WorkClaims } from '../../src/service/work-claims.ts'
import type { LeaseChange } from '../../src/store/sharing.ts'
import type { SessionRow } from '../../src/rows.ts'
import { busy, free, opened, proxied, query } from '../conformance/shared-database.ts'
import { appendOf, claimAgain, claimed } from '../conformance/store-kit.ts'

test('a daemon that is cut off suspends itself before its lease ends, is declared dead, and comes back as another', async (t) => {
  const { proxy, url } = await proxied(t)
  const leaseMs = 1_500
  const a = await opened(t, { url, leaseMs })
  const b = await opened(t, { leaseMs })
  const session = await claimed(a)
  await a.append({ ...appendOf(session, 0, ['1']), set: busy })
  const changes: LeaseChange[] = []
  a.lease.on((change) => changes.push(change))
  const bootId = a.lease.bootId
  proxy.up = 'hold'
  const late = a.append(appendOf(session, 1, ['late'])).then(
    () => 'written',
    (error: unknown) => (isFault(error) ? error.category : String(error)),
  )
  let wasHeldWhenTaken = true
  const taken = await eventually('the session is due elsewhere', async () => {
    const [row] = await b.claimWork({ limit: 1 })
    wasHeldWhenTaken = a.lease.isHeld()
    return row
  })
  assert.deepEqual([taken.id, wasHeldWhenTaken], [session.id, false])
  await b.append({ ...appendOf(taken, 1, ['2']), set: { state: 'idle', turnId: null }, release: free })
  proxy.release()
  assert.equal(await late, 'lease_lost')
  await eventually('it is a new daemon', () => changes.includes('resume'))
  assert.notEqual(a.lease.bootId, bootId)
  assert.deepEqual(changes.slice(0, 2), ['suspend', 'lost']) // a busy machine may cost it the next lease, too
  assert.deepEqual(
    (await a.read(session.id, 0, 10)).map(({ body }) => body),
    ['1', '2'],
  )
  const again = await claimAgain(a, session.id)
  await a.append({ ...appendOf(again, 2, ['3']), release: free })
})

test('a stall shorter than the lease changes no owner', async (t) => {
  const { proxy, url } = await proxied(t)
  const leaseMs = 15_000
  const a = await opened(t, { url, leaseMs })
  await opened(t, { leaseMs })
  const session = await claimed(a)
  proxy.down = 'hold' // answers are late; what was asked took effect
  const append = a.append({ ...appendOf(session, 0, ['1']), set: busy })
  await new Promise((resolve) => setTimeout(resolve, leaseMs * 0.1))
  proxy.release()
  await append
  await a.append({ ...appendOf(session, 1, ['2']), set: { state: 'idle', turnId: null } })
  assert.equal((await a.getSession(session.id))?.epoch, session.epoch)
  assert.equal(a.lease.isHeld(), true)
})

test('renew or reap wins, never both', async (t) => {
  const a = await opened(t)
  const [renewed, reaped] = await Promise.all([
    query(
      "UPDATE daemons SET lease_until = clock_timestamp() + interval '1 s' WHERE boot_id = $1 AND state <> 'dead' RETURNING 1",
      [a.lease.bootId],
    ),
    query("UPDATE daemons SET state = 'dead' WHERE boot_id = $1 AND lease_until < clock_timestamp() RETURNING 1", [
      a.lease.bootId,
    ]),
  ])
  assert.deepEqual([renewed.length, reaped.length], [1, 0])
})

test('a store whose database is away is closed before a caller would give up on it', async (t) => {
  const { proxy, url } = await proxied(t)
  const [leaving, staying] = [await opened(t, { url }), await opened(t, { url })]
  proxy.up = 'drop'
  const given = staying.getSession(newId()).catch(() => 'given up')
  assert.equal(await Promise.race([given, leaving.close().then(() => 'closed')]), 'closed')
})

test('a deleted session whose box cannot be removed now holds up no other claim', async (t) => {
  const store = await opened(t)
  const [deleted, due] = [await claimed(store), await claimed(store)]
  const release = (id: string): Promise<unknown> =>
    query('UPDATE heads SET owner = NULL, asked = asked + 1, wake_at = clock_timestamp() WHERE session_id = $1', [id])
  await query('UPDATE sessions SET deleting = true WHERE id = $1', [deleted.id])
  await release(deleted.id)
  const adopted: string[] = []
  const clock = systemClock({ now: Date.now, dice: () => 0.5 })
  const adopt = ({ id }: SessionRow): Promise<void> => {
    adopted.push(id)
    return Promise.resolve()
  }
  const claims = new WorkClaims({
    store,
    clock,
    gate: new LeaseGate(store.lease, clock),
    lifecycle: new Lifecycle(),
    log: pino({ level: 'silent' }),
    engine: { driven: 0 },
    loader: { adopt, peek: () => undefined, isKnown: () => true, own: () => Promise.resolve(undefined) },
    first: () => Promise.resolve(),
    remove: async () => {
      await release(due.id)
      await new Promise(() => undefined) // its runner does not answer
    },
    placesMax: 10,
  })
  t.after(() => claims.close())
  claims.start()
  await eventually('the other one is claimed', () => adopted.includes(due.id))
})
