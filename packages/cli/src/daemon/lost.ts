/** What a user reads when the daemon disappears while a turn is being followed. */
import { isFault } from '@breakfall/faults'
import { cmd } from '../process/command-name.ts'

export const waitingForDaemon = (url: string): string =>
  `The daemon at ${url} stopped answering. Waiting up to a minute for it to come back; its turns are saved.`

/** Adds to `daemon_unreachable` how to continue the turn. Any other error is unchanged. */
export function withHowToContinue(thrown: unknown, sessionId: string): unknown {
  if (!isFault(thrown) || thrown.category !== 'daemon_unreachable') return thrown
  return thrown.with({
    message: {
      action: 'The turn is saved in the journal.',
      advice: `Restart the daemon with "${cmd('up')}", which resumes the turn, or resume it without one: ${cmd('run')} --session ${sessionId}`,
    },
  })
}
