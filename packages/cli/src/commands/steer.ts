/** `breakfall cancel` and `breakfall resume`. */
import type { DaemonClient, SessionViewer } from '@breakfall/client'
import { EXIT_CODES, Fault } from '@breakfall/faults'
import { isTerminal, type ProviderGiven, type SessionEvent, type Turn } from '@breakfall/wire'
import type { Context } from '../context.ts'
import { findViewer, oneShotClient, requireDaemon } from '../daemon/find.ts'
import type { Output } from '../render/output.ts'
import { keyForTurn } from '../run/brought-model.ts'
import { exitCodeWhenParked } from '../run/result.ts'
import { fullId } from '../sessions/ids.ts'
import { ifNotFound } from '../sessions/lookup.ts'
import { isOver, showTurn, turnFor } from './sessions.ts'

/** Asks the running daemon. If there is none, a temporary one cancels what an earlier daemon left. */
export async function cancelCommand({ config, out }: Context, id: string, reason: string | undefined): Promise<void> {
  const found = await findViewer(config, '')
  if (found.kind === 'live') return cancel(found.viewer, id, reason, out)
  const turn = await turnFor(found.viewer, id) // reports an unknown id without starting a daemon
  const { withTemporaryDaemon } = await import('../daemon/in-process.ts')
  await withTemporaryDaemon(config, (client) => cancel(client, turn.id, reason, out))
}

/** Returns the exit code: a turn that parks again at once was not resumed. */
export async function resumeCommand({ config, out }: Context, id: string): Promise<number> {
  const found = await findViewer(config, '')
  if (found.kind === 'offline') await refuseIfOver(found.viewer, id)
  const { address } = await requireDaemon(config, 'Or continue it in its folder: breakfall run --continue')
  const client = oneShotClient(address)
  return resume(client, id, out, (turn) => keyForTurn(turn, config))
}

/** Whether there is anything to resume is in the journal, so no daemon is needed to say that there is not. */
async function refuseIfOver(viewer: SessionViewer, given: string): Promise<void> {
  const id = await fullId(viewer, given)
  const isKnown = [viewer.session(id), viewer.turn(id)].map((found) => found.catch(ifNotFound))
  if ((await Promise.all(isKnown)).every((found) => found === undefined)) return
  const turn = await turnFor(viewer, id)
  if (!isOver(turn)) return
  throw new Fault('turn_not_parked', {
    error: `Turn ${turn.id} is ${turn.state}, so there is nothing to resume. To continue: breakfall run --session ${turn.sessionId} "PROMPT"`,
    turnId: turn.id,
  })
}

type Client = SessionViewer & Pick<DaemonClient, 'cancel' | 'resume'>

export async function cancel(client: Client, id: string, reason: string | undefined, out: Output): Promise<void> {
  const turn = await turnFor(client, id)
  const { lastSeq } = await client.session(turn.sessionId)
  const cancelled = await client.cancel(turn.id, reason)
  const ended = isOver(cancelled) ? cancelled : await turnAfter(client, turn, lastSeq, isTerminal)
  showTurn(ended, out, { note: 'the cancel was accepted; the turn is still ending' })
}

/** `keyFor`: a daemon that restarted has forgotten the key, and this terminal may have it. */
export async function resume(
  client: Client,
  id: string,
  out: Output,
  keyFor: (turn: Turn) => ProviderGiven | undefined = () => undefined,
): Promise<number> {
  const turn = await turnFor(client, id)
  const { lastSeq } = await client.session(turn.sessionId)
  await client.resume(turn.id, { provider: keyFor(turn) })
  const resumed = await turnAfter(client, turn, lastSeq, ({ type }) => !UNDECIDED.has(type))
  if (resumed.parked !== null) out.addToResult({ outcome: 'parked' })
  showTurn(resumed, out)
  return resumed.parked === null ? EXIT_CODES.finished : exitCodeWhenParked(resumed.parked.category)
}

// ---- details ----

const SETTLE_MS = 3_000 // a server that refuses a key, or a port that refuses connections, has answered by then

/** Events before it is clear that the turn works again. */
const UNDECIDED: ReadonlySet<SessionEvent['type']> = new Set(['resumed', 'taken-over', 'step-start', 'model-server'])

/** The turn after the expected event, or after a while without it. */
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
