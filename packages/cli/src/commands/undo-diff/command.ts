/** `breakfall undo` and `breakfall diff`: flags, help and examples. */
import { command } from '../../command-line/command.ts'
import { collect } from '../../command-line/flags.ts'
import type { DiffOptions, UndoOptions } from './undo-diff.ts'

export const UNDO = command<UndoOptions>({
  usage: 'undo [id]',
  about:
    'restore files to before a turn: the last turn in this folder, or one named by session or turn; needs no daemon',
  examples: [
    'breakfall undo --dry-run                  what undo of the last turn in this folder would change',
    'breakfall undo',
    'breakfall undo --redo                     reverse the undo',
    'breakfall undo --path src/app.ts          only this file',
    'breakfall undo 0198c2a4-91e0 --list       the checkpoints of a session',
  ],
  flags: (undo) =>
    undo
      .option('--dry-run', 'only show what it would do')
      .option('--turn <turn>', 'back to before this turn')
      .option('--to <checkpoint>', 'back to this checkpoint')
      .option('--path <path>', 'only this file or folder (repeatable)', collect)
      .option('--force', 'also overwrite files that you or others have changed since; a safety checkpoint keeps them')
      .option('--redo', 'reverse the last undo')
      .option('--list', 'list the checkpoints'),
  run: async (context, options, [id]) => (await import('./undo-diff.ts')).undoCommand(context, options, id),
})

export const DIFF = command<DiffOptions>({
  usage: 'diff [id]',
  about: 'show what changed since before the last turn, or what one turn changed; needs no daemon',
  examples: ['breakfall diff', 'breakfall diff 0198c2a4-91e0 --stat       a session, or one turn'],
  flags: (diff) =>
    diff
      .option('--turn <turn>', 'what this turn changed')
      .option('--from <checkpoint>', 'since this checkpoint')
      .option('--stat', 'only the names of the files'),
  run: async (context, options, [id]) => (await import('./undo-diff.ts')).diffCommand(context, options, id),
})
