/** Times as people read them: how long ago, exactly when, and how long still. */
import { signal } from '@preact/signals'
import type { VNode } from 'preact'
import { now } from '../link/clock.ts'
import { ago, countdown, exactTime } from '../text/format.ts'

/** Times in UTC instead of this machine's zone: key `t`. */
export const isUtc = signal(false)

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
