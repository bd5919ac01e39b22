/** What reads: `sessions`, `show`, `tail`, `output`, `processes`, `explain`, `doctor`, `demo`. */
import { Option } from 'commander'
import { BOUNDARIES } from '@breakfall/faults'
import { SESSION_FILTERS } from '@breakfall/wire'
import type { DemoOptions } from '../../commands/demo.ts'
import type { DoctorOptions } from '../../commands/doctor.ts'
import type { ExplainOptions } from '../../commands/explain.ts'
import type { OutputOptions } from '../../commands/output.ts'
import type { ProcessesOptions } from '../../commands/processes.ts'
import type { SessionsOptions, TailOptions } from '../../commands/sessions.ts'
import { command, type CommandGroup } from '../command.ts'
import { isolationFlag, portNumber, positive } from '../flags.ts'

const DOCTOR_HELP = `
Exit codes:
  0 ready   1 problems to fix   2 usage, or a wrong configuration   130 cancelled
`

export const SEE_WHAT_HAPPENED: CommandGroup = {
  heading: 'See what happened:',
  commands: [
    command<SessionsOptions>({
      usage: 'sessions',
      about: 'list the sessions; needs no daemon',
      examples: [
        'breakfall sessions',
        'breakfall sessions --here --state failed,parked',
        'breakfall sessions --search parser --json',
      ],
      flags: (sessions) =>
        sessions
          .option('--state <states>', `only those in these states, separated by commas: ${SESSION_FILTERS.join(', ')}`)
          .option(
            '--search <text>',
            'only those with this text in title, prompt or folder, or with this start of the id',
          )
          .option('--here', 'only those of the current folder')
          .option('--limit <count>', 'at most this many (default: 50, and all with --json)', positive)
          .option('--all', 'all of them')
          .option('--cursor <id>', 'those older than this session'),
      run: async (context, options) => (await import('../../commands/sessions.ts')).sessionsCommand(context, options),
    }),
    command({
      usage: 'show <id>',
      about: 'show a session or a turn; needs no daemon',
      examples: [
        'breakfall show 0198c2a4-91e0              a session or a turn, by its id or the first characters of it',
      ],
      run: async (context, _options, [id = '']) =>
        (await import('../../commands/sessions.ts')).showCommand(context, id),
    }),
    command<TailOptions>({
      usage: 'tail <session>',
      about: "show a session's events and follow it",
      examples: ['breakfall tail 0198c2a4-91e0', 'breakfall tail 0198c2a4-91e0 --no-follow --json'],
      flags: (tail) =>
        tail
          .option('--after <cursor>', 'only events after this one')
          .option('--no-follow', 'stop after the last event'),
      run: async (context, options, [id = '']) =>
        (await import('../../commands/sessions.ts')).tailCommand(context, id, options),
    }),
    command<OutputOptions>({
      usage: 'output <exec>',
      about: "print the whole output of a tool's command, including what the journal cut",
      examples: ['breakfall output EXEC > build.log          EXEC: the execId of a tool-call event'],
      flags: (output) =>
        output.addOption(
          new Option('--stream <stream>', 'only this stream (default: both)').choices(['stdout', 'stderr']),
        ),
      run: async (context, options, [id = '']) =>
        (await import('../../commands/output.ts')).outputCommand(context, id, options),
    }),
    command<ProcessesOptions>({
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
      run: async (...given) => (await import('../../commands/processes.ts')).processesCommand(...given),
    }),
    command<ExplainOptions>({
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
          new Option('--boundary <boundary>', 'the boundary at which it happened')
            .choices([...BOUNDARIES])
            .default('model'),
        ),
      run: async (context, options, [input]) =>
        (await import('../../commands/explain.ts')).explainCommand(context, input, options),
    }),
    command<DoctorOptions>({
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
      run: async (context, options) => (await import('../../commands/doctor.ts')).doctor(context, options),
    }),
    command<DemoOptions>({
      usage: 'demo',
      about: 'break things and watch them survive: the console, a scripted model, no key',
      examples: ['breakfall demo', 'breakfall demo --plan "rate=0.3"          break a third of all answers'],
      keeps: null,
      flags: (demo) =>
        demo
          .option('--port <port>', 'the port of the console (default: a free one)', portNumber)
          .option('--print', 'only print the address of the console')
          .option('--plan <plan>', 'faults from the start, as for "breakfall chaos" (default: none)')
          .addOption(isolationFlag('process: run commands without a sandbox (default: bwrap)')),
      run: async (context, options) => (await import('../../commands/demo.ts')).demoCommand(context, options),
    }),
  ],
}
