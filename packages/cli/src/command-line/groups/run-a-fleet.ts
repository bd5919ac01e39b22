/** What operators of daemons that share a store use: `fleet`, `daemons`, `runners`, `store`. */
import type { EnrollOptions } from '../../commands/enroll.ts'
import type { StoreOptions } from '../../commands/store.ts'
import { command, type CommandGroup } from '../command.ts'
import { milliseconds } from '../flags.ts'

export const RUN_A_FLEET: CommandGroup = {
  heading: 'Run a fleet:',
  commands: [
    command<EnrollOptions>({
      usage: 'fleet <action>',
      about: 'enroll: print a code with which a runner joins',
      examples: ['breakfall fleet enroll                    a code for: breakfall runner --join URL --enroll CODE'],
      args: { action: { about: 'what to do', choices: ['enroll'] } },
      flags: (fleet) =>
        fleet
          .option('--fleet-key-file <file>', "the fleet's key (default: [fleet] keyFile)")
          .option('--valid-ms <ms>', 'how long the code is valid (default: an hour)', milliseconds),
      run: async (context, options) => (await import('../../commands/enroll.ts')).enrollCommand(context, options),
    }),
    command({
      usage: 'daemons [action] [name]',
      about: 'the daemons that share the store; drain one',
      examples: ['breakfall daemons', 'breakfall daemons drain daemon-1           it hands over its sessions'],
      args: {
        action: { about: 'what to do (default: list)', choices: ['list', 'drain'] },
        name: { about: "the daemon's name, or its id or the start of it" },
      },
      run: async (context, _options, args) => (await import('../../commands/daemons.ts')).daemonsCommand(context, args),
    }),
    command({
      usage: 'runners [action] [id]',
      about: 'the runners that joined; drain or drop one',
      examples: [
        'breakfall runners',
        'breakfall runners drain 0198c2a4-91e0       no more sessions are placed there',
        'breakfall runners drop 0198c2a4-91e0        declare it lost: its sessions move to other runners',
      ],
      args: {
        action: { about: 'what to do (default: list)', choices: ['list', 'drain', 'drop'] },
        id: { about: "the runner's id, or the start of it" },
      },
      run: async (context, _options, args) => (await import('../../commands/runners.ts')).runnersCommand(context, args),
    }),
    command<StoreOptions>({
      usage: 'store <action> [file]',
      about: 'migrate, check, adopt, export or import a store',
      examples: [
        'breakfall store migrate --store URL       creates the tables in a database, or updates them',
        'breakfall store export sessions.jsonl     all sessions of the state folder; no daemon may run on it',
        'breakfall store import sessions.jsonl --store URL    puts them into the database',
        'breakfall store check                     compares every event of every session with its hash',
        'breakfall store adopt --store URL         lets daemons use a restored copy of a database',
      ],
      args: {
        action: { about: 'what to do', choices: ['migrate', 'check', 'adopt', 'export', 'import'] },
        file: { about: 'the file to export to or to import from (default: standard output or input)' },
      },
      flags: (store) =>
        store.option(
          '--store <url>',
          'the shared store (default: [daemon] store, else the journal in the state folder)',
        ),
      run: async (context, _options, args) => (await import('../../commands/store.ts')).storeCommand(context, args),
    }),
  ],
}
