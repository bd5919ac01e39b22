/** One step of the conversation: its attempts, its calls, and everything that happened to them, in order. */
import type { VNode } from 'preact'
import type { Note, Step } from '../fold/view.ts'
import { counted, length } from '../text/format.ts'
import { AttemptView, ParkScar, TakeoverScar } from './attempt-view.tsx'
import { Boundary } from '../ui/boundary.tsx'
import { CallView } from './call-view.tsx'
import { memo } from '../ui/memo.ts'
import type { Pick } from './selection.ts'

type StepProps = {
  readonly step: Step
  readonly rev: number
  readonly sessionId: string
  readonly turnId: string
  readonly isReadOnly: boolean
  readonly isFound: boolean
  readonly onPick: (pick: Pick) => void
}

/** Renders again only if the step changed. */
export const StepView = memo(
  (props: StepProps) => (
    <Boundary what={`step ${props.step.n}`} json={props.step}>
      <Shown {...props} />
    </Boundary>
  ),
  (a, b) => a.step === b.step && a.rev === b.rev && a.isFound === b.isFound,
)

function Shown(props: StepProps): VNode {
  const { step, isFound } = props
  const failed = step.attempts.filter(({ fault }) => fault !== null).length
  return (
    <li class={`step ${isFound ? 'found' : ''}`} id={`step-${step.n}`} data-step={step.n}>
      <div class="step-head">
        <h2>{step.n === 0 ? 'Before the first step' : `Step ${step.n}`}</h2>
        <span>{[failed === 0 ? '' : counted(failed, 'failed attempt'), took(step)].filter(Boolean).join(' · ')}</span>
      </div>
      {inOrder(props).map(({ node }) => node)}
    </li>
  )
}

type Row = { readonly at: number; readonly node: VNode }

/** What happened in the step, by when it started. */
function inOrder({ step, rev, sessionId, turnId, isReadOnly, onPick }: StepProps): readonly Row[] {
  const last = step.attempts.at(-1)
  const rows: Row[] = [
    ...step.attempts
      .filter(({ state, parts }) => state !== 'waiting' || parts.length > 0)
      .map((attempt) => ({
        at: attempt.spans[0]?.from ?? step.startedAt,
        node: (
          <AttemptView
            key={`attempt-${attempt.n}`}
            attempt={attempt}
            isLast={attempt === last}
            onPick={() => onPick({ step: step.n, attempt: attempt.n })}
          />
        ),
      })),
    ...step.calls.map((call) => ({
      at: call.spans[0]?.from ?? step.startedAt,
      node: (
        <CallView
          key={`call-${call.id}`}
          call={call}
          rev={rev}
          sessionId={sessionId}
          turnId={turnId}
          isReadOnly={isReadOnly}
          onPick={(callId) => onPick({ step: step.n, call: callId })}
        />
      ),
    })),
    ...step.takeovers.map((gap) => ({
      at: gap.from,
      node: <TakeoverScar key={gap.seq} gap={gap} onPick={() => onPick({ step: step.n, seq: gap.seq })} />,
    })),
    ...step.parks.map((park) => ({
      at: park.at,
      node: (
        <ParkScar
          key={park.seq}
          park={park}
          isSaid={step.attempts.some(({ fault }) => fault === park.fault)}
          onPick={() => onPick({ step: step.n, seq: park.seq })}
        />
      ),
    })),
    ...step.notes.map((note) => ({ at: note.at, node: <NoteLine key={`note-${note.seq}`} note={note} /> })),
  ]
  return rows.sort((a, b) => a.at - b.at)
}

function NoteLine({ note }: { readonly note: Note }): VNode {
  return (
    <p class="note" data-note={note.seq}>
      {note.text}{' '}
      {note.json === null ? null : (
        <details>
          <summary>JSON</summary>
          <pre class="raw" tabIndex={0} role="group" aria-label="Event">
            {JSON.stringify(note.json, null, 2).slice(0, 20_000)}
          </pre>
        </details>
      )}
    </p>
  )
}

function took(step: Step): string {
  const ends = [...step.attempts, ...step.calls].flatMap(({ spans }) => spans.map(({ to }) => to))
  if (ends.length === 0 || ends.includes(null)) return ''
  return length(Math.max(...ends.map((end) => end ?? 0)) - step.startedAt)
}
