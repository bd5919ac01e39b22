/** `breakfall runner`: flags, help and examples. */
import { command } from '../../command-line/command.ts'
import { addRunnerFlags, boxCount, collect, milliseconds } from '../../command-line/flags.ts'
import type { RunnerOptions } from './runner.ts'

export const RUNNER = command<RunnerOptions>({
  usage: 'runner',
  about: 'run a runner: boxes and execs over HTTP',
  examples: [
    'breakfall runner --port 7411 --token-file ./token --allow-workspace /srv/projects',
    'breakfall runner --port 0 --json',
    'breakfall runner --join http://daemons:7400 --label gpu --enroll CODE',
  ],
  keeps: 'its boxes and its token',
  flags: (runner) =>
    addRunnerFlags(
      runner
        .option(
          '--join <url>',
          'register with the daemons of a fleet, or with a load balancer in front of them (repeatable)',
          collect,
        )
        .option('--advertise <url>', 'the URL at which daemons reach this runner (default: the address it listens on)')
        .option('--advertise-command <command...>', 'a command that prints the current URL')
        .option('--label <label>', 'what sessions can ask for (repeatable)', collect)
        .option('--capacity <count>', 'boxes that may run at once (default: 1000)', boxCount)
        .option('--stop-when-alone <ms>', 'end every command after this long without a daemon', milliseconds)
        .option('--enroll <code>', 'a code from "breakfall fleet enroll", for the first start')
        .option('--fleet-key-file <file>', "the fleet's key, if you trust this machine with it; replaces --enroll"),
    ),
  run: async (context, options) => (await import('./runner.ts')).runnerCommand(context, options),
})
