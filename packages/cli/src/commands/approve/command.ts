/** `breakfall approve`: flags, help and examples. */
import { command } from '../../command-line/command.ts'
import { collect } from '../../command-line/flags.ts'
import type { ApproveOptions } from './approve.ts'

export const APPROVE = command<ApproveOptions>({
  usage: 'approve [id]',
  about: 'allow or deny the tool call that a turn waits with, or answer its server; without an id, list what waits',
  examples: [
    'breakfall approve                         what waits for you',
    'breakfall approve 0198c2a4-91e0',
    'breakfall approve 0198c2a4-91e0 --value account=work',
    'breakfall approve 0198c2a4-91e0 --deny --reason "use the staging server"',
  ],
  flags: (approve) =>
    approve
      .option('--deny', 'deny it')
      .option('--session', 'allow this tool for the rest of the session')
      .option('--reason <text>', 'why, for the model and the record')
      .option('--value <field=value>', "the answer to the question of the call's server (repeatable)", collect)
      .option('--show', 'only show the call, to its end'),
  run: async (context, options, [id]) => (await import('./approve.ts')).approveCommand(context, options, id),
})
