/** The files that a turn changed, as one line of text. Pure. */
import { counted } from '../text/amounts.ts'

/** What tools changed. `isUnknown`: what they changed is not fully known. */
export type Changes = {
  readonly files: readonly string[]
  readonly isUnknown: boolean
  /** Which tools were called. */
  readonly tools: readonly string[]
  readonly isEnded?: boolean
}

/** Empty if there is nothing to say. */
export function changedText({ files, isUnknown, tools, isEnded = true }: Changes): string {
  const shown = files.slice(0, SHOWN_MAX).join(', ')
  const more = files.length - SHOWN_MAX
  const atLeast = files.length >= NAMED_MAX ? 'at least ' : ''
  const named = more > 0 ? `${shown} and ${atLeast}${counted(more, 'more file')}` : shown
  if (!isUnknown) return named
  const why = isEnded ? (tools.includes('bash') ? COMMANDS : OUTSIDE) : LATER
  return named === '' ? `files: unknown; ${why}` : `${named}; more is unknown: ${why}`
}

// ---- details ----

const SHOWN_MAX = 20
const NAMED_MAX = 100 // the daemon names no more

const LATER = 'what tools change is known when the turn ends'
const COMMANDS = 'commands ran, and no checkpoint shows what they changed'
const OUTSIDE = 'tools outside the box were called, and Breakfall does not see what they change'
