/** The commands that read, steer and remove sessions: `sessions`, `show`, `cancel`, `resume`, `approve`, `rm`, `tail`, `explain` and more. */
import { Option } from 'commander'
import { BOUNDARIES } from '@breakfall/faults'
import { SESSION_FILTERS } from '@breakfall/wire'
import type { ApproveOptions } from '../commands/approve.ts'
import type { ExplainOptions } from '../commands/explain.ts'
import type { ExportOptions } from '../commands/export.ts'
import type { PruneOptions, RmOptions } from '../commands/prune.ts'
import type { SessionsOptions, TailOptions } from '../commands/sessions.ts'
import type { UninstallOptions } from '../commands/uninstall.ts'
import { positive, timeSpan, wholeNumber } from './flags.ts'
import type { AddCommand } from './fleet-commands.ts'
import { addUndoCommands } from './undo-commands.ts'

export function addSessionCommands(command: AddCommand): void {
  command<SessionsOptions>('sessions', 'list the sessions; needs no daemon', async (context, options) => {
    const { sessionsCommand } = await import('../commands/sessions.ts')
    await sessionsCommand(context, options)
  })
    .option('--state <states>', `only those in these states, separated by commas: ${SESSION_FILTERS.join(', ')}`)
    .option('--search <text>', 'only those with this text in title, prompt or folder, or with this start of the id')
    .option('--here', 'only those of the current folder')
    .option('--limit <count>', 'at most this many (default: 50, and all with --json)', positive)
    .option('--all', 'all of them')
    .option('--cursor <id>', 'those older than this session')
  command('show <id>', 'show a session or a turn; needs no daemon', async (context, _options, [id = '']) => {
    const { showCommand } = await import('../commands/sessions.ts')
    await showCommand(context, id)
  })
  addUndoCommands(command)
  command<ExportOptions>(
    'export <session>',
    'a session as a bundle of JSON lines, for the console or a colleague; needs no daemon',
    async (context, options, [id = '']) => {
      const { exportCommand } = await import('../commands/export.ts')
      await exportCommand(context, id, options)
    },
  )
    .option('--output <file>', 'write it into this file, readable by you only, instead of stdout')
    .addOption(new Option('--redact <what>', 'text: without prompts, answers, commands and output').choices(['text']))
  command<{ reason?: string }>(
    'cancel <id>',
    'cancel a turn, by its id or its session; needs no daemon',
    async (context, { reason }, [id = '']) => {
      const { cancelCommand } = await import('../commands/steer.ts')
      await cancelCommand(context, id, reason)
    },
  ).option('--reason <text>', 'why, for the record')
  command(
    'resume [id]',
    "resume a parked turn or retry now, by its id or its session; without an id, this folder's only one, or list what waits",
    async (context, _options, [id]) => {
      const { resumeCommand } = await import('../commands/steer.ts')
      return resumeCommand(context, id)
    },
  )
  command<ApproveOptions>(
    'approve [id]',
    'allow or deny the tool call that a turn waits with; without an id, list what waits',
    async (context, options, [id]) => {
      const { approveCommand } = await import('../commands/approve.ts')
      return approveCommand(context, options, id)
    },
  )
    .option('--deny', 'deny it')
    .option('--session', 'allow this tool for the rest of the session')
    .option('--reason <text>', 'why, for the model and the record')
    .option('--show', 'only show the call, to its end')
  command<RmOptions>(
    'rm <session...>',
    'delete sessions that have ended; needs no daemon',
    async (context, options, ids) => {
      const { rmCommand } = await import('../commands/prune.ts')
      await rmCommand(context, ids, options)
    },
  ).option('--force', 'also sessions with an unfinished turn: cancel it first')
  command<PruneOptions>('prune', 'delete sessions that ended long ago; needs no daemon', async (context, options) => {
    const { pruneCommand } = await import('../commands/prune.ts')
    await pruneCommand(context, options)
  })
    .option(
      '--older-than <time>',
      'not used for this long: 30d, 12h, 45m (default: 30d, unless --keep is given)',
      timeSpan,
    )
    .option('--keep <count>', 'keep this many, those used last', wholeNumber)
    .option('--dry-run', 'only say what would be deleted')
  command<UninstallOptions>(
    'uninstall',
    'remove the state folder with every session in it, and end its runner',
    async (context, options) => {
      const { uninstallCommand } = await import('../commands/uninstall.ts')
      await uninstallCommand(context, options)
    },
  )
    .option('--yes', 'do not ask')
    .option('--config', 'also remove the configuration and the stored keys')
  command<TailOptions>(
    'tail <session>',
    "show a session's events and follow it",
    async (context, options, [id = '']) => {
      const { tailCommand } = await import('../commands/sessions.ts')
      await tailCommand(context, id, options)
    },
  )
    .option('--after <cursor>', 'only events after this one')
    .option('--no-follow', 'stop after the last event')
  command<ExplainOptions>(
    'explain [input]',
    'explain an error, a log, an exit code, a category or a turn',
    async (context, options, [input]) => {
      const { explainCommand } = await import('../commands/explain.ts')
      await explainCommand(context, input, options)
    },
  ).addOption(
    new Option('--boundary <boundary>', 'the boundary at which it happened').choices([...BOUNDARIES]).default('model'),
  )
}
