/** Every session, what needs a person first. Live by push; a filter or a search asks the daemon, page by page. */
import type { Session } from '@breakfall/wire'
import { signal } from '@preact/signals'
import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { now } from '../link/clock.ts'
import { json, operation } from '../link/api.ts'
import { fleet, system } from '../link/fleet.ts'
import { type Counts, countsOf, isSession, listOf, textOrNull } from '../fold/shapes.ts'
import { link } from '../link/connection.ts'
import { SessionRow } from './session-row.tsx'
import { StartPanel } from './start-panel.tsx'
import { fleetLink, type Route } from '../ui/route.ts'
import { FILTERS, sectionOf, SECTIONS, stateOf } from '../ui/states.ts'
import { counted, number } from '../text/format.ts'
import { sentenceOf } from '../text/reveal.ts'

type FleetRoute = Extract<Route, { screen: 'fleet' }>

/** Key `l`: the list stands still while a person reads it. */
export const isPaused = signal(false)

export function FleetScreen({ route }: { readonly route: FleetRoute }): VNode {
  const live = fleet.value
  const [held, setHeld] = useState(live)
  useEffect(() => {
    if (!isPaused.value) setHeld(live)
  }, [live, isPaused.value])
  useEffect(() => {
    document.title = `${(live.counts['needs'] ?? 0) > 0 ? `▲ ${live.counts['needs']} · ` : ''}Fleet · Breakfall`
  }, [live.counts['needs']])
  const shown = isPaused.value ? held : live
  const [read, setRead] = useState<Counts | null>(null)
  const isFiltered = route.filter !== '' || route.q !== ''
  const total = Object.entries(shown.counts).reduce(
    (sum, [name, n]) => (name === 'needs' || name === 'unknown' ? sum : sum + n),
    0,
  )
  return (
    <div class="page">
      <div class="page-head">
        <h1>Fleet</h1>
        <span class="muted">{shown.isLoaded ? counted(total, 'session') : ''}</span>
        <span class="spacer" />
        <button
          type="button"
          class="quiet"
          aria-pressed={isPaused.value}
          onClick={() => (isPaused.value = !isPaused.value)}
        >
          {isPaused.value ? '▶ continue live' : '‖ pause live'}
        </button>
        <a class="button" href="#/new">
          New session
        </a>
      </div>
      <Filters counts={read ?? shown.counts} current={route.filter} q={route.q} />
      {isFiltered ? (
        <Found key={route.filter} filter={route.filter} q={route.q} onCounts={setRead} />
      ) : !shown.isLoaded ? (
        <Skeleton />
      ) : shown.sessions.size === 0 && total === 0 ? (
        <StartPanel />
      ) : (
        <Sections sessions={[...shown.sessions.values()]} counts={shown.counts} />
      )}
    </div>
  )
}

// ---- details, in the order they are used above ----

function Filters({
  counts,
  current,
  q,
}: {
  readonly counts: Counts
  readonly current: string
  readonly q: string
}): VNode {
  return (
    <nav class="filters" aria-label="Filter by state">
      {FILTERS.map(({ filter, word, glyph }) => {
        const n = filter.split(',').reduce((sum, name) => sum + (counts[name] ?? 0), 0)
        const isCurrent = current === filter
        return (
          <a
            key={filter}
            href={fleetLink(isCurrent ? '' : filter, q)}
            aria-current={isCurrent ? 'true' : undefined}
            class={filter === 'needs' && n > 0 ? 'urgent' : ''}
            data-filter={filter}
          >
            <span aria-hidden="true">{glyph}</span>
            <span>{word}</span> <strong class="num">{number(n)}</strong>
          </a>
        )
      })}
    </nav>
  )
}

function Sections({ sessions, counts }: { readonly sessions: readonly Session[]; readonly counts: Counts }): VNode {
  const rows = sessions.map((session) => ({ session, state: stateOf(session) }))
  const ended = (counts['finished'] ?? 0) + (counts['failed'] ?? 0) + (counts['cancelled'] ?? 0)
  return (
    <>
      {SECTIONS.map(({ key, title }) => {
        const own = rows
          .filter(({ state }) => sectionOf(state) === key)
          .sort((a, b) =>
            (b.session.updatedAt ?? b.session.createdAt).localeCompare(a.session.updatedAt ?? a.session.createdAt),
          )
        if (own.length === 0) return null
        const above = rows.filter(
          ({ session, state }) => sectionOf(state) === 'needs' && sectionOf(session.turn?.state ?? 'idle') === key,
        ).length // the filter counts them here, too
        return (
          <section key={key} class="section" data-section={key} aria-labelledby={`section-${key}`}>
            <h2 id={`section-${key}`}>
              {title} <span class="num">{number(own.length)}</span>
              {above === 0 ? null : <span class="muted"> · {number(above)} more under Needs you</span>}
            </h2>
            <ol class="sessions">
              {own.map(({ session, state }) => (
                <SessionRow key={session.id} session={session} state={state} />
              ))}
            </ol>
            {key === 'ended' && ended > own.length ? (
              <p>
                <a href={fleetLink('finished,failed,cancelled')}>All {number(ended)} ended sessions</a>
              </p>
            ) : null}
          </section>
        )
      })}
    </>
  )
}

/** `asked` says what it is an answer to. */
type Page = {
  readonly asked: string
  readonly sessions: readonly Session[]
  readonly next: string | null
}

/** A further page is added once. Reading the first page again keeps the rows below it. */
function pageAfter(known: Page | null, cursor: string | null, fresh: Page): Page {
  if (known === null || known.asked !== fresh.asked) return fresh
  if (cursor !== null)
    return known.next === cursor ? { ...fresh, sessions: [...known.sessions, ...fresh.sessions] } : known
  const last = known.sessions.findIndex(({ id }) => id === fresh.sessions.at(-1)?.id)
  const below = fresh.next === null || last === -1 ? [] : known.sessions.slice(last + 1)
  return below.length === 0 ? fresh : { ...fresh, sessions: [...fresh.sessions, ...below], next: known.next }
}

/** What a filter finds, 100 at a time; live rows replace those that changed meanwhile. */
function Found({
  filter,
  q,
  onCounts,
}: {
  readonly filter: string
  readonly q: string
  readonly onCounts: (counts: Counts | null) => void
}): VNode {
  const [page, setPage] = useState<Page | null>(null)
  const [problem, setProblem] = useState('')
  const live = fleet.value
  const isConnected = link.state.value.kind === 'open'
  const asked = `${filter}\n${q}`
  const wanted = useRef(asked)
  wanted.current = asked
  const load = async (cursor: string | null): Promise<void> => {
    const query = { limit: 100, counts: 1, state: filter || undefined, q: q || undefined, cursor: cursor ?? undefined }
    try {
      const answer = await json(operation('GET /v1/sessions', query))
      const sessions = listOf(answer['sessions']).filter(isSession)
      if (wanted.current !== asked) return // something else is searched for by now
      const fresh = { asked, sessions, next: textOrNull(answer['next']) }
      onCounts(countsOf(answer['counts'])) // of the same read as the rows: the filter says how many there are
      setPage((known) => pageAfter(known, cursor, fresh))
      setProblem('')
    } catch (error) {
      setProblem(sentenceOf(error))
    }
  }
  useEffect(
    () => () => {
      wanted.current = '' // an answer that still comes is too late
      onCounts(null)
    },
    [],
  )
  const changes = filter === '' ? null : live.counts
  useEffect(() => {
    const timer = setTimeout(() => void load(null), q === '' ? 0 : 150)
    return () => clearTimeout(timer)
  }, [filter, q, changes, isConnected])
  useLayoutEffect(() => {
    const more = (): void => {
      if (page?.next != null) void load(page.next)
    }
    addEventListener('breakfall:follow', more)
    return () => removeEventListener('breakfall:follow', more)
  }, [page?.next])
  if (page === null) return problem === '' ? <Skeleton /> : <p role="status">{problem}</p>
  const rows = page.sessions.map((session) => live.sessions.get(session.id) ?? session)
  return (
    <section class="section" data-section="found" aria-label="Sessions found">
      {rows.length === 0 ? (
        <p class="empty">
          No session {q === '' ? 'is in this state' : `matches “${q}”`}. <a href="#/">Show all</a>
        </p>
      ) : (
        <ol class="sessions">
          {rows.map((session) => (
            <SessionRow key={session.id} session={session} state={stateOf(session)} />
          ))}
        </ol>
      )}
      <p class="muted shown" data-shown={rows.length}>
        {number(rows.length)} shown{page.next === null ? '.' : '; there are more. '}
        {page.next === null ? null : (
          <button type="button" class="link" onClick={() => void load(page.next)}>
            Load the next 100
          </button>
        )}
      </p>
      {problem === '' ? null : <p role="status">{problem}</p>}
    </section>
  )
}

function Skeleton(): ComponentChildren {
  const isOld = now.value > 0 && system.value === null
  return (
    <div aria-busy={isOld} class="page" role="status" aria-label="Loading">
      <div class="skeleton" />
      <div class="skeleton" />
      <div class="skeleton" />
    </div>
  )
}
