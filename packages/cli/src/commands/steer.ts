/** `breakfall cancel` and `breakfall resume`. */
import type { DaemonClient, SessionViewer } from '@breakfall/client'
import { isTerminal, type SessionEvent, type Turn } from '@breakfall/wire'
import type { Context } from '../context.ts'
import { findViewer, oneShotClient, requireDaemon } from '../daemon/find.ts'
import type { Output } from '../render/output.ts'
import { KeyBringer } from '../run/brought-model.ts'
import { isOver, showTurn, turnFor } from './sessions.ts'

/** Asks the running daemon. If there is none, a temporary one cancels what an earlier daemon left. */
export async function cancelCommand({ config, out }: Context, id: string, reason: string | undefined): Promise<void> {
  const found = await findViewer(config, '')
  if (found.kind === 'live') return cancel(found.viewer, id, reason, out)
  const turn = await turnFor(found.viewer, id) // reports an unknown id without starting a daemon
  const { withTemporaryDaemon } = await import('../daemon/in-process.ts')
  await withTemporaryDaemon(config, (client) => cancel(client, turn.id, reason, out))
}

export async function resumeCommand({ config, out }: Context, id: string): Promise<void> {
  const { address } = await requireDaemon(config, 'Or continue it in its folder: breakfall run --continue')
  const client = oneShotClient(address)
  await resume(client, id, out, (turn) => new KeyBringer(config).bring(client, turn))
}

type Client = SessionViewer & Pick<DaemonClient, 'cancel' | 'resume'>

export async function cancel(client: Client, id: string, reason: string | undefined, out: Output): Promise<void> {
  const turn = await turnFor(client, id)
  const { lastSeq } = await client.session(turn.sessionId)
  const cancelled = await client.cancel(turn.id, reason)
  const ended = isOver(cancelled) ? cancelled : await turnAfter(client, turn, lastSeq, isTerminal)
  showTurn(ended, out, 'the cancel was accepted; the turn is still ending')
}

/** `bringKey`: a daemon that restarted has forgotten the key, and this terminal may have it. */
export async function resume(
  client: Client,
  id: string,
  out: Output,
  bringKey: (turn: Turn) => Promise<unknown> = () => Promise.resolve(),
): Promise<void> {
  const turn = await turnFor(client, id)
  if (turn.parked !== null) await bringKey(turn)
  const { lastSeq } = await client.session(turn.sessionId)
  await client.resume(turn.id)
  showTurn(await turnAfter(client, turn, lastSeq, ({ type }) => type === 'resumed'), out)
}

// ---- details ----

const SETTLE_MS = 1_000

/** The turn after the expected event, or after a second without it. */
async function turnAfter(
  client: Client,
  { id, sessionId }: Turn,
  lastSeq: number,
  isExpected: (event: SessionEvent) => boolean,
): Promise<Turn> {
  const signal = AbortSignal.timeout(SETTLE_MS)
  for await (const event of client.events(sessionId, { after: lastSeq, signal }))
    if (event.turnId === id && isExpected(event)) break
  return client.turn(id)
}
