/** The commands and flags of daemons that share a store. */
import { type Command, Option } from 'commander'
import { flagNameOf, RUNNER_FLAGS, type RunnerFlag } from '@breakfall/runner/flags'
import type { StoreOptions } from '../commands/store.ts'
import type { Context } from '../context.ts'
import type { EnrollOptions } from '../commands/enroll.ts'
import { argument, boxCount, collect, milliseconds, portNumber } from './flags.ts'

export type AddCommand = <O extends object>(
  spec: string,
  about: string,
  act: (context: Context, options: O, args: readonly string[]) => Promise<number | void>,
) => Command

export function addStoreFlags(up: Command): Command {
  return up
    .option('--store <url>', 'share sessions with other daemons: postgres://USER@HOST/DATABASE')
    .option('--name <name>', "this daemon's name in the fleet (default: the host's name)")
    .option('--lease-ms <ms>', 'how long other daemons wait for this one before they take over', milliseconds)
    .option('--drain-ms <ms>', 'when it stops or drains: how long turns may take to finish their step', milliseconds)
    .option('--fleet-key-file <file>', "the fleet's key, from which the tokens of runners are derived")
    .option('--hints-url <url>', 'a direct connection for hints, if --store is a pooler')
}

/** To join a fleet, and those that every runner has. */
export function addRunnerFlags(runner: Command): void {
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
    .option('--fleet-key-file <file>', "the fleet's key, if you trust this machine with it; replaces --enroll")
  const table: readonly (readonly [string, RunnerFlag])[] = Object.entries(RUNNER_FLAGS)
  for (const [name, { word, read, choices, initial, about }] of table) {
    const option = new Option(`--${flagNameOf(name)}${word === undefined ? '' : ` <${word}>`}`, about).default(initial)
    if (read === 'list') option.argParser(collect)
    else if (read !== undefined) option.argParser(READERS[read])
    if (choices !== undefined) option.choices(choices)
    runner.addOption(option)
  }
}

const READERS = { port: portNumber, milliseconds, count: boxCount }

export function addFleetCommands(command: AddCommand): void {
  const daemons = command<object>(
    'daemons [action] [name]',
    'the daemons that share the store; drain one',
    async (context, _options, args) => {
      const { daemonsCommand } = await import('../commands/daemons.ts')
      return daemonsCommand(context, args)
    },
  )
  argument(daemons, 'action', 'what to do (default: list)', ['list', 'drain'])
  argument(daemons, 'name', "the daemon's name, or its id or the start of it")
  const runners = command<object>(
    'runners [action] [id]',
    'the runners that joined; drain or drop one',
    async (context, _options, args) => {
      const { runnersCommand } = await import('../commands/runners.ts')
      return runnersCommand(context, args)
    },
  )
  argument(runners, 'action', 'what to do (default: list)', ['list', 'drain', 'drop'])
  argument(runners, 'id', "the runner's id, or the start of it")
  const fleet = command<EnrollOptions>(
    'fleet <action>',
    'enroll: print a code with which a runner joins',
    async (context, options) => {
      const { enrollCommand } = await import('../commands/enroll.ts')
      return enrollCommand(context, options)
    },
  )
    .option('--fleet-key-file <file>', "the fleet's key (default: [fleet] keyFile)")
    .option('--valid-ms <ms>', 'how long the code is valid (default: an hour)', milliseconds)
  argument(fleet, 'action', 'what to do', ['enroll'])
  const store = command<StoreOptions>(
    'store <action> [file]',
    'migrate, check, adopt, export or import a store',
    async (context, _options, args) => {
      const { storeCommand } = await import('../commands/store.ts')
      return storeCommand(context, args)
    },
  ).option('--store <url>', 'the shared store (default: [daemon] store, else the journal in the state folder)')
  argument(store, 'action', 'what to do', ['migrate', 'check', 'adopt', 'export', 'import'])
  argument(store, 'file', 'the file to export to or to import from (default: standard output or input)')
}
