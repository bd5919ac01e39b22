/** The turn of a run: a new one for its prompt, or the unfinished one of its session. */
import type { DaemonClient } from '@breakfall/client'
import { Fault, isFault } from '@breakfall/faults'
import type { AnswerValue, ApprovalDecision, ProviderGiven, SameFolder, Session, Turn } from '@breakfall/wire'
import { cmd } from '../../process/command-name.ts'
import { howToContinue, waitsFor } from '../../render/parked.ts'
import { isOver } from '../../render/turn-lines.ts'
import { lastTurnId } from '../../sessions/lookup.ts'

export type StartedTurn = {
  readonly turnId: string
  /** The number of the last event before those that this run shows. */
  readonly after: number
  /** Another run started it, and a daemon is working on it. */
  readonly isTheirs: boolean
}

type Client = Pick<DaemonClient, 'session' | 'turn' | 'prompt' | 'resume' | 'approve' | 'events'>

/** The answer to the call that an unfinished turn waits for. */
export type GivenAnswer = {
  readonly decision: ApprovalDecision
  readonly reason?: string | undefined
  /** The question of the call's server that it answers, and the answer. */
  readonly question?: string | undefined
  readonly value?: AnswerValue | undefined
  /** The approved command runs without a sandbox, as its session was set up. */
  readonly isolation?: 'process' | undefined
}

export type StartInput = {
  readonly client: Client
  readonly prompt: string | undefined
  /** The turn to follow. It is continued only if no daemon works on it. */
  readonly attach?: string | undefined
  readonly sameFolder?: SameFolder | undefined
  readonly answer?: GivenAnswer | undefined
  /** The turn's own provider with this run's key for it, which its daemon may have lost. */
  readonly keyFor?: ((turn: Turn) => ProviderGiven | undefined) | undefined
}

export async function startTurn(input: StartInput, session: Session): Promise<StartedTurn> {
  const { client, prompt, attach, sameFolder = 'share' } = input
  if (attach !== undefined) {
    const turn = await client.turn(attach)
    // An answer continues a call that has not run; a question of a server may have lost its call, which only a daemon can tell.
    const waits = isOver(turn) || (turn.approval !== undefined && turn.approval.question === undefined)
    if (turn.live === false && !waits) await continued(input, turn).catch(ifRunning)
    const { lastSeq } = await client.session(session.id) // what it waited with before is over
    return { turnId: turn.id, after: lastSeq, isTheirs: true }
  }
  if (prompt !== undefined) {
    const receipt = await client.prompt(session.id, prompt, { sameFolder }).catch(async (error: unknown) => {
      throw isFault(error) && error.category === 'session_busy' ? await busyFault(error, client, session.id) : error
    })
    return { turnId: receipt.turnId, after: receipt.seq - 1, isTheirs: false }
  }
  if (session.turnId === null) {
    const ended = await endedJustNow(client, session)
    if (ended !== undefined) return { turnId: ended, after: 0, isTheirs: false }
    throw new Fault('invalid_request', {
      error: `Session ${session.id} has no unfinished turn; give it a prompt: ${cmd('run')} --continue "PROMPT"`,
    })
  }
  const turn = await client.turn(session.turnId)
  const isWaiting = turn.state === 'parked' || turn['live'] === false
  const isOurs = isWaiting && (await continued(input, turn).then(() => true, ifRunning))
  return { turnId: turn.id, after: session.lastSeq, isTheirs: !isOurs }
}

// ---- details, in the order they are used above ----

/** With an answer, the turn is not asked to try again: it would put the same question a second time. */
function continued({ client, answer, keyFor }: StartInput, turn: Turn): Promise<Turn> {
  const provider = keyFor?.(turn)
  if (answer === undefined || turn.approval === undefined) return client.resume(turn.id, { provider })
  const { isolation: _, ...given } = answer
  return client.approve(turn.id, { callId: turn.approval.callId, ...given, provider })
}

/** Says what the session is busy with, and what the user can do about it. */
async function busyFault(fault: Fault, client: Client, sessionId: string): Promise<Fault> {
  const { turnId } = await client.session(sessionId)
  if (turnId === null) return fault // it has ended meanwhile: a second attempt succeeds
  const turn = await client.turn(turnId)
  const others = `to cancel it: ${cmd('cancel')} ${sessionId}; to start a separate session: ${cmd('run')} "PROMPT"`
  return fault.with({ error: `Turn ${turnId} of this session ${stateOf(turn)}; ${others}` })
}

function stateOf(turn: Turn): string {
  const { sessionId, state, parked } = turn
  if (parked !== null)
    return `is parked, waiting ${waitsFor(parked)}, so the session takes no new prompt; ${howToContinue(sessionId, parked.category)}`
  if (turn['live'] === false) return `is unfinished and no daemon is working on it; ${howToContinue(sessionId)}`
  return `is ${state}, so the session takes no new prompt yet; to follow it: ${cmd('attach')} ${sessionId}`
}

/** A daemon that was just started may finish the turn before this run asks for it. */
async function endedJustNow(client: Client, session: Session): Promise<string | undefined> {
  const turnId = lastTurnId(session)
  const { endedAt = null } = turnId === undefined ? {} : await client.turn(turnId)
  return endedAt !== null && Date.parse(endedAt) >= performance.timeOrigin ? turnId : undefined
}

function ifRunning(error: unknown): false {
  if (isFault(error) && error.category === 'turn_not_parked') return false
  throw error
}
