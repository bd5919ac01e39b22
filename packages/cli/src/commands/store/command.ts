/** `breakfall store`: flags, help and examples. */
import { command } from '../../command-line/command.ts'
import type { StoreOptions } from './store.ts'

export const STORE = command<StoreOptions>({
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
    store.option('--store <url>', 'the shared store (default: [daemon] store, else the journal in the state folder)'),
  run: async (context, _options, args) => (await import('./store.ts')).storeCommand(context, args),
})
