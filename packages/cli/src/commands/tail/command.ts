/** `breakfall tail`: flags, help and examples. */
import { command } from '../../command-line/command.ts'
import type { TailOptions } from './tail.ts'

export const TAIL = command<TailOptions>({
  usage: 'tail <session>',
  about: "show a session's events and follow it",
  examples: ['breakfall tail 0198c2a4-91e0', 'breakfall tail 0198c2a4-91e0 --no-follow --json'],
  flags: (tail) =>
    tail.option('--after <cursor>', 'only events after this one').option('--no-follow', 'stop after the last event'),
  run: async (context, options, [id = '']) => (await import('./tail.ts')).tailCommand(context, id, options),
})
