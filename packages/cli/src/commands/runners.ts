/** `breakfall runners`: lists the runners that joined the fleet; drains or drops one. */
import { EXIT_CODES, Fault } from '@breakfall/faults'
import type { RunnerView } from '@breakfall/wire'
import type { Context } from '../context.ts'
import { oneShotClient, requireDaemon } from '../daemon/find.ts'
import { printable } from '../render/printable.ts'

export async function runnersCommand({ out, config }: Context, [action, named]: readonly string[]): Promise<number> {
  const { address } = await requireDaemon(config)
  const client = oneShotClient(address)
  const { runners } = await client.runners()
  if (action !== undefined && action !== 'list') {
    if (action !== 'drain' && action !== 'drop') throw usage(`"${action}" is no action; choose from list, drain, drop.`)
    const runner = await client.changeRunner(idOf(runners, named), action)
    if (out.json) out.result({ outcome: 'finished', runner })
    else out.line(`${runner.runnerId} ${DONE[action]}`)
    return EXIT_CODES.finished
  }
  if (out.json) {
    for (const runner of runners) out.data(runner)
    out.result({ outcome: 'finished', runners: runners.length })
    return EXIT_CODES.finished
  }
  if (runners.length === 0) out.line('no runner has joined; start one with: breakfall runner --join http://DAEMON:PORT')
  for (const runner of runners) out.line(lineOf(runner))
  return EXIT_CODES.finished
}

// ---- details ----

const DONE = {
  drain: 'is draining: no more sessions are placed there',
  drop: 'is declared lost: its sessions continue at other runners',
} as const

function lineOf({ runnerId, state, url, boxes, capacity, labels, lastSeen }: RunnerView): string {
  const wanted = labels.length === 0 ? '' : `  ${printable(labels.join(' '))}`
  return `${runnerId}  ${state.padEnd(8)}  ${boxes}/${capacity} boxes  ${printable(url)}  seen ${lastSeen}${wanted}`
}

/** The id, or the start of one. */
function idOf(runners: readonly RunnerView[], named = ''): string {
  const ids = runners.map(({ runnerId }) => runnerId)
  const found = ids.includes(named) ? [named] : ids.filter((id) => named !== '' && id.startsWith(named))
  const [id] = found
  if (id !== undefined && found.length === 1) return id
  throw usage(
    named === ''
      ? 'Name the runner; "breakfall runners" lists them.'
      : found.length === 0
        ? `No runner has the id ${named}; "breakfall runners" lists them.`
        : `${found.length} runners have ids that start with ${named}.`,
  )
}

const usage = (error: string): Fault => new Fault('invalid_request', { error })
