/** Commands that show what a session's tools did and left running, and undo it: `output`, `processes`, `undo`, `diff`. */
import { Option } from 'commander'
import type { OutputOptions } from '../commands/output.ts'
import type { ProcessesOptions } from '../commands/processes.ts'
import type { DiffOptions, UndoOptions } from '../commands/undo.ts'
import { argument, collect } from './flags.ts'
import type { AddCommand } from './fleet-commands.ts'

export function addUndoCommands(command: AddCommand): void {
  command<OutputOptions>(
    'output <exec>',
    "print the whole output of a tool's command, including what the journal cut",
    async (context, options, [id = '']) => {
      const { outputCommand } = await import('../commands/output.ts')
      await outputCommand(context, id, options)
    },
  ).addOption(new Option('--stream <stream>', 'only this stream (default: both)').choices(['stdout', 'stderr']))
  const processes = command<ProcessesOptions>(
    'processes [action] [name]',
    'the background processes that sessions have started; stop one; needs no daemon',
    async (context, options, args) => {
      const { processesCommand } = await import('../commands/processes.ts')
      await processesCommand(context, options, args)
    },
  ).option('--session <id>', 'only those of this session')
  argument(processes, 'action', 'what to do (default: list)', ['list', 'stop'])
  argument(processes, 'name', "the process's name, or the id of its exec")
  command<UndoOptions>(
    'undo [id]',
    'restore files to before a turn: the last turn in this folder, or one named by session or turn; needs no daemon',
    async (context, options, [id]) => {
      const { undoCommand } = await import('../commands/undo.ts')
      await undoCommand(context, options, id)
    },
  )
    .option('--dry-run', 'only show what it would do')
    .option('--turn <turn>', 'back to before this turn')
    .option('--to <checkpoint>', 'back to this checkpoint')
    .option('--path <path>', 'only this file or folder (repeatable)', collect)
    .option('--force', 'also overwrite files that you or others have changed since; a safety checkpoint keeps them')
    .option('--redo', 'reverse the last undo')
    .option('--list', 'list the checkpoints')
  command<DiffOptions>(
    'diff [id]',
    'show what changed since before the last turn, or what one turn changed; needs no daemon',
    async (context, options, [id]) => {
      const { diffCommand } = await import('../commands/undo.ts')
      await diffCommand(context, options, id)
    },
  )
    .option('--turn <turn>', 'what this turn changed')
    .option('--from <checkpoint>', 'since this checkpoint')
    .option('--stat', 'only the names of the files')
}
