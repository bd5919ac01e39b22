/**
 * The conversation: prompts, steps, folded steps, the end of each turn.
 *
 * I1  Scrolling belongs to the person: what is being read does not move. At the end it follows; anywhere else nothing folds,
 *     and new things are only added below.
 * I2  Long conversations stay cheap: blocks that are far away are not laid out, and beyond a limit only their text is in the page,
 *     so the browser still finds it.
 */
import type { Session } from '@breakfall/wire'
import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { textsOf } from '../fold/search.ts'
import { answerIn, type SessionFold, type Step, type TurnView } from '../fold/view.ts'
import { type Group, groupsOf, KEPT_LAST } from './lanes.ts'
import { length } from '../text/format.ts'
import { printable } from '../text/reveal.ts'
import { Boundary, CopyButton } from '../ui/boundary.tsx'
import { Ago } from '../ui/times.tsx'
import { Ending } from './ending.tsx'
import { type Pick, following } from './selection.ts'
import { StepView } from './step-view.tsx'

type TalkProps = {
  readonly view: SessionFold
  readonly rev: number
  readonly session: Session | undefined
  readonly sessionId: string
  readonly isReadOnly: boolean
  readonly unfolded: ReadonlySet<number> | 'all'
  readonly found: number | null
  readonly before: ComponentChildren
  readonly onPick: (pick: Pick) => void
  readonly onUnfold: (group: Group) => void
}

const BLOCK_GROUPS = 20
const WINDOWED_FROM = 300 // groups, about 1,500 rows
const NEAR_END_PX = 48
const UNSEEN_PX = 3_000 // a block that was never laid out
const FINDABLE_CHARS = 10_000 // per text: of a longer one, the page shows only parts anyway

export function Talk(props: TalkProps): VNode {
  const { view, rev, before } = props
  const box = useRef<HTMLDivElement>(null)
  const isFollowing = following.value
  const frozen = useRef(new Map<string, number>())
  useLayoutEffect(() => {
    const scroller = scrollerOf(box.current)
    const target: EventTarget = scroller === document.scrollingElement ? document : (scroller ?? document)
    let wasAt = scroller?.scrollTop ?? 0
    const take = (): void => {
      if (scroller === null) return
      const isUp = scroller.scrollTop < wasAt - 1 // only a person scrolls up; new text only makes the end move away
      wasAt = scroller.scrollTop
      if (distanceToEnd(scroller) < NEAR_END_PX) following.value = true
      else if (isUp) following.value = false
    }
    target.addEventListener('scroll', take, { passive: true })
    const follow = (): void => {
      following.value = true
    }
    addEventListener('breakfall:follow', follow)
    return () => {
      target.removeEventListener('scroll', take)
      removeEventListener('breakfall:follow', follow)
    }
  }, [])
  useLayoutEffect(() => toEnd(box.current), [rev, isFollowing])
  useEffect(() => {
    const list = box.current?.firstElementChild
    if (!isFollowing || list == null) return
    const observer = new ResizeObserver(() => toEnd(box.current)) // blocks get their real size when they are laid out
    observer.observe(list)
    return () => observer.disconnect()
  }, [isFollowing])
  return (
    <div class="talk" ref={box} tabIndex={0} role="region" aria-label="Conversation">
      <ol>
        {before}
        {view.turns.map((turn) => {
          const upTo = isFollowing
            ? turn.steps.length - KEPT_LAST
            : (frozen.current.get(turn.id) ?? turn.steps.length - KEPT_LAST)
          frozen.current.set(turn.id, upTo) // I1
          return <TurnRows key={turn.id} {...props} turn={turn} upTo={upTo} />
        })}
      </ol>
      {isFollowing ? null : (
        <div class="follow">
          <button type="button" onClick={() => (following.value = true)}>
            ↓ follow
          </button>
        </div>
      )}
    </div>
  )
}

// ---- details, in the order they are used above ----

function scrollerOf(box: HTMLElement | null): Element | null {
  if (box === null) return null
  return getComputedStyle(box).overflowY === 'visible' ? document.scrollingElement : box
}

function toEnd(box: HTMLElement | null): void {
  const scroller = scrollerOf(box)
  if (following.peek() && scroller !== null) scroller.scrollTop = scroller.scrollHeight
}

const distanceToEnd = (scroller: Element): number => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight

type TurnRowsProps = TalkProps & { readonly turn: TurnView; readonly upTo: number }

function TurnRows({ turn, upTo, ...props }: TurnRowsProps): VNode {
  const groups = groupsOf(turn, props.unfolded, upTo)
  const blocks: Group[][] = []
  for (let i = 0; i < groups.length; i += BLOCK_GROUPS) blocks.push(groups.slice(i, i + BLOCK_GROUPS))
  const isWindowed = groups.length > WINDOWED_FROM // I2
  return (
    <>
      <li class="turn-start" id={`turn-${turn.id}`}>
        <div class="who">
          <strong>you</strong> <Ago at={turn.startedAt ?? turn.queuedAt} />
          {turn.startedAt === null ? <span>queued: it runs after the turn before it</span> : null}
        </div>
        <p class="prompt">{printable(turn.prompt)}</p>
      </li>
      {blocks.map((block, index) => (
        <Block
          key={block[0]?.key ?? index}
          isWindowed={isWindowed && index < blocks.length - 1}
          steps={block.flatMap(({ steps, isFolded }) => (isFolded ? [] : steps))}
        >
          {() => block.map((group) => <GroupView key={group.key} {...props} turn={turn} group={group} />)}
        </Block>
      ))}
      {turn.endedAt === null ? null : (
        <li>
          <Boundary what="the end of the turn" json={turn.end ?? turn.fault}>
            <Ending
              turn={turn}
              session={props.session}
              actions={<CopyButton label="copy answer" text={() => answerIn(turn)} />}
            />
          </Boundary>
        </li>
      )}
    </>
  )
}

function GroupView({
  group,
  turn,
  sessionId,
  isReadOnly,
  found,
  onPick,
  onUnfold,
}: TalkProps & { readonly group: Group; readonly turn: TurnView }): VNode {
  const [first] = group.steps
  const last = group.steps.at(-1)
  if (first === undefined || last === undefined) return <></>
  if (!group.isFolded)
    return (
      <StepView
        step={first}
        rev={first.rev}
        sessionId={sessionId}
        turnId={turn.id}
        isReadOnly={isReadOnly}
        isFound={found === first.n}
        onPick={onPick}
      />
    )
  const end = Math.max(
    first.startedAt,
    ...[...last.attempts, ...last.calls].flatMap(({ spans }) => spans.map(({ to }) => to ?? 0)),
  )
  return (
    <li class="fold-line">
      <button type="button" class="quiet" aria-expanded="false" onClick={() => onUnfold(group)}>
        ▸ steps {first.n}–{last.n} · {length(end - first.startedAt)} · no fault
      </button>
    </li>
  )
}

/** A block of rows. Far from the screen it keeps its height, and its text for the browser's own search (Ctrl-F). */
function Block({
  isWindowed,
  steps,
  children,
}: {
  readonly isWindowed: boolean
  readonly steps: readonly Step[]
  readonly children: () => ComponentChildren
}): VNode {
  const item = useRef<HTMLLIElement>(null)
  const [isNear, setNear] = useState(!isWindowed)
  const height = useRef(UNSEEN_PX)
  useEffect(() => {
    const element = item.current
    if (!isWindowed || element === null) return
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (entry === undefined) return
        if (!entry.isIntersecting) height.current = entry.boundingClientRect.height
        setNear(entry.isIntersecting)
      },
      { rootMargin: '300% 0px' },
    )
    observer.observe(element)
    const reveal = ({ target }: Event): void => {
      following.value = false
      setNear(true)
      const id = target instanceof Element ? target.getAttribute('data-for') : null
      if (id !== null) requestAnimationFrame(() => document.getElementById(id)?.scrollIntoView({ block: 'center' }))
    }
    element.addEventListener('beforematch', reveal)
    return () => {
      observer.disconnect()
      element.removeEventListener('beforematch', reveal)
    }
  }, [isWindowed])
  const isShown = !isWindowed || isNear
  return (
    <li ref={item} style={isShown ? {} : { height: `${height.current}px` }}>
      {isShown ? (
        <ol class="block">{children()}</ol>
      ) : (
        steps.map((step) => (
          <div key={step.n} hidden="until-found" data-for={`step-${step.n}`}>
            {textsOf(step)
              .map((text) => text.slice(0, FINDABLE_CHARS))
              .join(' ')}
          </div>
        ))
      )}
    </li>
  )
}
