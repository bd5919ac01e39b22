/** `breakfall rm` and `breakfall prune`: delete sessions that have ended, with a daemon or without. */
import type { DaemonClient, Pruned } from '@breakfall/client'
import { Fault, isFault } from '@breakfall/faults'
import type { Context } from '../../command-line/context.ts'
import { findDaemon, oneShotClient } from '../../daemon/find.ts'
import { cmd } from '../../process/command-name.ts'
import { refuseUnreadable } from '../../process/state-folder.ts'
import { fullId, ifNotFound } from '../../sessions/lookup.ts'
import type { Output } from '../../terminal/output.ts'
import { bytesText, counted } from '../../text/amounts.ts'

export type RmOptions = {
  /** Also sessions with an unfinished turn, which is cancelled. */
  readonly force?: boolean
}

export type PruneOptions = { readonly olderThan?: number; readonly keep?: number; readonly dryRun?: boolean }

export async function rmCommand(
  context: Context,
  inputs: readonly string[],
  { force = false }: RmOptions,
): Promise<void> {
  await withDaemon(context, (client) => remove(client, inputs, force, context.out))
}

export async function pruneCommand(context: Context, options: PruneOptions): Promise<void> {
  const { olderThan: olderThanMs, keep, dryRun = false } = options
  await withDaemon(context, async (client) => {
    const pruned = await client.prune({ olderThanMs, keep, dryRun })
    if (context.out.json) context.out.result({ ...pruned, dryRun })
    else context.out.line(prunedLine(pruned, dryRun))
  })
}

/** Pure. */
export const prunedLine = ({ sessions, bytes }: Pruned, dryRun: boolean): string =>
  sessions === 0
    ? 'no session to delete'
    : `${dryRun ? 'would delete' : 'deleted'} ${counted(sessions, 'session')}, ${bytesText(bytes)} of journal`

// ---- details, in the order they are used above ----

/** The running daemon, or a temporary one. */
async function withDaemon(context: Context, act: (client: DaemonClient) => Promise<void>): Promise<void> {
  const { config } = context
  const found = await findDaemon(config)
  if (found !== undefined) return act(oneShotClient(found.address))
  refuseUnreadable(config.stateDir)
  const { withTemporaryDaemon } = await import('../../daemon/in-process.ts')
  await withTemporaryDaemon(config, act)
}

async function remove(client: DaemonClient, inputs: readonly string[], force: boolean, out: Output): Promise<void> {
  const ids: string[] = []
  for (const each of inputs) ids.push(await existing(client, each)) // all of them exist, or nothing is deleted
  const removed: string[] = []
  for (const id of new Set(ids)) {
    await client.deleteSession(id, { ifEnded: !force }).catch((thrown: unknown) => {
      throw withCancelAdvice(thrown, id, removed.length)
    })
    removed.push(id)
    if (!out.json) out.line(`deleted session ${id}`)
  }
  if (out.json) out.result({ sessions: removed.length, removed })
}

async function existing(client: DaemonClient, input: string): Promise<string> {
  const found = await client.session(await fullId(client, input)).catch(ifNotFound)
  if (found !== undefined) return found.id
  throw new Fault('not_found', { error: `No session has the id ${input}; nothing was deleted` })
}

function withCancelAdvice(thrown: unknown, id: string, count: number): unknown {
  if (!isFault(thrown) || thrown.category !== 'session_busy') return thrown
  return new Fault('session_busy', {
    message: {
      happened: thrown.report.message?.happened ?? thrown.error,
      action:
        count === 0
          ? 'Nothing was deleted.'
          : `${counted(count, 'session')} before it ${count === 1 ? 'was' : 'were'} deleted.`,
      advice: `Cancel the turn first (${cmd('cancel')} ${id}), or do both at once: ${cmd('rm')} --force ${id}`,
    },
    turnId: thrown.report.turnId,
  })
}
