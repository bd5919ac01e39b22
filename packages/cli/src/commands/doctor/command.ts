/** `breakfall doctor`: flags, help and examples. */
import { command } from '../../command-line/command.ts'
import type { DoctorOptions } from './doctor.ts'

const DOCTOR_HELP = `
Exit codes:
  0 ready   1 problems to fix   2 usage, or a wrong configuration   130 cancelled
`

export const DOCTOR = command<DoctorOptions>({
  usage: 'doctor',
  about: 'check this machine, and say how to fix each problem',
  examples: [
    'breakfall doctor',
    'breakfall doctor --json',
    'breakfall doctor --start-model           start the model server of [model.serve] once, and stop it again',
  ],
  moreHelp: DOCTOR_HELP,
  survivesBadConfig: true,
  flags: (doctor) =>
    doctor.option(
      '--start-model',
      'also start each model server that Breakfall serves once, and say how long it loads',
    ),
  run: async (context, options) => (await import('./doctor.ts')).doctor(context, options),
})
