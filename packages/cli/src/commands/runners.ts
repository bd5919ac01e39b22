/** `breakfall runners`: lists the runners that joined the fleet; drains or drops one. */
import { EXIT_CODES } from '@breakfall/faults'
import type { RunnerView } from '@breakfall/wire'
import type { Context } from '../command-line/context.ts'
import { usageFault } from '../command-line/usage-error.ts'
import { cmd } from '../process/command-name.ts'
import type { Output } from '../terminal/output.ts'
import { utcTime } from '../text/amounts.ts'
import { printable } from '../text/printable.ts'
import { tableOf } from '../text/table.ts'
import { command } from '../command-line/command.ts'

export const RUNNERS = command({
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
  run: (context, _options, args) => listOrChange(context, args),
})

// ---- details ----

async function listOrChange({ out, config }: Context, [action, named]: readonly string[]): Promise<number> {
  const { oneShotClient, requireDaemon } = await import('../daemon/find.ts')
  const { address } = await requireDaemon(config)
  const client = oneShotClient(address)
  const { runners } = await client.runners()
  if (action === 'drain' || action === 'drop') {
    const runnerId = idOf(runners, named)
    const before = runners.find((each) => each.runnerId === runnerId)
    const runner = await client.changeRunner(runnerId, action)
    if (out.json) out.result({ outcome: 'finished', runner })
    else out.line(`${runner.runnerId} ${DONE[action]}`)
    if (action === 'drop' && before !== undefined && before.state !== 'lost' && isRecent(before)) out.say(STILL_THERE)
    return EXIT_CODES.finished
  }
  if (out.json) {
    for (const runner of runners) out.data(runner)
    out.result({ outcome: 'finished', runners: runners.length })
    return EXIT_CODES.finished
  }
  if (runners.length === 0) out.line(`no runner has joined; start one with: ${cmd('runner')} --join http://DAEMON:PORT`)
  else for (const line of runnerTable(runners, out)) out.line(line)
  return EXIT_CODES.finished
}

// ---- details ----

const DONE = {
  drain: 'is draining: no more sessions are placed there',
  drop: 'is declared lost: its sessions continue at other runners',
} as const

const STILL_THERE =
  'It registered less than half a minute ago. If it still runs, it joins again in a few seconds, and sessions that have not moved by then stay there: stop it first.'

const isRecent = ({ lastSeen }: RunnerView): boolean => Date.now() - Date.parse(lastSeen) < 30_000

const HEAD = ['RUNNER', 'STATE', 'BOXES', 'URL', 'SEEN', 'LABELS'] as const

function runnerTable(runners: readonly RunnerView[], out: Output): readonly string[] {
  const rows = runners.map(({ runnerId, state, url, boxes, capacity, labels, lastSeen }) => [
    runnerId,
    state,
    `${boxes} of ${capacity}`,
    printable(url),
    utcTime(lastSeen),
    printable(labels.join(' ')),
  ])
  const [head = '', ...lines] = tableOf([HEAD, ...rows])
  return [out.style('dim', head), ...lines]
}

/** The id, or the start of one. */
function idOf(runners: readonly RunnerView[], named = ''): string {
  const ids = runners.map(({ runnerId }) => runnerId)
  const found = ids.includes(named) ? [named] : ids.filter((id) => named !== '' && id.startsWith(named))
  const [id] = found
  if (id !== undefined && found.length === 1) return id
  throw usageFault(
    named === ''
      ? `Name the runner; "${cmd('runners')}" lists them.`
      : found.length === 0
        ? `No runner has the id ${named}; "${cmd('runners')}" lists them.`
        : `${found.length} runners have ids that start with ${named}.`,
  )
}
