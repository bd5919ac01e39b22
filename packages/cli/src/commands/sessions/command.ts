/** `breakfall sessions`: flags, help and examples. */
import { SESSION_FILTERS } from '@breakfall/wire'
import { command } from '../../command-line/command.ts'
import { positive } from '../../command-line/flags.ts'
import type { SessionsOptions } from './sessions.ts'

export const SESSIONS = command<SessionsOptions>({
  usage: 'sessions',
  about: 'list the sessions; needs no daemon',
  examples: [
    'breakfall sessions',
    'breakfall sessions --here --state failed,parked',
    'breakfall sessions --search parser --json',
  ],
  flags: (sessions) =>
    sessions
      .option('--state <states>', `only those in these states, separated by commas: ${SESSION_FILTERS.join(', ')}`)
      .option('--search <text>', 'only those with this text in title, prompt or folder, or with this start of the id')
      .option('--here', 'only those of the current folder')
      .option('--limit <count>', 'at most this many (default: 50, and all with --json)', positive)
      .option('--all', 'all of them')
      .option('--cursor <id>', 'those older than this session'),
  run: async (context, options) => (await import('./sessions.ts')).sessionsCommand(context, options),
})
