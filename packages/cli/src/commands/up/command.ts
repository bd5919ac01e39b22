/** `breakfall up`: flags, help and examples. */
import { Option } from 'commander'
import { command } from '../../command-line/command.ts'
import { addModelFlags, addPolicyFlags, collect, milliseconds, portNumber } from '../../command-line/flags.ts'
import type { UpOptions } from './up.ts'

export const UP = command<UpOptions>({
  usage: 'up',
  about: 'run the daemon, and a runner unless another one is configured',
  examples: [
    'breakfall up --allow-workspace ~/projects',
    'breakfall up --resume none                continue no unfinished turn until you ask for it',
    'breakfall up --open                       with the console in your browser',
    'breakfall up --port 4711 --json',
  ],
  flags: (up) =>
    addPolicyFlags(
      addModelFlags(up)
        .option('--store <url>', 'share sessions with other daemons: postgres://USER@HOST/DATABASE')
        .option('--name <name>', "this daemon's name in the fleet (default: the host's name)")
        .option('--lease-ms <ms>', 'how long other daemons wait for this one before they take over', milliseconds)
        .option(
          '--drain-ms <ms>',
          'when it stops or drains: how long turns may take to finish their step',
          milliseconds,
        )
        .option('--fleet-key-file <file>', "the fleet's key, from which the tokens of runners are derived")
        .option('--hints-url <url>', 'a direct connection for hints, if --store is a pooler')
        .option('--port <port>', 'the port; 0 for a free one (default: that of the last start)', portNumber)
        .option('--host <address>', 'the address to bind', '127.0.0.1')
        .option(
          '--allow-host <name>',
          'a host name that requests may use, such as that of a proxy (repeatable)',
          collect,
        )
        .option('--runner <url>', 'use this runner instead of one on this machine')
        .option('--runner-token-file <file>', "that runner's token")
        .option('--allow-workspace <dir>', 'a folder that boxes may use as workspace (repeatable)', collect)
        .addOption(new Option('--allow-isolation <level>', 'allow commands without a sandbox').choices(['process']))
        .addOption(
          new Option('--resume <which>', 'which unfinished turns to continue at the start')
            .choices(['interrupted', 'all', 'none'])
            .default('interrupted'),
        )
        .option('--gateway', 'also run a gateway to the configured model server; the console shows its streams')
        .option('--open', 'open the console in your browser, or print its address')
        .option('--quiet', 'log only parked turns and problems')
        .addOption(new Option('--demo', 'take faults from the process that started it').hideHelp())
        .addOption(new Option('--until-input-ends', 'end when standard input closes').hideHelp())
        .addOption(new Option('--until-idle', 'end when standard input closes and the work is done').hideHelp()),
    ),
  run: async (context, options) => (await import('./up.ts')).up(context, options),
})
