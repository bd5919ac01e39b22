/** Small parts that every screen uses: states, times, copying, boundaries. */
import { signal } from '@preact/signals'
import { Component, type ComponentChildren, type VNode } from 'preact'
import { useState } from 'preact/hooks'
import { FAULTS, isFaultCategory } from '@breakfall/faults'
import { now } from '../link/clock.ts'
import { categoryLink } from './route.ts'
import { type StateName, STATES } from './states.ts'
import { ago, countdown, exactTime } from '../text/format.ts'
import { announce } from './announcer.tsx'

/** Times in UTC instead of this machine's zone: key `t`. */
export const isUtc = signal(false)

export function Badge({ state, word }: { readonly state: StateName; readonly word?: string }): VNode {
  const { glyph, tone, word: usual } = STATES[state]
  return (
    <span class={`badge tone-${tone}`}>
      <span class="glyph" aria-hidden="true">
        {glyph}
      </span>
      <span>{word ?? usual}</span>
    </span>
  )
}

export function Ago({ at }: { readonly at: string | number | null | undefined }): VNode | null {
  const ms = typeof at === 'string' ? Date.parse(at) : (at ?? Number.NaN)
  if (!Number.isFinite(ms)) return null
  return (
    <time dateTime={new Date(ms).toISOString()} title={exactTime(ms, isUtc.value)}>
      {ago(now.value - ms)}
    </time>
  )
}

export function Exact({ at }: { readonly at: number }): VNode | null {
  if (!Number.isFinite(at)) return null
  return <time dateTime={new Date(at).toISOString()}>{exactTime(at, isUtc.value)}</time>
}

/** Silent for screen readers: a number that changes every second is not news. */
export function Countdown({ until }: { readonly until: number }): VNode {
  return (
    <span class="countdown num" role="timer" aria-live="off">
      {countdown(until - now.value)}
    </span>
  )
}

/** "in 0:07", then "now…". */
export function In({ until }: { readonly until: number }): VNode {
  return (
    <>
      {until > now.value ? 'in ' : ''}
      <Countdown until={until} />
    </>
  )
}

export const titleOfCategory = (category: string): string =>
  isFaultCategory(category) ? FAULTS[category].title : category.replaceAll('_', ' ')

export function Category({ name }: { readonly name: string }): VNode {
  return isFaultCategory(name) ? (
    <a href={categoryLink(name)}>
      <code>{name}</code>
    </a>
  ) : (
    <code>{name}</code>
  )
}

export function CopyButton({ text, label }: { readonly text: () => string; readonly label: string }): VNode {
  const [state, setState] = useState<'idle' | 'done' | 'failed'>('idle')
  const copy = async (): Promise<void> => {
    const isDone = await copyText(text())
    setState(isDone ? 'done' : 'failed')
    announce(isDone ? `Copied: ${label}.` : `Could not copy ${label}.`)
    setTimeout(() => setState('idle'), 1_500)
  }
  return (
    <button type="button" class="quiet" onClick={() => void copy()}>
      {state === 'done' ? '✓ copied' : state === 'failed' ? 'could not copy' : label}
    </button>
  )
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return false // the browser refused: said on the button
  }
}

type BoundaryProps = { readonly what: string; readonly json?: unknown; readonly children: ComponentChildren }

/** One odd value costs one part of the page, never the page. */
export class Boundary extends Component<BoundaryProps, { readonly failed: string | null }> {
  override state: { readonly failed: string | null } = { failed: null }

  override componentDidCatch(error: unknown): void {
    this.setState({ failed: error instanceof Error ? error.message : String(error) })
  }

  override render(): ComponentChildren {
    if (this.state.failed === null) return this.props.children
    return (
      <div class="note">
        This part cannot be shown ({this.props.what}: {this.state.failed}).{' '}
        <CopyButton label="copy its JSON" text={() => JSON.stringify(this.props.json ?? null, null, 2)} />
      </div>
    )
  }
}

export function Logo(): VNode {
  return (
    <svg viewBox="0 0 60 36" fill="none" aria-hidden="true">
      <path d="M2 22C9 22 10 8 18 8" stroke="currentColor" stroke-width="4" stroke-linecap="round" />
      <path d="M38 26C46 26 49 12 58 12" stroke="currentColor" stroke-width="4" stroke-linecap="round" />
      <path
        class="cut"
        d="M21 10l5 6-4 5 6 6 7 0"
        stroke="currentColor"
        stroke-width="2.6"
        stroke-linecap="round"
        stroke-linejoin="round"
        stroke-dasharray="1 5"
      />
    </svg>
  )
}
