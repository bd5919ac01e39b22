/** `breakfall resume` and `breakfall cancel`: flags, help and examples. */
import { command } from '../../command-line/command.ts'

export const RESUME = command({
  usage: 'resume [id]',
  about:
    "resume a parked turn or retry now, by its id or its session; without an id, this folder's only one, or list what waits",
  examples: ['breakfall resume 0198c2a4-91e0'],
  run: async (context, _options, [id]) => (await import('./cancel-resume.ts')).resumeCommand(context, id),
})

export const CANCEL = command<{ readonly reason?: string }>({
  usage: 'cancel <id>',
  about: 'cancel a turn, by its id or its session; needs no daemon',
  examples: ['breakfall cancel 0198c2a4-91e0 --reason "wrong branch"'],
  flags: (cancel) => cancel.option('--reason <text>', 'why, for the record'),
  run: async (context, { reason }, [id = '']) =>
    (await import('./cancel-resume.ts')).cancelCommand(context, id, reason),
})
