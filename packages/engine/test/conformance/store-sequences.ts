/** Random sequences of operations against a simple model, for every store. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Append, StoredEvent } from '../../src/store/store.ts'
import { appendOf, claimAgain, claimed, refused } from './store-kit.ts'
import type { Adapter } from './store-suite.ts'

/** Opens and closes many stores, so it is no unit test. */
export function storeSequences(adapter: Adapter, numRuns: number): void {
  test('any sequence of operations leaves the state that a simple model predicts', async () => {
    const operation = fc.record({
      session: fc.nat(2),
      does: fc.constantFrom('append', 'stale-append', 'claim', 'old-owner', 'repeat', 'reopen'),
      count: fc.integer({ min: 1, max: 3 }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 25 }), async (operations) => {
        const place = adapter.place()
        let store = await place.open()
        try {
          const rows = await Promise.all([claimed(store), claimed(store), claimed(store)])
          const model = rows.map((row) => ({ row, bodies: [] as string[], last: undefined as Append | undefined }))
          for (const { session, does, count } of operations) {
            const entry = model[session] as (typeof model)[number]
            const bodies = Array.from({ length: count }, (_, n) => `"${entry.bodies.length + n}"`)
            const good = appendOf(entry.row, entry.bodies.length, bodies)
            if (does === 'append') {
              await store.append(good)
              entry.bodies.push(...bodies)
              entry.last = good
            } else if (does === 'stale-append') {
              await refused(
                store.append({ ...good, after: good.after + 1, events: shifted(good.events) }),
                'lease_lost',
              )
            } else if (does === 'old-owner') {
              await refused(store.append({ ...good, epoch: good.epoch - 1 }), 'lease_lost')
            } else if (does === 'claim') {
              entry.row = await claimAgain(store, entry.row.id)
              entry.last = undefined
            } else if (does === 'repeat') {
              if (entry.last !== undefined) await store.append(entry.last)
            } else {
              await store.close()
              store = await place.open()
            }
          }
          for (const { row, bodies } of model) {
            assert.deepEqual(
              (await store.read(row.id, 0, 1000)).map((event) => event.body),
              bodies,
            )
            assert.equal((await store.getSession(row.id))?.lastSeq, bodies.length)
          }
        } finally {
          await store.close()
          await place.remove()
        }
      }),
      { numRuns },
    )
  })
}

// ---- details ----

const shifted = (events: readonly StoredEvent[]): StoredEvent[] =>
  events.map((event) => ({ ...event, seq: event.seq + 1 }))
