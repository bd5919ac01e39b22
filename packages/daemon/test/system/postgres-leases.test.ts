/** The leases of daemons that share a database: who may work, and until when. They last seconds, so these are no unit tests. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { eventually } from '../../../../test/kit/wait.ts'
import type { LeaseChange } from '../../src/store/sharing.ts'
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
