/** The programs that stay, and what keeps their state small: `up`, `open`, `runner`, `service`, `export`, `rm`, `prune`, `uninstall`. */
import { Option } from 'commander'
import type { ExportOptions } from '../../commands/export.ts'
import type { OpenOptions } from '../../commands/open.ts'
import type { PruneOptions, RmOptions } from '../../commands/prune.ts'
import type { RunnerOptions } from '../../commands/runner.ts'
import type { UninstallOptions } from '../../commands/uninstall.ts'
import type { UpOptions } from '../../commands/up.ts'
import { command, type CommandGroup } from '../command.ts'
import type { CommonOptions } from '../context.ts'
import {
  addModelFlags,
  addPolicyFlags,
  addRunnerFlags,
  boxCount,
  collect,
  milliseconds,
  portNumber,
  timeSpan,
  wholeNumber,
} from '../flags.ts'

export const KEEP_IT_RUNNING: CommandGroup = {
  heading: 'Keep it running:',
  commands: [
    command<UpOptions>({
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
      run: async (context, options) => (await import('../../commands/up.ts')).up(context, options),
    }),
    command<OpenOptions>({
      usage: 'open',
      about: "open the running daemon's console in your browser",
      examples: ['breakfall open', 'breakfall open --print                    the address, for another browser'],
      flags: (open) => open.option('--print', 'only print the address; it is valid once, for two minutes'),
      run: async (context, options) => (await import('../../commands/open.ts')).openCommand(context, options),
    }),
    command<RunnerOptions>({
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
            .option(
              '--advertise <url>',
              'the URL at which daemons reach this runner (default: the address it listens on)',
            )
            .option('--advertise-command <command...>', 'a command that prints the current URL')
            .option('--label <label>', 'what sessions can ask for (repeatable)', collect)
            .option('--capacity <count>', 'boxes that may run at once (default: 1000)', boxCount)
            .option('--stop-when-alone <ms>', 'end every command after this long without a daemon', milliseconds)
            .option('--enroll <code>', 'a code from "breakfall fleet enroll", for the first start')
            .option('--fleet-key-file <file>', "the fleet's key, if you trust this machine with it; replaces --enroll"),
        ),
      run: async (context, options) => (await import('../../commands/runner.ts')).runnerCommand(context, options),
    }),
    {
      name: 'service',
      about: 'run the daemon as a service',
      commands: [
        {
          usage: 'print',
          about: 'print a systemd unit for the daemon',
          examples: ['breakfall service print > ~/.config/systemd/user/breakfall.service'],
          flags: (print) =>
            print
              .option('--state-dir <dir>', 'where the daemon keeps sessions and journals')
              .option('--port <port>', "the daemon's port", portNumber),
          print: async (made) => (await import('../../commands/service.ts')).unitText(made.opts<CommonOptions>()),
        },
      ],
    },
    command<ExportOptions>({
      usage: 'export <session>',
      about: 'a session as a bundle of JSON lines, for the console or a colleague; needs no daemon',
      examples: [
        'breakfall export 0198c2a4-91e0 --output bundle.ndjson',
        'breakfall export 0198c2a4-91e0 --redact text > bundle.ndjson',
      ],
      flags: (bundle) =>
        bundle
          .option('--output <file>', 'write it into this file, readable by you only, instead of stdout')
          .addOption(
            new Option('--redact <what>', 'text: without prompts, answers, commands and output').choices(['text']),
          ),
      run: async (context, options, [id = '']) =>
        (await import('../../commands/export.ts')).exportCommand(context, id, options),
    }),
    command<RmOptions>({
      usage: 'rm <session...>',
      about: 'delete sessions that have ended; needs no daemon',
      examples: ['breakfall rm 0198c2a4-91e0 0198c2a5-03b1'],
      flags: (rm) => rm.option('--force', 'also sessions with an unfinished turn: cancel it first'),
      run: async (context, options, ids) => (await import('../../commands/prune.ts')).rmCommand(context, ids, options),
    }),
    command<PruneOptions>({
      usage: 'prune',
      about: 'delete sessions that ended long ago; needs no daemon',
      examples: [
        'breakfall prune --dry-run                 what is 30 days old',
        'breakfall prune --older-than 7d',
        'breakfall prune --keep 100                all but the 100 that were used last',
      ],
      flags: (prune) =>
        prune
          .option(
            '--older-than <time>',
            'not used for this long: 30d, 12h, 45m (default: 30d, unless --keep is given)',
            timeSpan,
          )
          .option('--keep <count>', 'keep this many, those used last', wholeNumber)
          .option('--dry-run', 'only say what would be deleted'),
      run: async (context, options) => (await import('../../commands/prune.ts')).pruneCommand(context, options),
    }),
    command<UninstallOptions>({
      usage: 'uninstall',
      about: 'remove the state folder with every session in it, and end its runner',
      examples: ['breakfall uninstall --yes                 the program itself stays: npm uninstall breakfall'],
      flags: (uninstall) =>
        uninstall.option('--yes', 'do not ask').option('--config', 'also remove the configuration and the stored keys'),
      run: async (context, options) => (await import('../../commands/uninstall.ts')).uninstallCommand(context, options),
    }),
  ],
}
