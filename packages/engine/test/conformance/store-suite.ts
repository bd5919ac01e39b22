/** What every store must promise. An adapter's test calls this with a way to open, and to open again, a fresh store. */
import assert from 'node:assert/strict'
import { randomUUIDv7 } from 'node:crypto'
import { describe, test } from 'node:test'
import { Fault } from '@breakfall/faults'
import { type SessionRow } from '../../src/rows.ts'
import { CREATED, type Store, type StoredEvent } from '../../src/store/store.ts'
import { faultsAreCounted, faultsAreSettled } from './faults-suite.ts'
import {
  endedAreFound,
  foundByBox,
  listsAreFiltered,
  longPromptsAreFound,
  sessionsAreListed,
  whatNeedsAPersonIsListed,
  turnsAreListed,
} from './lists-suite.ts'
import { appendOf, claimAgain, claimed, newSession, refused, TURN_ID, turnOf } from './store-kit.ts'

export type Adapter = {
  readonly name: string
  /** A place for one store; `open` may be called again after the store was closed. */
  readonly place: () => { open(): Promise<Store>; remove(): Promise<void> }
}

export function storeSuite(adapter: Adapter): void {
  const scenario = (name: string, run: (store: Store, reopen: () => Promise<Store>) => Promise<void>): void => {
    test(name, async () => {
      const place = adapter.place()
      let store = await place.open()
      try {
        await run(store, async () => {
          await store.close()
          store = await place.open()
          return store
        })
      } finally {
        await store.close()
        await place.remove()
      }
    })
  }

  describe(`store ${adapter.name}`, () => {
    scenario('faults are counted by fingerprint, also after closing', faultsAreCounted)
    scenario('faults are settled by what their turn does next', faultsAreSettled)

    scenario('an appended event is read back byte for byte, also after closing', async (store, reopen) => {
      const session = await claimed(store)
      const bodies = ['{"a":1}', '{"text":"zeilen\\n\u2028 und 🙂"}', `{"big":"${'x'.repeat(300_000)}"}`]
      await store.append(appendOf(session, 0, bodies))
      const again = await reopen()
      assert.deepEqual(
        (await again.read(session.id, 0, 10)).map((event) => event.body),
        bodies,
      )
      assert.equal((await again.getSession(session.id))?.lastSeq, 3)
    })

    scenario('events are read after any seq, in pages', async (store) => {
      const session = await claimed(store)
      await store.append(appendOf(session, 0, ['1', '2', '3', '4', '5']))
      assert.deepEqual(seqs(await store.read(session.id, 0, 2)), [1, 2])
      assert.deepEqual(seqs(await store.read(session.id, 2, 2)), [3, 4])
      assert.deepEqual(seqs(await store.read(session.id, 4, 2)), [5])
      assert.deepEqual(seqs(await store.read(session.id, 5, 2)), [])
    })

    scenario('calls made at once take effect in their order', async (store, reopen) => {
      const [a, b, c] = [await claimed(store), await claimed(store), await claimed(store)]
      const first = appendOf(b, 0, ['1', '2'])
      const [, ofA] = await Promise.all([store.append(appendOf(a, 0, ['1', '2'])), store.claim(a.id)])
      assert.ok(ofA !== undefined && ofA !== 'owned')
      assert.equal(ofA.lastSeq, 2)
      await Promise.all([store.append(first), store.append(first), store.append(appendOf(b, 2, ['3']))])
      const [, isDeleted] = await Promise.all([
        store.append(appendOf(c, 0, ['1'])),
        store.deleteSession(c.id),
        store.append(appendOf(b, 3, ['4'])),
      ])
      assert.equal(isDeleted, true)
      const again = await reopen()
      assert.deepEqual(seqs(await again.read(b.id, 0, 10)), [1, 2, 3, 4])
      assert.equal(await again.getSession(c.id), undefined)
    })

    scenario(
      'any page of a long session has the events that were written, with other sessions in between',
      async (store) => {
        const sessions = [await claimed(store), await claimed(store), await claimed(store)]
        const bodies = Array.from({ length: 300 }, (_, n) => `"${n + 1}"`)
        for (let seq = 0; seq < bodies.length; seq += 20) {
          await Promise.all(sessions.map((each) => store.append(appendOf(each, seq, bodies.slice(seq, seq + 20)))))
        }
        for (const { id } of sessions) {
          for (const [after, limit] of PAGES) {
            assert.deepEqual(
              (await store.read(id, after, limit)).map((event) => event.body),
              bodies.slice(after, after + limit),
              `${limit} after ${after}`,
            )
          }
        }
      },
    )

    scenario('a page is also bounded by its size, and has at least one event', async (store) => {
      const session = await claimed(store)
      const long = JSON.stringify('x'.repeat(1_000))
      await store.append(appendOf(session, 0, [long, long, '1', '2']))
      assert.deepEqual(seqs(await store.read(session.id, 0, 10, 100)), [1])
      assert.deepEqual(seqs(await store.read(session.id, 1, 10, 1_003)), [2, 3])
      assert.deepEqual(seqs(await store.read(session.id, 2, 10, 100)), [3, 4])
    })

    scenario('an append that has not seen the last event is refused and writes nothing', async (store) => {
      const session = await claimed(store)
      await store.append(appendOf(session, 0, ['1']))
      await refused(store.append(appendOf(session, 0, ['other'])), 'lease_lost')
      await refused(store.append(appendOf(session, 2, ['later'])), 'lease_lost')
      assert.deepEqual(seqs(await store.read(session.id, 0, 10)), [1])
    })

    scenario('an append of an earlier owner is refused', async (store) => {
      const old = await claimed(store)
      await store.append(appendOf(old, 0, ['1']))
      const now = await claimAgain(store, old.id)
      assert.equal(now.epoch, old.epoch + 1)
      await refused(store.append(appendOf(old, 1, ['late'])), 'lease_lost')
      await store.append(appendOf(now, 1, ['2']))
      assert.equal((await store.read(old.id, 0, 10)).length, 2)
    })

    scenario('an append whose answer was lost can be repeated without a second copy', async (store) => {
      const session = await claimed(store)
      await store.append(appendOf(session, 0, ['1', '2']))
      await store.append(appendOf(session, 0, ['1', '2']))
      assert.deepEqual(seqs(await store.read(session.id, 0, 10)), [1, 2])
    })

    scenario('events with a hole in their seqs are refused as a whole', async (store) => {
      const session = await claimed(store)
      const append = appendOf(session, 0, ['1', '2'])
      const holed = { ...append, events: [append.events[0], { ...append.events[1], seq: 3 }] as StoredEvent[] }
      await refused(store.append(holed), 'other')
      assert.equal((await store.getSession(session.id))?.lastSeq, 0)
    })

    scenario('state, turn and key are written with the events or not at all', async (store, reopen) => {
      const session = await claimed(store)
      const turn = turnOf(session.id)
      const key = { scope: session.id, key: 'k', requestHash: 'h', receipt: '{"seq":1}' }
      const set = { state: 'busy', turnId: turn.turnId } as const
      await store.append({ ...appendOf(session, 0, ['1']), set, turns: [turn], key })
      await refused(
        store.append({ ...appendOf(session, 1, ['2']), set: { state: 'idle', turnId: null }, key }),
        'idempotency_conflict',
      )
      const again = await reopen()
      const row = await again.getSession(session.id)
      assert.deepEqual([row?.state, row?.turnId, row?.lastSeq], ['busy', turn.turnId, 1])
      assert.deepEqual(await again.getTurn(turn.turnId), turn)
      assert.deepEqual(await again.getKey(session.id, 'k'), key)
      assert.equal(await again.getKey('elsewhere', 'k'), undefined)
    })

    scenario(
      'unfinished sessions of an earlier owner are claimed, idle and quarantined ones are not',
      async (store, reopen) => {
        const [busy, idle, bad] = [await claimed(store), await claimed(store), await claimed(store)]
        for (const session of [busy, bad]) {
          await store.append({ ...appendOf(session, 0, ['1']), set: { state: 'busy', turnId: TURN_ID } })
        }
        await store.append(appendOf(idle, 0, ['1']))
        await store.quarantine(bad.id, new Fault('journal_corrupt', { error: 'x' }).report)
        const again = await reopen()
        const taken = await again.claimWork({ limit: 10 })
        assert.deepEqual(
          taken.map((row) => [row.id, row.epoch]),
          [[busy.id, busy.epoch + 1]],
        )
        assert.equal((await again.getSession(bad.id))?.quarantined?.category, 'journal_corrupt')
      },
    )

    scenario('a session is claimed once while it is owned, in portions, suspects apart and last', async (store) => {
      const sessions = [await claimed(store), await claimed(store), await claimed(store), await claimed(store)]
      for (const [suspect, session] of sessions.entries()) {
        const set = { state: 'busy', turnId: randomUUIDv7() } as const
        const release = { wakeAt: PAST, waitFor: null }
        await store.append({ ...appendOf(session, 0, ['1']), set, suspect, release })
      }
      const ids = sessions.map(({ id }) => id)
      const found = async (limit: number, suspects = false): Promise<number[]> =>
        (await store.claimWork({ limit, suspects })).map(({ id }) => ids.indexOf(id))
      assert.deepEqual(await found(1), [0])
      assert.deepEqual(await found(10), [1])
      assert.deepEqual(await found(10), [])
      assert.deepEqual(await found(1, true), [2])
      assert.deepEqual(await found(10, true), [3])
      assert.deepEqual((await store.getSession(ids[3] ?? ''))?.suspect, 3)
    })

    scenario('a released session is due at its time, or when what it waits for is there', async (store) => {
      const [later, waiting, never] = [await claimed(store), await claimed(store), await claimed(store)]
      const release = (session: SessionRow, wakeAt: string | null, waitFor: string | null) =>
        store.append({
          ...appendOf(session, 0, ['1']),
          set: { state: 'parked', turnId: randomUUIDv7() },
          release: { wakeAt, waitFor },
        })
      await release(later, '2999-01-01T00:00:00.000Z', null)
      await release(waiting, null, 'runner:r1')
      await release(never, null, null)
      assert.deepEqual(await store.claimWork({ limit: 10 }), [])
      assert.deepEqual(await store.waits(), [{ waitFor: 'runner:r1', sessions: 1 }])
      assert.equal(await store.wake('runner:r2'), 0)
      assert.equal(await store.wake('runner:r1', 5), 1)
      assert.deepEqual(
        (await store.claimWork({ limit: 10 })).map(({ id, epoch }) => [id, epoch]),
        [[waiting.id, waiting.epoch + 1]],
      )
      assert.deepEqual(await store.waits(), [])
      await refused(store.append(appendOf(waiting, 1, ['late'])), 'lease_lost')
      assert.equal((await claimAgain(store, never.id)).state, 'parked')
    })

    scenario('an epoch is raised above an epoch seen elsewhere, by its owner only', async (store) => {
      const session = await claimed(store)
      const raised = await store.raiseEpoch(session, session.epoch + 7)
      assert.equal(raised?.epoch, session.epoch + 8)
      assert.equal(await store.raiseEpoch(session, 1), undefined)
      await refused(store.append(appendOf(session, 0, ['old'])), 'lease_lost')
      await store.append(appendOf({ ...session, epoch: session.epoch + 8 }, 0, ['1']))
    })

    scenario('heads say how far journals reach, and their hash covers every event', async (store) => {
      const [one, two] = [await claimed(store), await claimed(store)]
      await store.append(appendOf(one, 0, ['1', '2']))
      await store.append({ ...appendOf(two, 0, ['1', 'x']), set: { state: 'busy', turnId: one.id } })
      const heads = await store.heads([one.id, randomUUIDv7(), two.id])
      assert.deepEqual(
        heads.map(({ sessionId, epoch, lastSeq, state, turnId }) => [sessionId, epoch, lastSeq, state, turnId]),
        [
          [one.id, one.epoch, 2, 'idle', null],
          [two.id, two.epoch, 2, 'busy', one.id],
        ],
      )
      assert.equal(new Set(heads.map(({ hash }) => hash)).size, 2)
      assert.match(heads[0]?.hash ?? '', /^[0-9a-f]{64}$/)
    })

    scenario('a session is created once for a key', async (store) => {
      const key = { scope: 'create', key: 'k', requestHash: 'h', receipt: 'first' }
      const first = await store.createSession(newSession(), key)
      const second = newSession()
      await refused(store.createSession(second, { ...key, receipt: 'second' }), 'idempotency_conflict')
      assert.equal(await store.getSession(second.id), undefined)
      assert.equal((await store.getKey('create', 'k'))?.receipt, 'first')
      assert.equal((await store.getSession(first.id))?.id, first.id)
    })

    scenario('the key that created a session is free again when that session is deleted', async (store, reopen) => {
      const created = async (on: Store): Promise<SessionRow> => {
        const session = newSession()
        return on.createSession(session, { scope: CREATED, key: 'nightly', requestHash: 'h', receipt: session.id })
      }
      const first = await created(store)
      await refused(created(store), 'idempotency_conflict')
      assert.equal((await store.getKey(CREATED, 'nightly'))?.receipt, first.id)
      assert.equal(await store.deleteSession(first.id), true)
      assert.equal(await store.getKey(CREATED, 'nightly'), undefined)
      const second = await created(store)
      await refused(created(store), 'idempotency_conflict')
      assert.equal(await store.deleteSession(second.id), true)
      const again = await reopen()
      assert.equal(await again.getKey(CREATED, 'nightly'), undefined)
      const third = await created(again)
      assert.equal((await again.getKey(CREATED, 'nightly'))?.receipt, third.id)
    })

    scenario('a deleted session is gone with its events, turns and keys', async (store) => {
      const session = await claimed(store)
      const turn = turnOf(session.id)
      const key = { scope: session.id, key: 'k', requestHash: 'h', receipt: '' }
      await store.append({ ...appendOf(session, 0, ['1']), turns: [turn], key })
      assert.equal(await store.deleteSession(session.id), true)
      assert.equal(await store.deleteSession(session.id), false)
      assert.equal(await store.getSession(session.id), undefined)
      assert.equal(await store.getTurn(turn.turnId), undefined)
      assert.equal(await store.getKey(session.id, 'k'), undefined)
      await refused(store.read(session.id, 0, 1), 'not_found')
      await refused(store.append(appendOf(session, 1, ['2'])), 'not_found')
    })

    scenario('sessions that ended are found by the time of their end, and only those', endedAreFound)

    scenario('sessions are found by their box', foundByBox)

    scenario('sessions are listed newest first, in pages', sessionsAreListed)

    scenario('a list of what needs a person has the turns that wait for one, and no others', whatNeedsAPersonIsListed)
    scenario('a list is filtered by how turns ended and by text, and counts what each filter finds', listsAreFiltered)
    scenario('a text is found anywhere in the last prompt, however long it is', longPromptsAreFound)

    scenario('turns are listed newest first, in pages', turnsAreListed)

    scenario(
      'many sessions appending at once lose nothing, and one refusal touches no other',
      async (store, reopen) => {
        const sessions = await Promise.all(Array.from({ length: 20 }, () => claimed(store)))
        const stale = { ...(sessions[0] as SessionRow), epoch: 99 }
        const work = sessions.map(async (session) => {
          for (let seq = 0; seq < 20; seq += 1) await store.append(appendOf(session, seq, [`"${session.id} ${seq}"`]))
        })
        await Promise.all([...work, refused(store.append(appendOf(stale, 0, ['never'])), 'lease_lost')])
        const again = await reopen()
        for (const session of sessions) {
          const events = await again.read(session.id, 0, 100)
          assert.deepEqual(
            events.map((event) => event.body),
            Array.from({ length: 20 }, (_, seq) => `"${session.id} ${seq}"`),
          )
        }
      },
    )
  })
}

// ---- details ----

const PAST = '2026-11-15T12:00:00.000Z'

/** After a seq, how many: round numbers, what lies beside them, the ends. */
const PAGES = [
  [0, 1000],
  [0, 1],
  [1, 62],
  [1, 63],
  [62, 1],
  [63, 1],
  [64, 64],
  [65, 128],
  [127, 2],
  [255, 45],
  [256, 44],
  [298, 1],
  [299, 9],
  [300, 9],
  [999, 9],
] as const

const seqs = (events: readonly StoredEvent[]): number[] => events.map((event) => event.seq)
