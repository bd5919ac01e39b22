/** The thread: a lane a step, time from left to right, every bar a real button with a sentence for a name. */
import type { RefObject, VNode } from 'preact'
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { now } from '../link/clock.ts'
import type { TurnView } from '../fold/view.ts'
import { link } from '../link/connection.ts'
import { axisOf, ticksOf } from './axis.ts'
import { type Group, groupsOf } from './lanes.ts'
import { type Segment, segmentsOf, SEGMENT_KINDS } from './segments.ts'
import { laneNotes, WORDS } from './words.ts'
import { counted, length } from '../text/format.ts'
import { isSamePick, type Pick, picked } from './selection.ts'

type ThreadProps = {
  readonly turn: TurnView
  readonly rev: number
  readonly unfolded: ReadonlySet<number> | 'all'
  readonly onPick: (pick: Pick) => void
  readonly onUnfold: (group: Group) => void
}

const NOTES_MAX = 3
const NEAR_PX = 40 // of the end
const ZOOMS = [1, 1.5, 2, 3, 4, 6, 8, 12, 16]

type Bar = { readonly segment: Segment; readonly step: number }
type Lane = {
  readonly key: string
  readonly label: string
  readonly group: Group
  readonly bars: readonly Bar[]
  /** What happened in it, in a few words each. */
  readonly notes: readonly string[]
}

export function ThreadPane({ turn, rev, unfolded, onPick, onUnfold }: ThreadProps): VNode {
  const [zoom, setZoom] = useState(0)
  const state = link.state.value
  const isAway = turn.endedAt === null && state.kind !== 'open' && state.kind !== 'connecting'
  const end = turn.endedAt ?? (isAway ? Math.max(turn.lastAt, now.value - 1) : Math.max(now.value, turn.lastAt))
  const lanes = useMemo(() => lanesOf(turn, unfolded, end), [turn, rev, unfolded, end])
  const from = turn.startedAt ?? turn.queuedAt ?? turn.lastAt
  const axis = axisOf(
    lanes.flatMap(({ bars }) => bars.map(({ segment }) => segment)),
    from,
    Math.max(end, from + 100),
  )
  const scale = ZOOMS[zoom] ?? 1
  useZoomKeys(setZoom)
  const follow = useFollow(turn.endedAt === null && picked.value === null, lanes)
  const [walkedTo, setWalkedTo] = useState('')
  const flat = lanes.flatMap(({ bars }) => bars)
  const own = flat.filter(({ segment, step }) => isSamePick(picked.value, pickOf(segment, step)))
  const current = own.find((bar) => keyOf(bar) === walkedTo) ?? own[0] ?? flat.at(-1) // an attempt may have several bars
  const place = (time: number): string => `${(axis.at(time) * 100).toFixed(3)}%`
  return (
    <>
      <div class="pane-head">
        <h2>Thread</h2>
        <span class="muted num">{length(end - from)}</span>
        <span class="spacer" />
        <button type="button" aria-label="Zoom out" onClick={() => setZoom(Math.max(0, zoom - 1))}>
          −
        </button>
        <button type="button" aria-label="Zoom in" onClick={() => setZoom(Math.min(ZOOMS.length - 1, zoom + 1))}>
          +
        </button>
        <button type="button" aria-label="Fit the whole thread" onClick={() => setZoom(0)}>
          fit
        </button>
      </div>
      <div class={`lanes-box ${isAway ? 'is-away' : ''}`} tabIndex={-1} {...follow}>
        <div class="lanes-inner" style={{ width: `${scale * 100}%` }}>
          <div class="scale" aria-hidden="true">
            {ticksOf(axis, Math.round(5 * scale)).map((time) => (
              <span key={time} style={{ left: place(time) }}>
                {time === from ? '0' : length(time - from)}
              </span>
            ))}
            {axis.folds.map((fold) => (
              <span key={fold.from} style={{ left: place((fold.from + fold.to) / 2) }} title="a long wait, folded">
                ⋯ {length(fold.to - fold.from)}
              </span>
            ))}
          </div>
          <ol
            class="lanes"
            aria-label="Thread, by step"
            onKeyDown={(event) =>
              moveByKey(event, lanes, current, (bar) => {
                setWalkedTo(keyOf(bar))
                onPick(pickOf(bar.segment, bar.step))
              })
            }
          >
            {lanes.map((lane) => (
              <li
                key={lane.key}
                class={`lane ${lane.group.steps.some(({ n }) => n === picked.value?.step) ? 'is-picked' : ''}`}
              >
                <span class="lane-label">
                  {lane.group.isFolded ? (
                    <button type="button" onClick={() => onUnfold(lane.group)} aria-label={`Unfold ${lane.label}`}>
                      ▸ {lane.label}
                    </button>
                  ) : (
                    lane.label
                  )}
                </span>
                <ol class="track">
                  {lane.bars.map((bar) => (
                    <BarView
                      key={bar.segment.key}
                      bar={bar}
                      left={place(bar.segment.from)}
                      width={`${((axis.at(bar.segment.to) - axis.at(bar.segment.from)) * 100).toFixed(3)}%`}
                      isCurrent={bar.segment === current?.segment}
                      isEnd={turn.status.state === 'failed'}
                      onPick={onPick}
                    />
                  ))}
                </ol>
                {lane.notes.length === 0 ? null : (
                  <p class="lane-notes" aria-hidden="true">
                    {lane.notes.length <= NOTES_MAX ? null : <span>{lane.notes.length - NOTES_MAX} before, then</span>}
                    {lane.notes.slice(-NOTES_MAX).map((note, index) => (
                      <span key={index}>{note}</span>
                    ))}
                  </p>
                )}
              </li>
            ))}
          </ol>
        </div>
      </div>
      <div class="legend" aria-hidden="true">
        {Object.entries(SEGMENT_KINDS).map(([kind, says]) => (
          <span key={kind}>
            <i class={`seg ${kind}`} /> {says}
          </span>
        ))}
      </div>
    </>
  )
}

// ---- details, in the order they are used above ----

function lanesOf(turn: TurnView, unfolded: ThreadProps['unfolded'], end: number): readonly Lane[] {
  return groupsOf(turn, unfolded).map((group) => {
    const [first] = group.steps
    const last = group.steps.at(-1)
    if (!group.isFolded || first === undefined || last === undefined) {
      const bars = group.steps.flatMap((step) =>
        segmentsOf(step, turn, end, WORDS).map((segment) => ({ segment, step: step.n })),
      )
      return { key: group.key, label: `${first?.n ?? ''}`, group, bars, notes: group.steps.flatMap(laneNotes) }
    }
    const to = Math.max(
      ...[...last.attempts, ...last.calls].flatMap(({ spans }) => spans.map((span) => span.to ?? end)),
    )
    const name = `Steps ${first.n} to ${last.n}, ${length(to - first.startedAt)}, no fault`
    const base = { kind: 'work' as const, isOpen: false, attempt: null, callId: null, scar: null, seq: 0, name }
    const segment = { ...base, key: group.key, from: first.startedAt, to: Math.max(to, first.startedAt) }
    return { key: group.key, label: `${first.n}–${last.n}`, group, bars: [{ segment, step: first.n }], notes: [] }
  })
}

function useZoomKeys(setZoom: (change: (zoom: number) => number) => void): void {
  useLayoutEffect(() => {
    const take = ({ detail }: CustomEvent<number>): void =>
      setZoom((zoom) => (detail === 0 ? 0 : Math.max(0, Math.min(ZOOMS.length - 1, zoom + detail))))
    const listener = (event: Event): void => {
      if (event instanceof CustomEvent) take(event)
    }
    addEventListener('breakfall:zoom', listener)
    return () => removeEventListener('breakfall:zoom', listener)
  }, [])
}

/** While the turn lasts, the newest lane stays in sight, until a person or a jump scrolls away from it. */
function useFollow(
  isLive: boolean,
  lanes: readonly Lane[],
): { readonly ref: RefObject<HTMLDivElement | null>; readonly onScroll: () => void } {
  const ref = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  useLayoutEffect(() => {
    const box = ref.current
    if (box !== null && isLive && isAtEnd.current) box.scrollTop = box.scrollHeight
  }, [isLive, lanes])
  const onScroll = (): void => {
    const box = ref.current
    if (box !== null) isAtEnd.current = box.scrollTop + box.clientHeight > box.scrollHeight - NEAR_PX
  }
  return { ref, onScroll }
}

const keyOf = ({ segment, step }: Bar): string => `${step}/${segment.key}`

const pickOf = ({ attempt, callId, seq, kind }: Segment, step: number): Pick => {
  if (callId !== null) return { step, call: callId }
  if (kind === 'park' || kind === 'gone') return { step, seq }
  return attempt === null ? { step } : { step, attempt }
}

type BarProps = {
  readonly bar: Bar
  readonly left: string
  readonly width: string
  readonly isCurrent: boolean
  readonly isEnd: boolean
  readonly onPick: (pick: Pick) => void
}

const MARKS = { fault: '✕', unknown: '?', takeover: '⌇' } as const

function BarView({ bar: { segment, step }, left, width, isCurrent, isEnd, onPick }: BarProps): VNode {
  const { kind, scar, isOpen, name } = segment
  const pick = pickOf(segment, step)
  const isPicked = isSamePick(picked.value, pick)
  const markClass = scar === 'fault' && isEnd && isOpen ? 'bad' : scar === 'fault' ? '' : (scar ?? '')
  return (
    <li>
      <button
        type="button"
        class={`seg ${kind} ${isOpen ? 'is-open' : ''} ${isPicked ? 'is-picked' : ''} ${scar === 'fault' && kind === 'work' ? 'is-failed' : ''}`}
        style={{ left, width }}
        aria-label={name}
        aria-pressed={isPicked}
        title={name}
        tabIndex={isCurrent ? 0 : -1}
        data-step={step}
        onClick={() => onPick(pick)}
      >
        {scar === null || kind === 'park' ? null : (
          <span class={`mark ${markClass}`} aria-hidden="true">
            {MARKS[scar]}
          </span>
        )}
      </button>
    </li>
  )
}

/** Left and right go by step, up and down by attempt and call. */
function moveByKey(
  event: KeyboardEvent,
  lanes: readonly Lane[],
  current: Bar | undefined,
  onWalk: (bar: Bar) => void,
): void {
  const flat = lanes.flatMap(({ bars }) => bars)
  const at = flat.findIndex((bar) => bar.segment === current?.segment)
  const laneAt = lanes.findIndex(({ bars }) => bars.some((bar) => bar.segment === current?.segment))
  const next =
    event.key === 'ArrowDown'
      ? flat[at + 1]
      : event.key === 'ArrowUp'
        ? flat[at - 1]
        : event.key === 'ArrowRight'
          ? lanes[laneAt + 1]?.bars[0]
          : event.key === 'ArrowLeft'
            ? lanes[laneAt - 1]?.bars[0]
            : undefined
  if (next === undefined) return
  event.preventDefault()
  event.stopPropagation()
  onWalk(next)
  const list = event.currentTarget
  requestAnimationFrame(() => {
    if (list instanceof HTMLElement) list.querySelector<HTMLElement>('.seg[tabindex="0"]')?.focus()
  })
}

/** For the header: "3 faults". */
export const faultCount = (turn: TurnView): string => counted(turn.scars.length, 'fault')
