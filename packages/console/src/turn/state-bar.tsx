/** The present state in one place that never scrolls away: what, why, until when, and what you can do about it. */
import type { Session } from '@breakfall/wire'
import type { ComponentChildren, VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { clock, now } from '../link/clock.ts'
import { attemptsIn, type Call, survivedIn, type TurnView } from '../fold/view.ts'
import { cancel, resume } from '@breakfall/client/internal'
import { isCutOff } from '@breakfall/wire/browser'
import { daemon } from '../link/api.ts'
import { link } from '../link/connection.ts'
import { type StateName, stateOfTurn, STATES } from '../ui/states.ts'
import { callLine, faultTitle, happened } from './words.ts'
import { clockTime, counted, leftOf, length, number } from '../text/format.ts'
import { oneLine, reveal } from '../text/reveal.ts'
import { Action, outcomes } from '../ui/action.tsx'
import { ApprovalAnswers } from './approval.tsx'
import { announce } from '../ui/announcer.tsx'
import { Badge } from '../ui/labels.tsx'
import { In, isUtc } from '../ui/times.tsx'

type StateBarProps = {
  readonly turn: TurnView
  readonly session: Session | undefined
  readonly isReadOnly: boolean
  readonly onWhy: () => void
}

export function StateBar({ turn, session, isReadOnly, onWhy }: StateBarProps): VNode {
  const state = stateOfTurn(turn, session)
  const away = isReadOnly || turn.endedAt !== null ? null : awaySince()
  const tone = away === null ? STATES[state].tone : 'cancelled'
  const sentence = saidState(turn, state)
  useEffect(() => announce(sentence), [sentence])
  const wait = waitedShare(turn)
  const hasWhy = turn.scars.length > 0
  return (
    <div
      class={`state-bar tone-${tone}`}
      data-state={state}
      data-seq={turn.lastSeq}
      role="group"
      aria-label="State of this turn"
    >
      <div class="what">
        {away === null ? (
          <>
            <Badge state={state} word={STATES[state].word.toUpperCase()} />
            <What turn={turn} state={state} />
          </>
        ) : (
          <>
            <Badge state="abandoned" word={`LAST SEEN ${STATES[state].word.toUpperCase()}`} />
            <span>at {clockTime(away, isUtc.value)}. It continues from its last safe point once a daemon answers.</span>
          </>
        )}
      </div>
      <div class="facts">
        <Facts turn={turn} session={session} />
      </div>
      <div class="actions">
        {isReadOnly ? null : <Actions turn={turn} state={state} />}
        {hasWhy ? (
          <button type="button" onClick={onWhy}>
            Why
          </button>
        ) : null}
      </div>
      {wait === null ? null : (
        <div class="meter" aria-hidden="true">
          <i style={{ width: `${wait}%` }} />
        </div>
      )}
      <div class="said" aria-live="off">
        {outcomes.value[turn.id]}
      </div>
    </div>
  )
}

/** "retry now" and "resume": the same call, and the same question if the provider asked for the wait. */
export async function resumeTurn(turnId: string): Promise<string | undefined> {
  await resume(daemon, turnId, {})
  return undefined
}

export async function cancelTurn(turnId: string): Promise<string | undefined> {
  await cancel(daemon, turnId, 'from the console')
  return undefined
}

// ---- details, in the order they are used above ----

const QUIET_MS = 1_000

/** Since when the daemon is gone, once that is more than a blink. */
function awaySince(): number | null {
  const { kind, since } = link.state.value
  return kind === 'lost' && now.value > 0 && clock.local() - since >= QUIET_MS ? since : null
}

const saidState = (turn: TurnView, state: StateName): string =>
  state === 'retrying' && turn.wait !== null
    ? `Retrying: ${faultTitle(turn.wait.fault)}`
    : turn.park !== null
      ? `${STATES[state].word}: ${faultTitle(turn.park.fault)}`
      : `${STATES[state].word}`

/** How much of the wait is over, in percent. */
function waitedShare({ wait, park }: TurnView): number | null {
  const [from, until] =
    wait !== null ? [wait.at, wait.until] : park?.resumeAt != null ? [park.at, Date.parse(park.resumeAt)] : [0, 0]
  if (until <= from) return null
  return Math.max(0, Math.min(100, ((now.value - from) / (until - from)) * 100))
}

function What({ turn, state }: { readonly turn: TurnView; readonly state: StateName }): ComponentChildren {
  const step = turn.steps.at(-1)
  const where = step === undefined || step.n === 0 ? '' : `step ${step.n}`
  const parts: ComponentChildren[] = []
  if (turn.endedAt !== null) {
    if (turn.fault !== null && turn.status.state !== 'finished') parts.push(<span>{happened(turn.fault)}</span>)
    if (turn.fault?.actor !== undefined) parts.push(<span>by {turn.fault.actor}</span>)
    if (turn.end !== null) parts.push(<span>{counted(turn.steps.length, 'step')}</span>)
    if (turn.end?.unproven === true)
      parts.push(<span class="chip">the server sent no proof that the answer is complete</span>)
    if (turn.end?.finish != null)
      parts.push(
        <span class="chip">
          {isCutOff(turn.end) ? 'the answer is not complete' : `the model stopped: ${turn.end.finish}`}
        </span>,
      )
    if (turn.startedAt !== null) parts.push(<span class="num">in {length(turn.endedAt - turn.startedAt)}</span>)
  } else if (state === 'abandoned') {
    parts.push(<span>No daemon runs this turn. Nothing is lost: it continues from its last safe point.</span>)
  } else if (turn.park !== null) {
    const { fault, resumeAt } = turn.park
    const question = questionIn(turn)
    parts.push(
      <span>{where}</span>,
      <span>{question === undefined ? faultTitle(fault) : `may it call ${question.tool}?`}</span>,
    )
    if (resumeAt !== null)
      parts.push(
        <span>
          looks again <In until={Date.parse(resumeAt)} />
        </span>,
      )
    if (question !== undefined) parts.push(<code>{oneLine(JSON.stringify(question.arguments), ASKED_CHARS)}</code>)
    const advice = question !== undefined ? '' : (fault.message?.advice ?? (state === 'needs' ? fault.error : ''))
    if (advice !== '') parts.push(<span class="muted">{advice}</span>)
  } else if (turn.wait !== null) {
    const { fault, attempt, max, action, until } = turn.wait
    parts.push(<span>{where}</span>, <span>{faultTitle(fault)}</span>)
    parts.push(
      <span>
        {action === 'resolve' ? 'looks again' : 'next attempt'} <In until={until} />
      </span>,
    )
    if (fault.retryAfterMs !== undefined) parts.push(<span>the provider asked for {length(fault.retryAfterMs)}</span>)
    parts.push(
      <span class="muted">
        {attempt} of {max} failed
      </span>,
    )
  } else if (turn.server !== null) {
    parts.push(<span>{where}</span>, <span>waits for the model server ({turn.server.state})</span>)
    if (turn.server.line !== '') parts.push(<code class="muted">{oneLine(turn.server.line, 90)}</code>)
  } else {
    const call = step?.calls.findLast(({ outcome }) => outcome === 'running')
    parts.push(<span>{where}</span>)
    if (call?.approval?.decision === null) parts.push(<span>a call of {call.tool} waits for your approval</span>)
    else if (call !== undefined)
      parts.push(
        <span>
          {call.tool} <code>{oneLine(callLine(call), 80)}</code>
        </span>,
      )
    else parts.push(<span>{turn.status.state === 'queued' ? 'waits for the turn before it' : 'answering'}</span>)
  }
  if (state === 'unknown')
    parts.push(<span class="muted">It cannot be known whether {commands(turn)} ran; the model was told.</span>)
  return parts.map((part, index) => <span key={index}>{part}</span>)
}

const commands = ({ status: { unknownOutcomes } }: TurnView): string =>
  unknownOutcomes === 1 ? 'a command' : `${unknownOutcomes} commands`

const ASKED_CHARS = 160

/** Whether the bar has no room for all of the call that it asks about. */
const isCut = ({ arguments: given }: Call): boolean => reveal(JSON.stringify(given)).length > ASKED_CHARS

/** The call that waits for a person's yes or no. */
const questionIn = (turn: TurnView): Call | undefined =>
  turn.steps.at(-1)?.calls.find(({ approval, outcome }) => approval?.decision === null && outcome === 'running')

function Facts({
  turn,
  session,
}: {
  readonly turn: TurnView
  readonly session: Session | undefined
}): ComponentChildren {
  const policy = session?.policy ?? {}
  const failuresMax = policy.failuresMax ?? 60
  const waitMsMax = policy.waitMsMax ?? 1_800_000
  const { input, output, unknown } = turn.tokens
  const known = turn.end?.usage
  const tokens = known?.inputTokens.value ?? input
  const facts = [
    `survived ${survivedIn(turn)}`,
    `attempts ${attemptsIn(turn)}`,
    `failures ${turn.failures}/${failuresMax}`,
    `waited ${length(turn.waitedMs)} of ${length(waitMsMax)}`,
    tokens + output === 0
      ? ''
      : `tokens ${unknown > 0 ? '≥ ' : ''}${number(tokens)} in, ${unknown > 0 ? '≥ ' : ''}${number(known?.outputTokens.value ?? output)} out${unknown > 0 ? ` (${counted(unknown, 'attempt')} unknown)` : ''}`,
    turn.end?.cost?.value == null ? '' : `cost ${turn.end.cost.value.toFixed(4)} ${turn.end.cost.currency}`,
    turn.missingTools.length === 0 ? '' : `without ${turn.missingTools.join(', ')}`,
  ]
  return facts.filter(Boolean).map((fact) => (
    <span key={fact} class="num">
      {fact}
    </span>
  ))
}

function Actions({ turn, state }: { readonly turn: TurnView; readonly state: StateName }): ComponentChildren {
  if (turn.endedAt !== null) return null
  const asked = (turn.wait ?? turn.park)?.fault.retryAfterMs
  const until = turn.wait?.until ?? (turn.park?.resumeAt == null ? 0 : Date.parse(turn.park.resumeAt))
  const confirm =
    asked === undefined
      ? undefined
      : {
          question: `The provider asked for ${length(asked)}${leftOf(until - clock.server())}. Retry anyway?`,
          yes: turn.wait === null ? 'Resume now' : 'Retry now',
          no: 'Keep waiting',
        }
  const question = turn.park === null ? undefined : questionIn(turn)
  const canResume = (turn.park !== null && question === undefined) || turn.wait !== null || state === 'abandoned'
  const label = turn.wait !== null ? 'Retry now' : 'Resume'
  return (
    <>
      {question === undefined ? null : (
        <ApprovalAnswers call={question} turnId={turn.id} place="bar" isCut={isCut(question)} />
      )}
      {canResume ? (
        <Action
          id={`resume:${turn.id}`}
          subject={turn.id}
          label={label}
          pendingLabel={turn.wait !== null ? 'Retrying…' : 'Resuming…'}
          kind="primary"
          confirm={confirm}
          run={() => resumeTurn(turn.id)}
        />
      ) : null}
      <Action
        id={`cancel:${turn.id}`}
        subject={turn.id}
        label="Cancel"
        pendingLabel="Cancelling…"
        confirm={{ question: 'Cancel this turn?', yes: 'Yes, cancel it', no: 'Keep it' }}
        run={() => cancelTurn(turn.id)}
      />
    </>
  )
}
