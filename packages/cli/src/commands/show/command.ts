/** `breakfall show`: flags, help and examples. */
import { command } from '../../command-line/command.ts'

export const SHOW = command({
  usage: 'show <id>',
  about: 'show a session or a turn; needs no daemon',
  examples: ['breakfall show 0198c2a4-91e0              a session or a turn, by its id or the first characters of it'],
  run: async (context, _options, [id = '']) => (await import('./show.ts')).showCommand(context, id),
})
