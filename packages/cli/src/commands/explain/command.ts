/** `breakfall explain`: flags, help and examples. */
import { Option } from 'commander'
import { BOUNDARIES } from '@breakfall/faults'
import { command } from '../../command-line/command.ts'
import type { ExplainOptions } from './explain.ts'

export const EXPLAIN = command<ExplainOptions>({
  usage: 'explain [input]',
  about: 'explain an error, a log, an exit code, a category or a turn',
  examples: [
    'some-command 2>&1 | breakfall explain -',
    'breakfall explain build.log',
    'breakfall explain "read ECONNRESET"',
    'breakfall explain 137                     an exit code',
    'breakfall explain model_stream_stalled    a category',
    'breakfall explain 0198c2a4-91e0           a turn, or the last turn of a session',
  ],
  flags: (explain) =>
    explain.addOption(
      // Not set here: without the flag, a text that names another server is not about the model's.
      new Option('--boundary <boundary>', 'the boundary at which it happened (default: "model")').choices([
        ...BOUNDARIES,
      ]),
    ),
  run: async (context, options, [input]) => (await import('./explain.ts')).explainCommand(context, input, options),
})
