/** One session in the list: its state in a word and a glyph, what it does, why it waits, its whole thread in a few pixels. */
import type { Session } from '@breakfall/wire'
import type { ComponentChildren, VNode } from 'preact'
import { clock } from '../link/clock.ts'
import { sessionLink } from '../ui/route.ts'
import { type StateName, STATES, titleOf } from '../ui/states.ts'
import { oneLine } from '../text/reveal.ts'
import { counted, leftOf } from '../text/format.ts'
import { Action, outcomes, type Question } from '../ui/action.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { Badge, titleOfCategory } from '../ui/labels.tsx'
import { Ago, In } from '../ui/times.tsx'
import { memo } from '../ui/memo.ts'
import { cancelTurn, resumeTurn } from '../turn/state-bar.tsx'

type RowProps = { readonly session: Session; readonly state: StateName }

export const SessionRow = memo(
  (props: RowProps) => (
    <li data-session={props.session.id} data-state={props.state} data-seq={props.session.lastSeq}>
      <Boundary what="this session" json={props.session}>
        <Row {...props} />
      </Boundary>
    </li>
  ),
  (a, b) => a.session === b.session && a.state === b.state,
)

function Row({ session, state }: RowProps): VNode {
  const turn = session.turn ?? null
  const title = oneLine(titleOf(session), 140)
  const isOver = turn?.endedAt != null
  return (
    <article class={`session tone-${STATES[state].tone}`}>
      <Badge state={state} word={wordOf(session, state)} />
      <a class="title isolate" href={sessionLink(session.id)}>
        {title}
      </a>
      <div class="facts">
        {whyOf(session, state)}
        {turn === null ? null : <span class="num">{isOver ? counted(turn.steps, 'step') : `step ${turn.steps}`}</span>}
        {(turn?.faultsSurvived ?? 0) > 0 ? <span class="num">survived {turn?.faultsSurvived}</span> : null}
        {turn === null ? null : <MiniThread marks={turn.marks} />}
        <span>{session.model}</span>
        {session.owner == null ? null : <span class="isolate">at {session.owner.name}</span>}
        {session.workspace == null ? null : <span class="isolate">{shortPath(session.workspace)}</span>}
        <span>
          <Ago at={turn?.endedAt ?? turn?.startedAt ?? session.updatedAt ?? session.createdAt} />
        </span>
        <span>{turn === null ? '' : outcomes.value[turn.id]}</span>
      </div>
      <div class="side">{actionsOf(session, state, title)}</div>
    </article>
  )
}

// ---- details, in the order they are used above ----

function wordOf({ turn }: Session, state: StateName): string {
  if (state === 'retrying' && turn?.retry != null) return `retrying ${turn.retry.attempt}/${turn.retry.max}`
  if (state === 'needs' && turn?.fault?.category === 'model_auth_failed') return 'key refused'
  return isApproval(turn) ? 'approval needed' : STATES[state].word
}

/** A call waits for a person's yes or no. */
const isApproval = (turn: Session['turn']): boolean => turn?.parked?.category === 'approval_needed'

function whyOf({ turn, quarantined }: Session, state: StateName): ComponentChildren {
  if (quarantined != null) return <span class="why">{quarantined.error}</span>
  if (state === 'abandoned') return <span class="why">No daemon runs it; nothing is lost</span>
  if (turn == null) return null
  if (state === 'unknown')
    return (
      <span class="why">
        It cannot be known whether {turn.unknownOutcomes === 1 ? 'a command' : `${turn.unknownOutcomes} commands`} ran;
        the model was told
      </span>
    )
  if (turn.retry !== null)
    return (
      <span class="why">
        {titleOfCategory(turn.retry.category)} · next attempt <In until={Date.parse(turn.retry.nextAt)} />
      </span>
    )
  if (turn.parked !== null)
    return (
      <span class="why">
        {turn.fault === null
          ? titleOfCategory(turn.parked.category)
          : state === 'needs'
            ? turn.fault.error
            : turn.fault.title}
        {turn.parked.resumeAt === null ? null : (
          <>
            {' '}
            · looks again <In until={Date.parse(turn.parked.resumeAt)} />
          </>
        )}
      </span>
    )
  return turn.fault === null || state === 'cancelled' ? null : <span class="why">{turn.fault.title}</span>
}

function actionsOf({ id, turn }: Session, state: StateName, title: string): ComponentChildren {
  if (state === 'unknown' || state === 'quarantined') return <Open id={id} word="Look" title={title} />
  if (turn == null || turn.endedAt !== null) return null
  const canResume =
    (turn.state === 'parked' && !isApproval(turn)) ||
    state === 'abandoned' ||
    (turn.state === 'retrying' && turn.retry !== null)
  const label = turn.state === 'retrying' ? 'Retry now' : 'Resume'
  return (
    <>
      {isApproval(turn) ? <Open id={id} word="Answer" title={title} /> : null}
      {canResume ? (
        <Action
          id={`resume:${turn.id}`}
          subject={turn.id}
          label={label}
          name={`${label}: ${title}`}
          pendingLabel="Resuming…"
          confirm={askedWait(turn)}
          run={() => resumeTurn(turn.id)}
        />
      ) : null}
      {state === 'running' ? null : (
        <Action
          id={`cancel:${turn.id}`}
          subject={turn.id}
          label="Cancel"
          name={`Cancel: ${title}`}
          pendingLabel="Cancelling…"
          confirm={{ question: 'Cancel it?', yes: 'Yes', no: 'Keep it' }}
          run={() => cancelTurn(turn.id)}
        />
      )}
    </>
  )
}

/** Leads to what a person has to look at. */
const Open = ({ id, word, title }: { readonly id: string; readonly word: string; readonly title: string }): VNode => (
  <a class="button" href={sessionLink(id)} aria-label={`${word}: ${title}`}>
    {word}
  </a>
)

/** The list does not know how long a provider asked for, only until when the turn waits. */
function askedWait({ retry }: NonNullable<Session['turn']>): Question | undefined {
  if (retry?.category !== 'model_rate_limited') return undefined
  return {
    question: `The provider may have asked for this wait${leftOf(Date.parse(retry.nextAt) - clock.server())}. Retry anyway?`,
    yes: 'Retry now',
    no: 'Keep waiting',
  }
}

const shortPath = (path: string): string => {
  const parts = path.split('/')
  return parts.length <= 3 ? path : `…/${parts.slice(-2).join('/')}`
}

const CLASSES: Readonly<Record<string, string>> = { x: 'x', p: 'p', k: 'k', '?': 'q' }

/** A whole turn in a few pixels: a block a step, a tick a fault, a hatch a park, dots a lost daemon. */
function MiniThread({ marks }: { readonly marks: string }): VNode | null {
  if (marks === '') return null
  const shown = marks.slice(-48)
  const faults = marks.split('').filter((mark) => mark !== '-').length
  const name = `Thread: ${counted(marks.length - faults, 'step')}, ${counted(faults, 'fault')}`
  return (
    <span class="marks" role="img" aria-label={name}>
      {shown.split('').map((mark, index) => (
        <i key={index} class={CLASSES[mark] ?? ''} />
      ))}
    </span>
  )
}
