/** Faults by fingerprint, as every store must count them. */
import assert from 'node:assert/strict'
import type { FaultFate, SeenFault } from '../../src/turn/fault-history.ts'
import type { FaultSelection } from '../../src/store/fault-history.ts'
import type { SessionRow } from '../../src/rows.ts'
import type { Store } from '../../src/store/store.ts'
import { appendOf, claimed, refused, TURN_ID } from './store-kit.ts'

export async function faultsAreCounted(store: Store, reopen: () => Promise<Store>): Promise<void> {
  const [a, b] = [await claimed(store), await claimed(store)]
  await note(store, a, 0, [fault(1, 'f1', '01'), fault(2, 'f1', '02'), fault(3, 'f2', '03', 'parked')])
  await note(store, b, 0, [fault(1, 'f1', '04'), fault(2, 'f3', '05', 'ended')])
  const again = await reopen()
  const [f3, f1, f2, ...others] = await again.faultGroups(ALL)
  assert.deepEqual([f3?.fingerprint, f1?.fingerprint, f2?.fingerprint, others], ['f3', 'f1', 'f2', []], 'latest first')
  assert.deepEqual([f1?.count, f1?.sessions, f1?.firstAt, f1?.lastAt], [3, 2, at('01'), at('04')])
  assert.deepEqual(f1?.fates, { open: 3, parked: 0, survived: 0, ended: 0 })
  assert.deepEqual(f1.hours, { '2026-11-15T12': 3 })
  assert.deepEqual(f1.sample, { ...fault(1, 'f1', '04'), sessionId: b.id, sessionTitle: null })

  const names = async (selection: Partial<FaultSelection>) =>
    (await again.faultGroups({ ...ALL, ...selection })).map((group) => `${group.fingerprint} ${group.count}`)
  assert.deepEqual(await names({ since: at('02') }), ['f3 1', 'f1 2', 'f2 1'])
  assert.deepEqual(await names({ class: 'invalid' }), [])
  assert.deepEqual(await names({ isOpen: true }), ['f1 3', 'f2 1'])
  assert.deepEqual(await names({ fingerprint: 'f2' }), ['f2 1'])
  assert.deepEqual(await names({ limit: 1 }), ['f3 1'])
  assert.deepEqual(await names({ after: { lastAt: at('05'), fingerprint: 'f3' }, limit: 1 }), ['f1 3'])
  assert.deepEqual((await again.faultGroups({ ...ALL, hoursFrom: '2026-11-15T13' }))[0]?.hours, {})

  const page = await again.faultOccurrences({ fingerprint: 'f1', limit: 2 })
  assert.deepEqual(
    page.map(({ sessionId, seq }) => [sessionId, seq]),
    [
      [b.id, 1],
      [a.id, 2],
    ],
  )
  const [rest, ...more] = await again.faultOccurrences({ fingerprint: 'f1', limit: 2, after: page[1] })
  assert.deepEqual([rest?.seq, rest?.errorRaw, more], [1, 'read \u{1f6d1} ECONNRESET', []])
  assert.equal((await again.faultOccurrences({ fingerprint: 'f1', since: at('02'), limit: 9 })).length, 2)
  await again.deleteSession(b.id)
  assert.deepEqual(await names({}), ['f2 1', 'f1 2'], 'a deleted session takes its faults with it')
}

export async function faultsAreSettled(store: Store): Promise<void> {
  const session = await claimed(store)
  const fates = async () => (await store.faultGroups(ALL)).map((group) => group.fates)
  await note(store, session, 0, [fault(1, 'f', '01'), fault(2, 'f', '02', 'parked'), fault(3, 'f', '03', 'ended')])
  await note(store, session, 3, [], 'open')
  assert.deepEqual(await fates(), [{ open: 2, parked: 0, survived: 0, ended: 1 }])
  await note(store, session, 4, [fault(5, 'f', '04')], 'survived')
  assert.deepEqual(await fates(), [{ open: 1, parked: 0, survived: 2, ended: 1 }], 'a fate is of earlier faults only')
  const append = { ...appendOf(session, 4, ['5']), faults: { seen: [fault(5, 'f', '04')], fates: [] } }
  await store.append(append)
  await refused(store.append({ ...append, events: appendOf(session, 4, ['other']).events, faults: LATE }), 'lease_lost')
  assert.deepEqual(await fates(), [{ open: 1, parked: 0, survived: 2, ended: 1 }], 'a refused append changes nothing')
}

// ---- details ----

const ALL: FaultSelection = { limit: 9, hoursFrom: '2026-11-14T12' }

const at = (minute: string): string => `2026-11-15T12:${minute}:00.000Z`

const fault = (seq: number, fingerprint: string, minute: string, became: FaultFate = 'open'): SeenFault => ({
  seq,
  turnId: TURN_ID,
  at: at(minute),
  step: 2,
  attempt: null,
  fingerprint,
  category: 'model_stream_interrupted',
  class: 'transient',
  boundary: 'model',
  phase: null,
  error: 'The stream ended.',
  errorRaw: 'read \u{1f6d1} ECONNRESET',
  became,
})

const LATE = { seen: [fault(5, 'late', '09')], fates: [{ turnId: TURN_ID, became: 'ended' as const }] }

/** Appends one event for each fault, or one event that settles earlier faults. */
async function note(store: Store, session: SessionRow, after: number, seen: readonly SeenFault[], became?: FaultFate) {
  const bodies = Array.from({ length: Math.max(seen.length, 1) }, (_, index) => `${after + index + 1}`)
  const fates = became === undefined ? [] : [{ turnId: TURN_ID, became }]
  await store.append({ ...appendOf(session, after, bodies), faults: { seen, fates } })
}
