/** `breakfall output`: flags, help and examples. */
import { Option } from 'commander'
import { command } from '../../command-line/command.ts'
import type { OutputOptions } from './output.ts'

export const OUTPUT = command<OutputOptions>({
  usage: 'output <exec>',
  about: "print the whole output of a tool's command, including what the journal cut",
  examples: ['breakfall output EXEC > build.log          EXEC: the execId of a tool-call event'],
  flags: (output) =>
    output.addOption(new Option('--stream <stream>', 'only this stream (default: both)').choices(['stdout', 'stderr'])),
  run: async (context, options, [id = '']) => (await import('./output.ts')).outputCommand(context, id, options),
})
