/** The commands and flags of daemons that share a store. */
import type { Command } from 'commander'
import type { StoreOptions } from '../commands/store.ts'
import type { Context } from '../context.ts'
import { milliseconds } from './flags.ts'

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
    .option('--drain-ms <ms>', 'when it stops: how long turns may come to the end of their step', milliseconds)
    .option('--fleet-key-file <file>', "the fleet's key, from which the tokens of runners are derived")
    .option('--hints-url <url>', 'a direct connection for hints, if --store is a pooler')
}

export function addFleetCommands(command: AddCommand): void {
  command<StoreOptions>(
    'store <action> [file]',
    'migrate, check, adopt, export or import a store',
    async (context, _options, args) => {
      const { storeCommand } = await import('../commands/store.ts')
      return storeCommand(context, args)
    },
  ).option('--store <url>', 'the shared store (default: [daemon] store, else the journal in the state folder)')
}
