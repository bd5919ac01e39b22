/** The one polite line for screen readers: state changes, at most 20 in a minute. The newest wins; countdowns never speak. */
import { signal } from '@preact/signals'
import type { VNode } from 'preact'
import { clock } from '../link/clock.ts'

const APART_MS = 3_200 // 60 s hold 19 of these, and the first one

const said = signal('')
let saidAt = 0
let waiting: string | null = null

export function announce(text: string): void {
  if (text === said.peek() && waiting === null) return
  const inMs = saidAt + APART_MS - clock.local()
  if (inMs <= 0) return say(text)
  if (waiting === null) setTimeout(() => waiting !== null && say(waiting), inMs)
  waiting = text
}

export function Announcer(): VNode {
  return (
    <div class="sr" role="status" aria-live="polite" id="announcer">
      {said.value}
    </div>
  )
}

function say(text: string): void {
  waiting = null
  saidAt = clock.local()
  said.value = text
}
