/** How sessions and turns are found and listed, in every store. */
import assert from 'node:assert/strict'
import { Fault, FAULTS, type FaultCategory } from '@breakfall/faults'
import type { Turn, TurnSummary } from '@breakfall/wire'
import { needsPerson, parkIn } from '@breakfall/wire/turn'
import type { SessionRow } from '../../src/rows.ts'
import type { Append, EndedQuery, SessionSelection, Store } from '../../src/store/store.ts'
import { summaryOf } from '../../src/turn/view.ts'
import { appendOf, claimed, newSession, TURN_ID, turnOf } from './store-kit.ts'

export async function endedAreFound(store: Store, reopen: () => Promise<Store>): Promise<void> {
  const end = (session: SessionRow, after: number, at: string) =>
    store.append({ ...appendOf(session, after, ['1']), set: { state: 'idle', turnId: null, at } })
  const [late, early, busy, unused, bad] = [
    await claimed(store),
    await claimed(store),
    await claimed(store),
    await claimed(store),
    await claimed(store),
  ]
  await end(late, 0, '2026-11-16T02:00:00.000Z')
  await end(early, 0, '2026-11-16T01:00:00.000Z')
  await end(bad, 0, '2026-11-16T00:00:00.000Z')
  await store.quarantine(bad.id, new Fault('journal_corrupt', { error: 'x' }).report)
  await store.append({ ...appendOf(busy, 0, ['1']), set: { state: 'busy', turnId: TURN_ID } })
  const again = await reopen()
  const ids = async (query: Partial<EndedQuery>): Promise<readonly string[]> =>
    (await again.endedSessions({ unusedBefore: '2026-01-01', skip: 0, limit: 10, ...query })).map(({ id }) => id)
  assert.deepEqual(await ids({}), [early.id, late.id])
  assert.deepEqual(await ids({ before: '2026-11-16T01:30:00.000Z' }), [early.id])
  assert.deepEqual(await ids({ skip: 1 }), [late.id])
  assert.deepEqual(await ids({ unusedBefore: '2026-11-15T13:00:00.000Z' }), [unused.id, early.id, late.id])
  assert.equal((await again.usage('2026-01-01')).sessions, 5)
  assert.ok((await again.usage('2026-01-01')).bytes > 4 * 100)
  assert.equal(await again.deleteSession(busy.id, { ifIdle: true }), false)
  assert.equal(await again.deleteSession(early.id, { ifIdle: true }), true)
  assert.deepEqual(await ids({}), [late.id])
}

export async function foundByBox(store: Store): Promise<void> {
  const own = await store.createSession(newSession())
  const { data, ...rest } = newSession()
  const named = await store.createSession({ ...rest, data: { ...data, box: { id: 'mine' } } })
  assert.deepEqual(
    (await store.sessionsOfBox(own.id)).map(({ id }) => id),
    [own.id],
  )
  assert.deepEqual(
    (await store.sessionsOfBox('mine')).map(({ id }) => id),
    [named.id],
  )
  assert.deepEqual(await store.sessionsOfBox(named.id), [])
}

export async function sessionsAreListed(store: Store): Promise<void> {
  // Ids of the same millisecond are in no order, so these are not left to the clock.
  const ids = [5, 4, 3, 2, 1].map((n) => `01990000-000${n}-7000-8000-000000000000`)
  for (const id of ids.toReversed()) await store.createSession({ ...newSession(), id })
  const { rows: first } = await store.listSessions({ limit: 3 })
  const { rows: rest } = await store.listSessions({ limit: 3, after: first.at(-1)?.id })
  assert.deepEqual(
    [...first, ...rest].map((row) => row.id),
    ids,
  )
  const [oldest = ''] = ids.toReversed()
  const claim = await store.claim(oldest)
  assert.ok(claim !== undefined && claim !== 'owned')
  const summary = { turn: null, updatedAt: '2999-01-01T00:00:00.000Z' }
  await store.append({ ...appendOf(claim, 0, ['1']), summary })
  const { rows: newest } = await store.listSessions({ limit: 1, newestBy: 'updatedAt' })
  assert.equal(newest[0]?.id, oldest, 'or by when they changed')
  assert.deepEqual((await store.listSessions({ limit: 0 })).rows, [])
}

const at = '2026-11-15T12:00:00.000Z'

function summary(state: TurnSummary['state'], fields: Partial<TurnSummary> = {}): NonNullable<Append['summary']> {
  const none = { faultsSurvived: 0, unknownOutcomes: 0, startedAt: at, endedAt: null, retry: null, marks: '' }
  const turn = { id: 't', state, prompt: '100 % of_it', steps: 1, attempts: 1, fault: null, parked: null, ...none }
  return { turn: { ...turn, ...fields }, updatedAt: at }
}

/** Whatever parks a turn: `needs` finds what `waitOf` says needs a person. */
export async function whatNeedsAPersonIsListed(store: Store): Promise<void> {
  const needing: string[] = []
  for (const category of Object.keys(FAULTS) as FaultCategory[]) {
    const fault = { category, class: FAULTS[category].class, title: 'x', error: 'x' }
    const parked = summary('parked', { fault, parked: { category, since: at, resumeAt: null } })
    const session = await claimed(store)
    await store.append({ ...appendOf(session, 0, ['1']), summary: parked })
    const park = parkIn(parked.turn)
    if (park !== null && needsPerson(park)) needing.push(session.id)
    const ended = await claimed(store)
    await store.append({ ...appendOf(ended, 0, ['1']), summary: summary('failed', { fault }) })
  }
  assert.ok(needing.length > 8)
  const { rows, counts } = await store.listSessions({ limit: 200, states: ['needs'], withCounts: true })
  assert.deepEqual(rows.map(({ id }) => id).toSorted(), needing.toSorted())
  assert.equal(counts?.needs, needing.length)
}

export async function listsAreFiltered(store: Store): Promise<void> {
  const fault = { category: 'model_auth_failed', class: 'needs_action', title: 'x', error: 'x' }
  const summaries = {
    finished: summary('finished'),
    parked: summary('parked', { fault, prompt: 'another' }),
    unknown: summary('cancelled', { unknownOutcomes: 1, prompt: 'another' }),
  }
  const ids: Record<string, string> = { idle: (await claimed(store)).id }
  for (const [name, given] of Object.entries(summaries)) {
    const session = await claimed(store)
    ids[name] = session.id
    await store.append({ ...appendOf(session, 0, ['1']), summary: given })
  }
  const found = async (selection: Partial<SessionSelection>): Promise<string[]> => {
    const { rows } = await store.listSessions({ limit: 10, ...selection })
    return rows.map(({ id }) => Object.keys(ids).find((name) => ids[name] === id) ?? id).toSorted()
  }
  assert.deepEqual(await found({ states: ['finished'] }), ['finished'])
  assert.deepEqual(await found({ states: ['needs'] }), ['parked', 'unknown'])
  assert.deepEqual(await found({ states: ['idle', 'cancelled'] }), ['idle', 'unknown'])
  assert.deepEqual(await found({ class: 'needs_action', category: 'model_auth_failed' }), ['parked'])
  assert.deepEqual(await found({ text: '100 % OF_' }), ['finished'])
  assert.deepEqual(await found({ text: '100_' }), [], 'a wildcard is only a character')
  assert.deepEqual(await found({ text: ids['idle'] }), ['idle'])
  assert.deepEqual(await found({ updatedSince: '2026-11-15T12:00:00.001Z' }), [])
  const { counts, rows } = await store.listSessions({ limit: 1, withCounts: true, states: ['idle'] })
  assert.deepEqual([rows.length, rows[0]?.turn], [1, null])
  assert.deepEqual(counts, {
    needs: 2,
    parked: 1,
    retrying: 0,
    running: 0,
    queued: 0,
    finished: 1,
    failed: 0,
    cancelled: 1,
    unknown: 1,
    idle: 1,
  })
}

/** As long as prompts are: the row of a list has only its start. */
export async function longPromptsAreFound(store: Store): Promise<void> {
  const end = 'needle in C:\\new "quoted",\nnext line 100 % ünï\t\0end",'
  const prompt = `${'hay '.repeat(100)}${end}`
  const view = { ...turnOf('').view, prompt, result: { text: 'stack' } }
  const [found, earlier] = [await claimed(store), await claimed(store)]
  await tell(store, found, [view])
  await tell(store, earlier, [view, { ...view, prompt: 'hay '.repeat(100) }])
  const ids = async (text: string): Promise<readonly string[]> =>
    (await store.listSessions({ limit: 10, text, withCounts: true })).rows.map(({ id }) => id)
  for (const text of ['NEEDLE', 'c:\\new', '"quoted",\nnext', '100 % ü', 'ï\t', 'ünï'])
    assert.deepEqual(await ids(text), [found.id], text)
  for (const text of ['stack', 'nnext', 'needle_in', '\\quoted', 'steps', 'C:\new'])
    assert.deepEqual(await ids(text), [], text)
  assert.equal((await ids('hay hay')).length, 2)
  assert.equal((await store.listSessions({ limit: 1, text: 'needle', withCounts: true })).counts?.finished, 1)
}

/** A session whose turns were these, one after another. */
async function tell(store: Store, session: SessionRow, views: readonly Turn[]): Promise<void> {
  const turns = views.map((view) => ({ ...turnOf(session.id), view }))
  const last = turns.at(-1)
  assert.ok(last !== undefined)
  const turn = { ...summaryOf(last.view, undefined), id: last.turnId, state: 'finished' as const }
  await store.append({ ...appendOf(session, 0, ['1']), turns, summary: { turn, updatedAt: session.createdAt } })
}

export async function turnsAreListed(store: Store): Promise<void> {
  const session = await claimed(store)
  const turnIds = [3, 2, 1].map((n) => `01990000-000${n}-7000-8000-000000000000`)
  const turns = turnIds.map((turnId) => ({ ...turnOf(session.id), turnId }))
  await store.append({ ...appendOf(session, 0, ['1']), turns })
  const first = await store.listTurns(session.id, { limit: 2 })
  const rest = await store.listTurns(session.id, { limit: 2, before: first.at(-1)?.turnId })
  assert.deepEqual(
    [...first, ...rest].map(({ turnId }) => turnId),
    turnIds,
  )
  assert.deepEqual(await store.listTurns('nobody', { limit: 2 }), [])
}
