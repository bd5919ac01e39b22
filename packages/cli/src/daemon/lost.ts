/** What is said of a daemon that is lost under somebody who follows a turn: that it is waited for, and what to do where it stays away. */
import { isFault } from '@breakfall/faults'

export const awayWords = (url: string): string =>
  `the daemon at ${url} has died or does not answer; waiting for it for up to a minute. Its turns are kept`

/** What was thrown, with what can be done where that is a daemon that stays away. */
export function keptFault(thrown: unknown, sessionId: string): unknown {
  if (!isFault(thrown) || thrown.category !== 'daemon_unreachable') return thrown
  return thrown.with({
    message: {
      action: 'The turn is saved in the journal.',
      advice: `Restart the daemon with "breakfall up", which resumes the turn, or resume it without one: breakfall run --session ${sessionId}`,
    },
  })
}
