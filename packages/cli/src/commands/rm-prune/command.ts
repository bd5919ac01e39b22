/** `breakfall rm` and `breakfall prune`: flags, help and examples. */
import { command } from '../../command-line/command.ts'
import { timeSpan, wholeNumber } from '../../command-line/flags.ts'
import type { PruneOptions, RmOptions } from './rm-prune.ts'

export const RM = command<RmOptions>({
  usage: 'rm <session...>',
  about: 'delete sessions that have ended; needs no daemon',
  examples: ['breakfall rm 0198c2a4-91e0 0198c2a5-03b1'],
  flags: (rm) => rm.option('--force', 'also sessions with an unfinished turn: cancel it first'),
  run: async (context, options, ids) => (await import('./rm-prune.ts')).rmCommand(context, ids, options),
})

export const PRUNE = command<PruneOptions>({
  usage: 'prune',
  about: 'delete sessions that ended long ago; needs no daemon',
  examples: [
    'breakfall prune --dry-run                 what is 30 days old',
    'breakfall prune --older-than 7d',
    'breakfall prune --keep 100                all but the 100 that were used last',
  ],
  flags: (prune) =>
    prune
      .option(
        '--older-than <time>',
        'not used for this long: 30d, 12h, 45m (default: 30d, unless --keep is given)',
        timeSpan,
      )
      .option('--keep <count>', 'keep this many, those used last', wholeNumber)
      .option('--dry-run', 'only say what would be deleted'),
  run: async (context, options) => (await import('./rm-prune.ts')).pruneCommand(context, options),
})
