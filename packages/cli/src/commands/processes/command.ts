/** `breakfall processes`: flags, help and examples. */
import { command } from '../../command-line/command.ts'
import type { ProcessesOptions } from './processes.ts'

export const PROCESSES = command<ProcessesOptions>({
  usage: 'processes [action] [name]',
  about: 'the background processes that sessions have started; stop one; needs no daemon',
  examples: [
    'breakfall processes',
    'breakfall processes stop web              by its name, or by the id of its exec',
    'breakfall processes stop web --session 0198c2a4-91e0',
  ],
  args: {
    action: { about: 'what to do (default: list)', choices: ['list', 'stop'] },
    name: { about: "the process's name, or the id of its exec" },
  },
  flags: (processes) => processes.option('--session <id>', 'only those of this session'),
  run: async (...given) => (await import('./processes.ts')).processesCommand(...given),
})
