/** The files that a turn changed, as one line of text. Pure. */
import { counted } from './counted.ts'

/** Empty if there is nothing to say. `isUnknown`: commands ran, and what they changed is not fully known. */
export function changedText(files: readonly string[], isUnknown: boolean, isEnded = true): string {
  const shown = files.slice(0, SHOWN_MAX).join(', ')
  const more = files.length - SHOWN_MAX
  const atLeast = files.length >= NAMED_MAX ? 'at least ' : ''
  const named = more > 0 ? `${shown} and ${atLeast}${counted(more, 'more file')}` : shown
  if (!isUnknown) return named
  const why = isEnded ? WHY : LATER
  return named === '' ? `files: unknown; ${why}` : `${named}; more is unknown: ${why}`
}

// ---- details ----

const SHOWN_MAX = 20
const NAMED_MAX = 100 // the daemon names no more

const LATER = 'what commands change is known when the turn ends'
const WHY = 'commands ran, and no checkpoint shows what they changed'
