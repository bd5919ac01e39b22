/** A query of the API as the store takes it. Pure; readers without a daemon use it, too. */
import { SESSION_FILTERS, type SessionQuery } from '@breakfall/wire'
import type { SessionSelection } from '../store/store.ts'

const PAGE_MAX = 100

export function selectionOf(query: SessionQuery): SessionSelection {
  const { state, category, q, workspace, since, limit = PAGE_MAX, cursor, counts } = query
  const wanted = state?.split(',')
  return {
    after: cursor,
    limit,
    states: wanted === undefined ? undefined : SESSION_FILTERS.filter((filter) => wanted.includes(filter)),
    class: query.class,
    category,
    text: q === '' ? undefined : q,
    workspace,
    updatedSince: since === undefined ? undefined : new Date(since).toISOString(),
    withCounts: counts,
  }
}
