/** `breakfall config`: `show` and `example`: flags, help and examples. */
import { command, type CommandFamily } from '../../command-line/command.ts'

export const CONFIG: CommandFamily = {
  name: 'config',
  about: 'show the configuration',
  commands: [
    command<{ readonly origin?: boolean }>({
      usage: 'show',
      about: 'show what is set',
      examples: ['breakfall config show --origin           what is set, where, and which model a run would use'],
      keeps: null,
      flags: (show) => show.option('--origin', 'and its origin'),
      run: async (context, options) => (await import('./config.ts')).configCommand(context, options),
    }),
    {
      usage: 'example',
      about: 'print a commented config file to start from',
      examples: [
        'breakfall config example                 print it',
        'breakfall config example --write         write it as your config file; never overwrites one',
      ],
      flags: (example) => example.option('--write', 'write it as your config file, unless you have one'),
      print: async (made) => (await import('./example.ts')).exampleText(made.opts<{ readonly write?: boolean }>()),
    },
  ],
}
