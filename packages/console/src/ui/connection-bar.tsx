/** What the page knows about its connection: nothing for the first second, then one line that says nothing is lost. */
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { now } from '../link/clock.ts'
import { link } from '../link/connection.ts'
import { type Restarted, restarted } from '../link/fleet.ts'
import { clock } from '../link/clock.ts'
import { clockTime, counted } from '../text/format.ts'
import { announce } from './announcer.tsx'
import { isUtc } from './times.tsx'

const QUIET_MS = 1_000 // most breaks are over by then

export function ConnectionBar(): VNode | null {
  const state = link.state.value
  const seen = now.value // once a second
  const isLate = seen > 0 && clock.local() - state.since >= QUIET_MS
  const back = restarted.value
  const text =
    state.kind === 'silent'
      ? 'The daemon is not answering. It is still connected; the page goes live again as soon as it answers.'
      : state.kind === 'lost' && isLate
        ? `Connection lost at ${clockTime(state.since, isUtc.value)}. Nothing is lost.`
        : null
  const backText = back === null ? null : saidBack(back)
  useEffect(() => {
    if (text !== null) announce(text)
  }, [text])
  useEffect(() => {
    if (backText !== null) announce(backText)
  }, [backText])
  if (text !== null)
    return (
      <section class="bar tone-retrying" data-connection={state.kind} aria-label="Connection">
        <strong>{state.kind === 'silent' ? '… not answering' : '↻ reconnecting'}</strong>
        <span>{text}</span>
      </section>
    )
  if (backText === null || state.kind !== 'open') return null
  return (
    <section class="bar tone-finished" data-connection="restarted" aria-label="Connection">
      <strong>⌇ stitched</strong>
      <span>{backText}</span>
      <span class="spacer" />
      <button type="button" class="quiet" onClick={() => (restarted.value = null)}>
        Dismiss
      </button>
    </section>
  )
}

// ---- details ----

function saidBack({ at, turns, fleet }: Restarted): string {
  if (fleet !== null) return `This page is connected to ${fleet} now. Turns continue at any daemon of the fleet.`
  const when = at === '' ? '' : ` at ${clockTime(Date.parse(at), isUtc.value)}`
  const what =
    turns === 0
      ? 'No turn was running.'
      : `${counted(turns, 'turn')} continued where ${turns === 1 ? 'it' : 'they'} stopped.`
  return `The daemon was restarted${when}. ${what}`
}
