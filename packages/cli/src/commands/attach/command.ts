/** `breakfall attach`: help and examples. */
import { command, EXIT_CODES_HELP } from '../../command-line/command.ts'

export const ATTACH = command({
  usage: 'attach [id]',
  about: "follow a turn live, by its id or its session; without an id, this folder's only one, or list what runs",
  examples: [
    "breakfall attach                          this folder's turn; Ctrl-C leaves it running",
    'breakfall attach 0198c2a4-91e0',
    'breakfall attach 0198c2a4-91e0 --json | tail -1   the result, for a program',
  ],
  moreHelp: EXIT_CODES_HELP,
  resultFields: { turnId: null, text: '', fault: null, faultsSurvived: 0 },
  run: async (context, _options, [id]) => (await import('./attach.ts')).attachCommand(context, id),
})
