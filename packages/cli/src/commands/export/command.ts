/** `breakfall export`: flags, help and examples. */
import { Option } from 'commander'
import { command } from '../../command-line/command.ts'
import type { ExportOptions } from './export.ts'

export const EXPORT = command<ExportOptions>({
  usage: 'export <session>',
  about: 'a session as a bundle of JSON lines, for the console or a colleague; needs no daemon',
  examples: [
    'breakfall export 0198c2a4-91e0 --output bundle.ndjson',
    'breakfall export 0198c2a4-91e0 --redact text > bundle.ndjson',
  ],
  flags: (bundle) =>
    bundle
      .option('--output <file>', 'write it into this file, readable by you only, instead of stdout')
      .addOption(
        new Option('--redact <what>', 'text: without prompts, answers, commands and output').choices(['text']),
      ),
  run: async (context, options, [id = '']) => (await import('./export.ts')).exportCommand(context, id, options),
})
