/** `breakfall daemons`: lists the daemons that share the store, and drains one. */
import { EXIT_CODES } from '@breakfall/faults'
import type { DaemonList } from '@breakfall/wire'
import type { Context } from '../command-line/context.ts'
import { usageFault } from '../command-line/usage-error.ts'
import { cmd } from '../process/command-name.ts'
import type { Output } from '../terminal/output.ts'
import { printable } from '../text/printable.ts'
import { tableOf } from '../text/table.ts'
import { command } from '../command-line/command.ts'

export const DAEMONS = command({
  usage: 'daemons [action] [name]',
  about: 'the daemons that share the store; drain one',
  examples: ['breakfall daemons', 'breakfall daemons drain daemon-1           it hands over its sessions'],
  args: {
    action: { about: 'what to do (default: list)', choices: ['list', 'drain'] },
    name: { about: "the daemon's name, or its id or the start of it" },
  },
  run: (context, _options, args) => listOrDrain(context, args),
})

// ---- details ----

type DaemonView = DaemonList['daemons'][number]

async function listOrDrain({ out, config }: Context, [action, named]: readonly string[]): Promise<number> {
  const { oneShotClient, requireDaemon } = await import('../daemon/find.ts')
  const { address } = await requireDaemon(config)
  const client = oneShotClient(address)
  const { daemons } = await client.daemons()
  if (action === 'drain') {
    const { bootId, name } = daemonOf(daemons, named)
    await client.drainDaemon(bootId)
    if (out.json) out.result({ outcome: 'finished', bootId })
    else out.line(`${name} hands over its sessions, and claims no more`)
    return EXIT_CODES.finished
  }
  if (out.json) {
    for (const daemon of daemons) out.data(daemon)
    out.result({ outcome: 'finished', daemons: daemons.length })
    return EXIT_CODES.finished
  }
  if (daemons.length === 0) out.line('this daemon shares its store with no other; see docs/concepts/fleet.md')
  else for (const line of daemonTable(daemons, out)) out.line(line)
  const hashes = new Set(daemons.filter(({ state }) => state !== 'dead').map(({ configHash }) => configHash))
  if (hashes.size > 1) out.say('These daemons have different configurations: give all the same one.')
  return EXIT_CODES.finished
}

// ---- details, in the order they are used above ----

const HEAD = ['NAME', 'STATE', 'SESSIONS', 'URL', 'VERSION', 'ID'] as const

/** Finds a daemon by its boot id, the start of that id, or its name if it is alive. */
function daemonOf(daemons: readonly DaemonView[], named = ''): DaemonView {
  const living = daemons.filter(({ state }) => state !== 'dead')
  const [daemon, ...others] = living.filter(
    ({ bootId, name }) => named !== '' && (bootId.startsWith(named) || name === named),
  )
  if (daemon !== undefined && others.length === 0) return daemon
  throw usageFault(`Name one living daemon by its id or its name; "${cmd('daemons')}" lists them.`)
}

function daemonTable(daemons: readonly DaemonView[], out: Output): readonly string[] {
  const rows = daemons.map(({ bootId, name, state, held, url, version }) => [
    printable(name),
    state,
    String(held),
    url ?? '-',
    version,
    bootId,
  ])
  const [head = '', ...lines] = tableOf([HEAD, ...rows])
  return [out.style('dim', head), ...lines]
}
