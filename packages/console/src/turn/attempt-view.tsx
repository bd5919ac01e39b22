/** One attempt at an answer: its text if it counts; its scar, and what was thrown away, if it failed. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { needsPerson } from '@breakfall/wire/turn'
import { clock } from '../link/clock.ts'
import type { Attempt, Park, Part, Takeover } from '../fold/view.ts'
import { ACTIONS, faultTitle, happened, RESUMED_BY, whoContinued } from './words.ts'
import { bytes, length } from '../text/format.ts'
import { Markdown } from '../ui/markdown-view.tsx'
import { oneLine, printable } from '../text/reveal.ts'
import { In } from '../ui/times.tsx'

type AttemptProps = { readonly attempt: Attempt; readonly isLast: boolean; readonly onPick: () => void }

export function AttemptView({ attempt, isLast, onPick }: AttemptProps): VNode {
  const isOpen = isLast && attempt.state === 'running'
  const kept = attempt.parts.filter(({ discarded, kind }) => discarded === null && (kind !== 'call' || isOpen))
  return (
    <>
      {attempt.continues && kept.length > 0 ? (
        <p class="note">
          <span class="stitch" aria-hidden="true">
            ⌇
          </span>{' '}
          continued here where the stream broke
        </p>
      ) : null}
      {kept.map((part) => (
        <Kept key={part.key} part={part} isOpen={isOpen} />
      ))}
      {attempt.fault === null ? null : <AttemptScar attempt={attempt} onPick={onPick} />}
      {attempt.state === 'cut' && attempt.fault === null && kept.length > 0 ? (
        <p class="note">The answer was cut off here.</p>
      ) : null}
    </>
  )
}

type ParkProps = { readonly park: Park; readonly isSaid: boolean; readonly onPick: () => void }

/** `isSaid`: the attempt above it already says why. */
export function ParkScar({ park, isSaid, onPick }: ParkProps): VNode {
  const isOpen = park.endedAt === null
  return (
    <div
      class={`scar tone-${isOpen && needsPerson(park) ? 'failed' : 'parked'} ${isOpen ? 'is-open' : ''}`}
      data-seq={park.seq}
      id={`scar-${park.seq}`}
      data-scar="park"
    >
      <div class="scar-head">
        <button type="button" class="button-row" onClick={onPick}>
          {isOpen ? 'Parked' : `Parked for ${length((park.endedAt ?? park.at) - park.at)}`}
          {isSaid ? '' : `: ${faultTitle(park.fault)}`}
        </button>
        {isSaid ? null : <code>{park.fault.category}</code>}
      </div>
      {park.because === 'approval_needed' ? null : (
        <p class="muted">{park.fault.message?.advice ?? happened(park.fault)}</p>
      )}
      {park.endedBy === null ? null : (
        <p class="healed">
          <span class="stitch" aria-hidden="true">
            ⌇
          </span>{' '}
          continued because {RESUMED_BY[park.endedBy] ?? park.endedBy} ({park.endedBy})
        </p>
      )}
    </div>
  )
}

export function TakeoverScar({ gap, onPick }: { readonly gap: Takeover; readonly onPick: () => void }): VNode {
  return (
    <div class="scar tone-cancelled" data-seq={gap.seq} id={`scar-${gap.seq}`} data-scar="takeover">
      <div class="scar-head">
        <button type="button" class="button-row" onClick={onPick}>
          No daemon ran it for {length(gap.to - gap.from)}
        </button>
        <span class="muted">{whoContinued(gap)}</span>
      </div>
      <p class="healed">
        <span class="stitch" aria-hidden="true">
          ⌇
        </span>{' '}
        continued from the last safe point, epoch {gap.epoch}
      </p>
    </div>
  )
}

// ---- details, in the order they are used above ----

function Kept({ part, isOpen }: { readonly part: Part; readonly isOpen: boolean }): VNode | null {
  if (part.kind === 'call')
    return (
      <p class="note">
        writing a call of {part.tool}… {part.argumentsBytes === 0 ? '' : bytes(part.argumentsBytes)}
      </p>
    )
  if (part.kind === 'text') return <Markdown text={part.text} />
  return (
    <details class="thinking" open={isOpen && part.text.length < 600}>
      <summary>thinking · {oneLine(part.text, 70)}</summary>
      <div class="body">{printable(part.text)}</div>
    </details>
  )
}

function AttemptScar({ attempt, onPick }: { readonly attempt: Attempt; readonly onPick: () => void }): VNode | null {
  const { fault, wait } = attempt
  if (fault === null) return null
  const ms = attempt.spans.reduce((sum, { from, to }) => sum + (to ?? from) - from, 0)
  const thrown = attempt.parts.filter(({ discarded, kind }) => discarded !== null && kind !== 'call')
  return (
    <div
      class="scar"
      id={`attempt-${attempt.step}-${attempt.n}`}
      data-attempt={attempt.n}
      data-category={fault.category}
      data-seq={wait?.seq}
    >
      <div class="scar-head">
        <button type="button" class="button-row" onClick={onPick}>
          <span aria-hidden="true" class="tick">
            ✕{' '}
          </span>
          attempt {attempt.n}: {faultTitle(fault)}
        </button>
        <code>{fault.category}</code>
        <span class="muted">after {length(ms)}</span>
      </div>
      <p class="raw-line muted mono isolate">{oneLine(fault.errorRaw, 220)}</p>
      {thrown.map((part) => (
        <Thrown key={part.key} part={part} />
      ))}
      {wait === null ? null : <Healing attempt={attempt} />}
    </div>
  )
}

function Thrown({ part }: { readonly part: Part }): VNode {
  const [isOpen, setOpen] = useState(false)
  return (
    <div class="gone-text">
      <del class={isOpen ? 'whole' : ''}>
        <span class="sr">thrown away: </span>
        {isOpen ? printable(part.text) : oneLine(part.text, 140)}
      </del>
      <button type="button" class="link" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? 'fold' : bytes(part.text.length)}
      </button>
    </div>
  )
}

function Healing({ attempt }: { readonly attempt: Attempt }): VNode | null {
  const { wait } = attempt
  if (wait === null) return null
  const asked =
    wait.fault.retryAfterMs === undefined ? '' : `; the provider asked for ${length(wait.fault.retryAfterMs)}`
  if (wait.endedAt === null && wait.until > clock.server())
    return (
      <p class="tone-retrying">
        next attempt <In until={wait.until} /> · {wait.attempt} of {wait.max} failed{asked}
      </p>
    )
  const waited = (wait.endedAt ?? wait.until) - wait.at
  const to =
    wait.action === 'fallback' && wait.to !== null ? `: ${wait.to} instead of ${attempt.model ?? 'this model'}` : ''
  return (
    <p class="healed">
      <span class="stitch" aria-hidden="true">
        ⌇
      </span>{' '}
      waited {length(Math.max(0, waited))}, then {ACTIONS[wait.action] ?? wait.action}
      {to}
      {asked}
    </p>
  )
}
