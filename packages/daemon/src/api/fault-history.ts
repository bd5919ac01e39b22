/** Faults by fingerprint: what went wrong here, how often, and what became of it. In a fleet, of all daemons. */
import { Fault, FAULTS, isFaultCategory } from '@breakfall/faults'
import { type FaultGroup as GroupView, invalidRequest, parseRequest, seenQuerySchema } from '@breakfall/wire/internal'
import type {
  Coordination,
  FaultGroup,
  FaultOccurrence,
  FaultSelection,
  Journal,
  OccurrenceSelection,
} from '@breakfall/engine'
import { flagOf } from './session-query.ts'
import type { SomeHandlers } from './routes.ts'

const PAGE_MAX = 100
const HOUR_MS = 3_600_000
const HOURS = 24

export function faultHistoryHandlers(store: Journal & Pick<Coordination, 'now'>) {
  return {
    listFaultsSeen: async ({ query }) => {
      const { cursor, limit = PAGE_MAX, open, since, class: wanted } = seenQueryOf(query)
      const hours = hoursUntil(store.now())
      const found = await store.faultGroups({
        ...sinceOf(since),
        class: wanted,
        isOpen: open === true,
        after: groupCursor(cursor),
        limit: limit + 1,
        hoursFrom: hours[0] ?? '',
      })
      const groups = found.slice(0, limit)
      const last = groups.at(-1)
      const next = found.length > limit && last !== undefined ? `${last.lastAt}_${last.fingerprint}` : undefined
      return { groups: groups.map((group) => groupView(group, hours)), ...(next === undefined ? {} : { next }) }
    },
    listFaultOccurrences: async ({ params, query }) => {
      const { cursor, limit = PAGE_MAX, since } = seenQueryOf(query)
      const fingerprint = params.fingerprint
      const hours = hoursUntil(store.now())
      const [group] = await store.faultGroups({ ...sinceOf(since), fingerprint, limit: 1, hoursFrom: hours[0] ?? '' })
      if (group === undefined) throw new Fault('not_found', { facts: { name: 'such fault in this time' } })
      const after = occurrenceCursor(cursor)
      const found = await store.faultOccurrences({ fingerprint, ...sinceOf(since), after, limit: limit + 1 })
      const shown = found.slice(0, limit)
      const last = shown.at(-1)
      const next = found.length > limit && last !== undefined ? `${last.at}_${last.sessionId}_${last.seq}` : undefined
      return {
        group: groupView(group, hours),
        occurrences: shown.map(occurrenceView),
        ...(next === undefined ? {} : { next }),
      }
    },
  } satisfies SomeHandlers
}

// ---- details, in the order they are used above ----

function seenQueryOf(query: URLSearchParams) {
  const { limit, open, ...texts } = Object.fromEntries(query)
  return parseRequest(seenQuerySchema, {
    ...texts,
    ...(limit === undefined ? {} : { limit: /^\d{1,4}$/.test(limit) ? Number(limit) : limit }),
    ...(open === undefined ? {} : { open: flagOf(open) }),
  })
}

const sinceOf = (since: string | undefined): { readonly since?: string } =>
  since === undefined ? {} : { since: new Date(since).toISOString() }

/** The names of the last 24 hours in UTC, this one last. */
const hoursUntil = (now: number): readonly string[] =>
  Array.from({ length: HOURS }, (_, index) => new Date(now - (HOURS - 1 - index) * HOUR_MS).toISOString().slice(0, 13))

function groupCursor(cursor: string | undefined): FaultSelection['after'] {
  if (cursor === undefined) return undefined
  const [lastAt, fingerprint, ...rest] = cursor.split('_')
  return lastAt === undefined || fingerprint === undefined || rest.length > 0 ? badCursor() : { lastAt, fingerprint }
}

function occurrenceCursor(cursor: string | undefined): OccurrenceSelection['after'] {
  if (cursor === undefined) return undefined
  const [at, sessionId, seq = '', ...rest] = cursor.split('_')
  if (at === undefined || sessionId === undefined || !/^\d{1,9}$/.test(seq) || rest.length > 0) return badCursor()
  return { at, sessionId, seq: Number(seq) }
}

function badCursor(): never {
  throw invalidRequest([{ field: 'cursor', expected: 'the "next" of an earlier page', got: 'another text' }])
}

function groupView(group: FaultGroup, hours: readonly string[]): GroupView {
  const { fingerprint, count, sessions, firstAt, lastAt, fates, sample } = group
  const { category, boundary, phase, error, errorRaw, sessionId, turnId, seq, at } = sample
  return {
    fingerprint,
    category,
    class: sample.class,
    boundary,
    phase,
    title: isFaultCategory(category) ? FAULTS[category].title : category,
    sample: { error, errorRaw, sessionId, turnId, seq, at },
    count,
    sessions,
    firstAt,
    lastAt,
    ...fates,
    hours: hours.map((hour) => group.hours[hour] ?? 0),
  }
}

const occurrenceView = (one: FaultOccurrence) => ({
  sessionId: one.sessionId,
  sessionTitle: one.sessionTitle,
  turnId: one.turnId,
  seq: one.seq,
  at: one.at,
  step: one.step,
  attempt: one.attempt,
  became: one.became,
  error: one.error,
  errorRaw: one.errorRaw,
})
