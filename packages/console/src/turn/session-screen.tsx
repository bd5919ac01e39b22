/** One session: its current turn with everything that happened to it, and a place for the next prompt. */
import type { Session } from '@breakfall/wire'
import { signal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Composer } from '../ui/composer.tsx'
import { picked } from './selection.ts'
import { json, operation } from '../link/api.ts'
import { closeFeed, feed, link, openFeed } from '../link/connection.ts'
import { deleted, fleet } from '../link/fleet.ts'
import { isJson, isNumber, isSession, isText, listOf } from '../fold/shapes.ts'
import { titleOf } from '../ui/states.ts'
import { oneLine } from '../text/reveal.ts'
import { type SessionRoute, TurnScreen } from './turn-screen.tsx'

type TurnRow = { readonly id: string; readonly firstSeq: number; readonly state: string }

/** The session row, for a session that the fleet does not hold: an old one. */
const loaded = signal<ReadonlyMap<string, Session>>(new Map())

export function SessionScreen({ route }: { readonly route: SessionRoute }): VNode {
  const { id } = route
  const [turns, setTurns] = useState<readonly TurnRow[] | null>(null)
  const isConnected = link.state.value.kind === 'open'
  useEffect(() => {
    setTurns(null)
    picked.value = null
    void loadSession(id)
    void turnRows(id).then(setTurns)
    return closeFeed
  }, [id])
  useEffect(() => {
    if (turns === null) return
    openFeed(id, firstWanted(turns, route.turnId))
  }, [id, turns, isConnected])
  const current = feed.value
  const session = fleet.value.sessions.get(id) ?? loaded.value.get(id)
  if (current === null || current.id !== id) return <Loading />
  const rev = current.rev.value
  const state = current.state.value
  if (state === 'missing') return <Gone title="There is no such session" />
  const isDeleted = state === 'deleted' || deleted.value.has(id)
  if (current.view.turns.length === 0)
    return isDeleted ? (
      <Gone title="This session was deleted" />
    ) : state === 'loading' ? (
      <Loading />
    ) : (
      <NoTurn session={session} id={id} />
    )
  const earlier = (turns ?? []).filter(({ firstSeq }) => firstSeq < current.from)
  return (
    <>
      {isDeleted ? <DeletedBar /> : null}
      {current.resetReason.value === null ? null : (
        <div class="bar tone-parked" role="status">
          <strong>↺ another journal</strong>
          <span>
            The daemon has another journal now (it may have been restored from a backup). This page shows it from the
            start.
          </span>
          <button type="button" class="quiet" onClick={() => (current.resetReason.value = null)}>
            Dismiss
          </button>
        </div>
      )}
      <TurnScreen
        view={current.view}
        rev={rev}
        session={session}
        route={route}
        isReadOnly={isDeleted}
        earlier={earlier.length}
        onEarlier={() => void current.restartFrom(earlier.at(0)?.firstSeq ?? 1, link)}
      />
    </>
  )
}

// ---- details, in the order they are used above ----

async function loadSession(id: string): Promise<void> {
  const session = await json(operation('GET /v1/sessions/{id}', { id })).catch(() => null) // the feed says whether it exists
  if (isSession(session)) loaded.value = new Map([...loaded.peek(), [id, session]])
}

async function turnRows(id: string): Promise<readonly TurnRow[]> {
  const page = await json(operation('GET /v1/sessions/{id}/turns', { id })).catch(() => null) // then the whole session is shown
  return listOf(page?.['turns']).flatMap((turn) => {
    if (!isJson(turn) || !isText(turn['id']) || !isNumber(turn['firstSeq'])) return []
    return [{ id: turn['id'], firstSeq: turn['firstSeq'], state: isText(turn['state']) ? turn['state'] : '' }]
  })
}

/** The first event that the page needs: that of the wanted turn, else of the oldest unfinished one, else of the last. */
function firstWanted(turns: readonly TurnRow[], turnId: string | null): number {
  const open = turns.filter(({ state }) => !['finished', 'failed', 'cancelled'].includes(state))
  const wanted = turns.find(({ id }) => id === turnId) ?? open.at(-1) ?? turns[0]
  return wanted?.firstSeq ?? 1
}

function Loading(): VNode {
  return (
    <div class="page" aria-busy="true">
      <h1 class="sr">Loading</h1>
      <div class="skeleton" />
      <div class="skeleton" />
      <div class="skeleton" />
    </div>
  )
}

function Gone({ title }: { readonly title: string }): VNode {
  return (
    <div class="page">
      <h1>{title}</h1>
      <p>
        Its events are no longer in the journal. <a href="#/">Back to the fleet</a>
      </p>
    </div>
  )
}

function DeletedBar(): VNode {
  return (
    <div class="bar tone-failed" role="status">
      <strong>deleted</strong>
      <span>This session was deleted. What you see is all that is left of it.</span>
      <a href="#/">Back to the fleet</a>
    </div>
  )
}

function NoTurn({ session, id }: { readonly session: Session | undefined; readonly id: string }): VNode {
  return (
    <div class="page">
      <h1 class="isolate">{session === undefined ? 'New session' : oneLine(titleOf(session), 120)}</h1>
      <p class="muted">No turn yet. The first prompt starts one.</p>
      <Composer sessionId={id} isBusy={false} />
    </div>
  )
}
