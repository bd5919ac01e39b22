/** The turn screen: state bar, conversation, thread, inspector. It shows a live session, and a bundle without a daemon. */
import type { Session } from '@breakfall/wire'
import type { VNode } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { exportSession } from '@breakfall/client/internal'
import { stepsWith } from '../fold/search.ts'
import type { SessionFold, TurnView } from '../fold/view.ts'
import { Boundary, CopyButton } from '../ui/boundary.tsx'
import { Composer } from '../ui/composer.tsx'
import { Inspector } from './inspector.tsx'
import { type Pick, picked, following, searchText } from './selection.ts'
import { StateBar } from './state-bar.tsx'
import { Talk } from './talk.tsx'
import { Undo } from './undo.tsx'
import { ThreadPane } from './thread-pane.tsx'
import { type Route, replaceRoute, sessionLink } from '../ui/route.ts'
import { stateOfTurn, STATES, titleOf } from '../ui/states.ts'
import { oneLine, sentenceOf } from '../text/reveal.ts'
import type { Group } from './lanes.ts'
import { daemon } from '../link/api.ts'
import { saveAs } from './output.tsx'

export type SessionRoute = Extract<Route, { screen: 'session' }>

export type TurnScreenProps = {
  readonly view: SessionFold
  readonly rev: number
  readonly session: Session | undefined
  readonly route: SessionRoute
  readonly isReadOnly: boolean
  readonly earlier: number
  readonly onEarlier: () => void
}

export function TurnScreen({
  view,
  rev,
  session,
  route,
  isReadOnly,
  earlier,
  onEarlier,
}: TurnScreenProps): VNode | null {
  const turn = shownTurn(view, route.turnId)
  const [unfolded, setUnfolded] = useState<ReadonlySet<number> | 'all'>(new Set())
  const [tab, setTab] = useState<'talk' | 'thread'>('talk')
  const [hit, setHit] = useState(0)
  const query = searchText.value
  const hits = useMemo(() => (turn === undefined ? [] : stepsWith(turn, query)), [turn, query, rev])
  const found = hits[hit % Math.max(1, hits.length)] ?? null
  const pick = picked.value

  const show = (next: Pick): void => {
    picked.value = next
    if (!isReadOnly)
      replaceRoute(sessionLink(route.id, route.turnId, { step: next.step, attempt: next.attempt, call: next.call }))
    setUnfolded((known) => (known === 'all' ? known : new Set([...known, next.step])))
    requestAnimationFrame(() => requestAnimationFrame(() => scrollTo(next)))
    setTimeout(() => scrollTo(next), 200) // blocks above got their real size meanwhile, and a replay may have just brought it
  }
  const unfold = ({ steps }: Group): void =>
    setUnfolded((known) => (known === 'all' ? known : new Set([...known, ...steps.map(({ n }) => n)])))

  const { focus } = route
  const isThere = focus.step !== undefined && turn?.steps.some(({ n }) => n === focus.step) === true
  useEffect(() => {
    if (isThere && focus.step !== undefined && picked.peek() === null) show({ ...focus, step: focus.step })
  }, [isThere])
  useEffect(() => {
    if (found === null) return
    setUnfolded((known) => (known === 'all' ? known : new Set([...known, found])))
    requestAnimationFrame(() => requestAnimationFrame(() => scrollTo({ step: found })))
  }, [found, query])
  useTurnKeys({
    turn,
    show,
    unfoldAll: () => setUnfolded('all'),
    foldAll: () => setUnfolded(new Set()),
    nextHit: (by) => setHit((at) => (at + by + hits.length) % Math.max(1, hits.length)),
  })
  useTitle(turn, session)
  useEffect(() => {
    following.value = route.focus.step === undefined
  }, [route.id])
  if (turn === undefined) return null
  const isBusy = view.turns.some(({ endedAt }) => endedAt === null)
  const sessionId = session?.id ?? route.id
  return (
    <div class="turn">
      <div class="turn-head">
        <div class="turn-title">
          <a href="#/">← Fleet</a>
          <h1 class="isolate">{oneLine(session === undefined ? turn.prompt : titleOf(session), 120)}</h1>
          <span class="chip">{turn.model ?? session?.model ?? ''}</span>
          {session?.workspace == null ? null : <span class="chip">{session.workspace}</span>}
          <div class="turn-actions">
            {query === '' ? null : (
              <span class="muted" role="status">
                {hits.length === 0 ? 'not found' : `${(hit % hits.length) + 1} of ${hits.length} steps`}
              </span>
            )}
            <CopyButton label="copy link" text={() => `${location.origin}/${sessionLink(sessionId, turn.id)}`} />
            {isReadOnly ? null : <ExportButton sessionId={sessionId} />}
            {isReadOnly || turn.endedAt === null ? null : <Undo key={turn.id} sessionId={sessionId} turnId={turn.id} />}
          </div>
        </div>
        <StateBar turn={turn} session={session} isReadOnly={isReadOnly} onWhy={() => showLastScar(turn, show)} />
      </div>
      <div class="tabs" role="tablist" aria-label="Parts of the turn">
        {(['talk', 'thread'] as const).map((one) => (
          <button key={one} type="button" role="tab" aria-selected={tab === one} onClick={() => setTab(one)}>
            {one === 'talk' ? 'Conversation' : 'Thread'}
          </button>
        ))}
      </div>
      <div class="panes" data-tab={tab}>
        <section class="pane-talk">
          <Talk
            view={view}
            rev={rev}
            session={session}
            sessionId={sessionId}
            isReadOnly={isReadOnly}
            unfolded={unfolded}
            found={found}
            before={
              earlier === 0 ? null : (
                <li class="fold-line">
                  <button type="button" class="quiet" onClick={onEarlier}>
                    ▴ show {earlier} earlier {earlier === 1 ? 'turn' : 'turns'}
                  </button>
                </li>
              )
            }
            onPick={show}
            onUnfold={unfold}
          />
          {isReadOnly ? null : <Composer sessionId={sessionId} isBusy={isBusy} />}
        </section>
        <section class="pane-thread" aria-label="Thread">
          <Boundary what="the thread">
            <ThreadPane turn={turn} rev={rev} unfolded={unfolded} onPick={show} onUnfold={unfold} />
          </Boundary>
          {pick === null ? null : (
            <Boundary what="the inspector" json={pick} key={JSON.stringify(pick)}>
              <Inspector turn={turn} session={session} pick={pick} onClose={() => (picked.value = null)} />
            </Boundary>
          )}
        </section>
      </div>
    </div>
  )
}

// ---- details, in the order they are used above ----

/** The turn of the route; else the running turn; else the last. */
function shownTurn(view: SessionFold, turnId: string | null): TurnView | undefined {
  if (turnId !== null && view.byId.has(turnId)) return view.byId.get(turnId)
  return (
    view.turns.find(({ endedAt, startedAt }) => endedAt === null && startedAt !== null) ??
    view.turns.findLast(({ startedAt }) => startedAt !== null) ??
    view.turns.at(-1)
  )
}

function scrollTo({ step, attempt, call, seq }: Pick): void {
  const ids = [
    call === undefined ? '' : `call-${call}`,
    attempt === undefined ? '' : `attempt-${step}-${attempt}`,
    seq === undefined ? '' : `scar-${seq}`,
    `step-${step}`,
  ]
  const element = ids.map((id) => (id === '' ? null : document.getElementById(id))).find((one) => one !== null)
  if (element === undefined || element === null) return
  following.value = false
  element.scrollIntoView({ block: 'center' })
}

const pickOfScar = ({ step, attempt, callId, kind, seq }: TurnView['scars'][number]): Pick => {
  if (callId !== null) return { step, call: callId }
  if (kind === 'park' || kind === 'takeover') return { step, seq }
  return attempt === null ? { step } : { step, attempt }
}

function showLastScar(turn: TurnView, show: (pick: Pick) => void): void {
  const last = turn.scars.at(-1)
  if (last !== undefined) show(pickOfScar(last))
}

type TurnKeys = {
  readonly turn: TurnView | undefined
  readonly show: (pick: Pick) => void
  readonly unfoldAll: () => void
  readonly foldAll: () => void
  readonly nextHit: (by: number) => void
}

/**
 * The page's keys arrive as events, so this screen only knows what they mean. Keys that are pressed faster than the page is drawn
 * all count: nothing here waits for a render.
 */
function useTurnKeys(keys: TurnKeys): void {
  const latest = useRef(keys)
  latest.current = keys
  const at = useRef(-1)
  useLayoutEffect(() => {
    const take = (event: Event): void => {
      const { turn, show, unfoldAll, foldAll, nextHit } = latest.current
      if (!(event instanceof CustomEvent) || turn === undefined) return
      const name: unknown = event.detail
      if (name === 'unfold-all') unfoldAll()
      if (name === 'fold-all') foldAll()
      if (name === 'next-hit') nextHit(1)
      if (name === 'previous-hit') nextHit(-1)
      if (name !== 'next-fault' && name !== 'previous-fault') return
      const next = Math.max(0, Math.min(turn.scars.length - 1, at.current + (name === 'next-fault' ? 1 : -1)))
      const scar = turn.scars[next]
      if (scar === undefined) return
      at.current = next
      show(pickOfScar(scar))
    }
    addEventListener('breakfall:turn', take)
    return () => removeEventListener('breakfall:turn', take)
  }, [])
}

function useTitle(turn: TurnView | undefined, session: Session | undefined): void {
  const state = turn === undefined ? null : stateOfTurn(turn, session)
  const name = session === undefined ? (turn?.prompt ?? '') : titleOf(session)
  useEffect(() => {
    if (state !== null) document.title = `${STATES[state].glyph} ${oneLine(name, 60)} · Breakfall`
  }, [state, name])
}

/** Saves a session as a bundle: everything, or without its texts. */
function ExportButton({ sessionId }: { readonly sessionId: string }): VNode {
  const [isOpen, setOpen] = useState(false)
  const [problem, setProblem] = useState('')
  const save = async (redact: boolean): Promise<void> => {
    try {
      const response = await exportSession(daemon, sessionId, redact ? { redact: 'text' } : {})
      saveAs(await response.blob(), `${sessionId}${redact ? '-redacted' : ''}.ndjson`)
      setOpen(false)
      setProblem('')
    } catch (error) {
      setProblem(sentenceOf(error))
    }
  }
  if (!isOpen)
    return (
      <button type="button" class="quiet" aria-expanded="false" onClick={() => setOpen(true)}>
        export
      </button>
    )
  return (
    <span class="row" role="group" aria-label="Export this session">
      <button type="button" onClick={() => void save(false)}>
        Everything
      </button>
      <button type="button" onClick={() => void save(true)}>
        Without texts
      </button>
      <button type="button" class="quiet" aria-label="Do not export" onClick={() => setOpen(false)}>
        ✕
      </button>
      {problem === '' ? null : <span role="status">{problem}</span>}
    </span>
  )
}
