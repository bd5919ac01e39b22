/** `breakfall cancel` and `breakfall resume`. */
import type { DaemonClient, SessionViewer } from '@breakfall/client'
import { EXIT_CODES, Fault, faultFrom } from '@breakfall/faults'
import { isTerminal, type ProviderGiven, type Session, type SessionEvent, type Turn } from '@breakfall/wire'
import { parkIn, questionOf } from '@breakfall/wire/turn'
import type { Context } from '../../command-line/context.ts'
import { findDaemon, oneShotClient, requireDaemon } from '../../daemon/find.ts'
import { keyForTurn } from '../../model/brought-model.ts'
import { cmd } from '../../process/command-name.ts'
import { exitCodeWhenParked } from '../../render/parked.ts'
import { isOver, showTurn } from '../../render/turn-lines.ts'
import { fullId, ifNotFound, onlyOne, turnFor } from '../../sessions/lookup.ts'
import { findViewer } from '../../sessions/viewer.ts'
import type { Output } from '../../terminal/output.ts'

type Config = Context['config']

/** Asks the running daemon. If there is none, a temporary one cancels what an earlier daemon left. */
export async function cancelCommand({ config, out }: Context, id: string, reason: string | undefined): Promise<void> {
  const found = await findViewer(config, '')
  if (found.kind === 'live') return cancel(found.viewer, id, reason, out)
  const turn = await turnFor(found.viewer, id) // reports an unknown id without starting a daemon
  if (isOver(turn)) return showNotCancelled(turn, out)
  const { withTemporaryDaemon } = await import('../../daemon/in-process.ts')
  await withTemporaryDaemon(config, (client) => cancel(client, turn.id, reason, out))
}

/**
 * For a run whose daemon is away: cancels its turn without one. The fault says how that went. Undefined if the daemon answers, which
 * then cancels the turn itself.
 */
export async function cancelWithoutDaemon(config: Config, turnId: string, reason: string): Promise<Fault | undefined> {
  try {
    if ((await findDaemon(config)) !== undefined) return undefined
    const { withTemporaryDaemon } = await import('../../daemon/in-process.ts')
    await withTemporaryDaemon(config, (client) => cancelled(client, turnId, reason))
    return new Fault('cancelled', {
      message: { happened: `Cancelled by ${reason}.`, action: 'The daemon is away, so the turn ended without it.' },
      turnId,
    })
  } catch (cause) {
    const error = `Not cancelled: the daemon is away. To cancel it: ${cmd('cancel')} ${turnId}`
    return new Fault('daemon_unreachable', { error, errorRaw: faultFrom(cause).errorRaw, turnId, cause })
  }
}

/** Returns the exit code: a turn that parks again at once was not resumed. Without an id: the only turn of this folder, or a list. */
export async function resumeCommand(context: Context, input: string | undefined): Promise<number> {
  const { config, out } = context
  const found = await findViewer(config, '')
  const parked = { state: 'parked', isMeant: isResumable, none: 'no turn is parked' }
  const id = input ?? (await onlyOne(found.viewer, out, parked))
  if (id === undefined) return EXIT_CODES.finished
  if (found.kind === 'offline') await refuseIfOver(found.viewer, id)
  const { address } = await requireDaemon(config, `Or continue it in its folder: ${cmd('run')} --continue`)
  const client = oneShotClient(address)
  return resume(client, id, out, (turn) => keyForTurn(turn, config))
}

/** Whether there is anything to resume is in the journal, so no daemon is needed to say that there is not. */
async function refuseIfOver(viewer: SessionViewer, input: string): Promise<void> {
  const id = await fullId(viewer, input)
  const isKnown = [viewer.session(id), viewer.turn(id)].map((found) => found.catch(ifNotFound))
  if ((await Promise.all(isKnown)).every((found) => found === undefined)) return
  const turn = await turnFor(viewer, id)
  if (!isOver(turn)) return
  throw new Fault('turn_not_parked', {
    error: `Turn ${turn.id} is ${turn.state}, so there is nothing to resume. To continue: ${cmd('run')} --session ${turn.sessionId} "PROMPT"`,
    turnId: turn.id,
  })
}

type Client = SessionViewer & Pick<DaemonClient, 'cancel' | 'resume'>

export async function cancel(client: Client, id: string, reason: string | undefined, out: Output): Promise<void> {
  const turn = await turnFor(client, id)
  if (isOver(turn)) return showNotCancelled(turn, out)
  const ended = await cancelled(client, turn.id, reason)
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

function showNotCancelled(turn: Turn, out: Output): void {
  showTurn(turn, out)
  const how = turn.state === 'cancelled' ? 'been cancelled before' : `already ${turn.state}`
  out.say(`The turn has ${how}; nothing was cancelled.`)
}

/** The turn once it has ended, or after a while as it is. */
async function cancelled(client: Client, turnId: string, reason: string | undefined): Promise<Turn> {
  const { id, sessionId } = await client.turn(turnId)
  const { lastSeq } = await client.session(sessionId)
  const turn = await client.cancel(id, reason)
  return isOver(turn) ? turn : turnAfter(client, turn, lastSeq, isTerminal)
}

/** A resume would put the question of an approval again. */
function isResumable({ turn }: Session): boolean {
  const park = parkIn(turn)
  return park !== null && questionOf(park) !== 'approval'
}

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
