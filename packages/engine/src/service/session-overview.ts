/** Many sessions at a glance, for those who watch them: each list and its counts come from one read of the store. */
import type { Session, SessionFilter, WatchSnapshot } from '@breakfall/wire'
import type { SessionRow } from '../rows.ts'
import type { Journal } from '../store/store.ts'

const WORKING_MAX = 1_000
const ENDED_MAX = 50

/** What has work or needs a person. */
const OPEN: readonly SessionFilter[] = ['needs', 'parked', 'retrying', 'running', 'queued']
const ENDED: readonly SessionFilter[] = ['finished', 'failed', 'cancelled', 'idle']

export type Overview = Pick<WatchSnapshot, 'counts' | 'sessions' | 'more'>

export async function overviewOf(store: Journal, viewOf: (row: SessionRow) => Session): Promise<Overview> {
  const [open, ended] = await Promise.all([
    store.listSessions({ states: OPEN, limit: WORKING_MAX + 1, withCounts: true }),
    store.listSessions({ states: ENDED, limit: ENDED_MAX, newestBy: 'updatedAt' }),
  ])
  const rows = new Map([...open.rows.slice(0, WORKING_MAX), ...ended.rows].map((row) => [row.id, row]))
  return {
    counts: open.counts ?? {},
    sessions: [...rows.values()].map(viewOf),
    ...(open.rows.length > WORKING_MAX ? { more: true } : {}),
  }
}

export async function countsOf(store: Journal): Promise<Overview['counts']> {
  return (await store.listSessions({ limit: 0, withCounts: true })).counts ?? {}
}

/** Sessions that changed at or after that time, by whichever daemon. */
export async function changedSince(store: Journal, since: string): Promise<readonly string[]> {
  const { rows } = await store.listSessions({ updatedSince: since, limit: WORKING_MAX, newestBy: 'updatedAt' })
  return rows.map(({ id }) => id)
}
