/**
 * Calls the session's runner. If the runner is not at its address, it is looked up again within the call, visibly and bounded.
 * When that does not help, the turn parks or stops.
 *
 * I1  Only faults whose `next` is `resolve` are retried here.
 * I2  Every failed call is in the journal before the next one starts.
 * I3  Every call passed in here is safe to repeat (an exec by its id, a file after a look at what it is now), so a
 *     lost answer does not stop the turn.
 * I5  A box that refuses our epoch has seen a higher one. The store decides whether another owner has it. If not, ours is raised:
 *     the journal may come from a backup, or another session shares the box.
 * I4  A session that has no box yet waits for no runner in particular: nothing of it can have run there.
 */
import { classify, Fault, isFault, LIMITS, type Retry, retryOutcome } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import type { ConnectedRunner } from '../runner/runners.ts'
import type { SessionRow } from '../rows.ts'
import type { TurnFold } from '../turn/state.ts'
import { boxesOf, FULL } from './box.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { type GiveUp, giveUp } from '../turn/step-result.ts'
import type { Runners } from '../runner/runners.ts'
import { situationFor } from '../session/turn-decision.ts'
import { placementRequest } from '../runner/placement.ts'

type RunnerCall<T> = (client: RunnerClient, runnerId: string) => Promise<T | GiveUp>

export async function callRunner<T>(runners: Runners, session: OwnedSession, call: RunnerCall<T>): Promise<T | GiveUp> {
  const { signal, policy } = session
  let before = { seq: session.row.lastSeq, at: session.clock.now() }
  let turn = session.fold.turn
  let original: Fault | undefined
  const outcome = await retryOutcome(
    async () => {
      before = { seq: session.row.lastSeq, at: session.clock.now() }
      await session.gate.pass(signal)
      return callFollowingMoves(runners, session, call)
    },
    {
      policy,
      signal,
      now: session.clock.now,
      sleep: (ms) => session.backOff(session.clock.now() + ms),
      faultOf: (thrown) => {
        if (signal.aborted) throw thrown
        original = runnerFault(thrown, session.boxId)
        turn = session.fold.turn
        if (original.report.next !== 'resolve' || turn === null) throw original // I1
        return original.with({ sideEffects: 'none' }) // I3
      },
      // New events, or a stream that was followed for a while: this is a new loss, not the last one continued.
      madeProgress: ({ report }) =>
        session.row.lastSeq > before.seq ||
        (report.phase === 'stream' && session.clock.now() - before.at >= LIMITS.resolveMsMax),
      situation: ({ attempt, awayMs }) =>
        situationFor(session, turn as TurnFold, { at: 'runner', resolves: attempt - 1, resolvingMs: awayMs }),
      onRetry: (retry) => journalRetry(session, turn as TurnFold, { ...retry, fault: original ?? retry.fault }), // I2
    },
  )
  if (outcome.ok) return outcome.value
  if (signal.aborted) throw signal.reason
  return giveUp((original ?? outcome.fault).report, outcome.decision)
}

/** Makes the call. Retries it immediately at the runner's new address, or at the next runner if this one is full or gone. */
async function callFollowingMoves<T>(
  runners: Runners,
  session: OwnedSession,
  call: RunnerCall<T>,
): Promise<T | GiveUp> {
  const without = new Set<string>()
  for (let [moves, raises] = [0, 0]; ;) {
    const wanted = { ...placementRequest(session.data), without }
    await session.box.outdateRelease(() => session.raiseEpoch(session.row.epoch))
    const connected = await runners.connect(session.data.runnerId, session.row.epoch, session.signal, wanted)
    const { address } = connected
    try {
      return await runners.during(connected, wanted, async (client) => {
        await fenceBox(session, client)
        return call(client, address.runnerId)
      })
    } catch (thrown) {
      const epochSeen = epochIn(thrown)
      if (epochSeen !== undefined && raises < RAISES_MAX) {
        raises += 1
        await session.raiseEpoch(epochSeen) // I5: refused if another daemon owns the session
        continue
      }
      if (isFull(thrown) && runners.isJoined(address) && !session.data.boxMade) {
        without.add(address.runnerId)
        await session.setData({ runnerId: null }) // it has no box there, so any runner will do
        continue
      }
      if (!isStale(thrown)) throw thrown
      const turn = session.fold.turn
      const isElsewhere =
        (await runners.hasMoved(address)) || (await isFreed(runners, session, address.runnerId, without))
      if (!isElsewhere || turn === null || ++moves > MOVES_MAX)
        throw runners.isJoined(address)
          ? await unreachable(thrown, connected, session.clock.timeout(IDENTIFY_MS))
          : thrown
      const fault = runnerFault(thrown, session.boxId).with({ sideEffects: 'none' }) // I3
      await journalRetry(session, turn, { fault, attempt: moves, delayMs: 0 }) // I2
    }
  }
}

/** I4: true if the session may have its box at another runner, and one fits. A box that may exist here is listed for removal. */
async function isFreed(
  runners: Runners,
  session: OwnedSession,
  runnerId: string,
  without: Set<string>,
): Promise<boolean> {
  if (session.data.boxMade || !runners.isJoined({ runnerId })) return false
  without.add(runnerId)
  if (!(await runners.fits({ ...placementRequest(session.data), without }))) return false
  await runners.leave(boxesOf(session.row))
  await session.setData({ runnerId: null })
  return true
}

/** A new owner fences the box before it decides anything about a call that an earlier owner left open. */
export async function fenceBox(session: OwnedSession, client: RunnerClient): Promise<void> {
  await session.box.fence(() => client.ownBox(session.boxId, { signal: session.signal }))
}

/** Asks the runner of a session outside of a turn, once more if it has moved. `work` may be repeated. */
export async function askRunner<T>(
  runners: Runners,
  { data, epoch }: Pick<SessionRow, 'data' | 'epoch'>,
  signal: AbortSignal,
  work: (client: RunnerClient) => Promise<T>,
): Promise<T> {
  const act = async (again: boolean): Promise<T> => {
    const { client, address } = await runners.connect(data.runnerId, epoch, signal)
    try {
      return await work(client)
    } catch (thrown) {
      if (again && isStale(thrown) && (await runners.hasMoved(address))) return act(false)
      throw thrown
    }
  }
  return act(true)
}

// ---- details ----

const MOVES_MAX = 3
const RAISES_MAX = 3

const epochIn = (thrown: unknown): number | undefined =>
  isFault(thrown) && thrown.category === 'lease_lost' ? thrown.report.epochSeen : undefined

const isFull = (thrown: unknown): boolean =>
  isFault(thrown) && thrown.category === 'runner_not_available' && thrown.report.reason === FULL

/**
 * Another runner at a joined runner's old address proves only that ours is not there. It has its own token, so it refuses ours
 * before anything else.
 */
async function unreachable(
  thrown: unknown,
  { client, address }: ConnectedRunner,
  signal: AbortSignal,
): Promise<unknown> {
  if (!isFault(thrown) || !OTHERS.has(thrown.category)) return thrown
  const there = await client.health({ signal }).catch(() => undefined) // no answer: our runner is not there
  if (there?.runnerId === address.runnerId) return thrown
  const errorRaw = `another runner answers at the last address of runner ${address.runnerId}`
  return new Fault('runner_unreachable', { facts: { address: new URL(address.url).host }, errorRaw, cause: thrown })
}

const IDENTIFY_MS = 5_000

/** How a runner refuses a request that is meant for another one. */
const OTHERS: ReadonlySet<string> = new Set(['runner_identity_mismatch', 'runner_auth_failed'])

async function journalRetry(session: OwnedSession, turn: TurnFold, { fault, attempt, delayMs }: Retry): Promise<void> {
  const max = LIMITS.resolvesMax
  const callId = turn.calls.find(({ result }) => result === null)?.callId // calls run in order
  const nextAt = new Date(session.clock.now() + delayMs).toISOString()
  await session.append({
    type: 'retry',
    turnId: turn.id,
    step: turn.step,
    attempt,
    fault: fault.with({ retry: { attempt, max, nextAt }, turnId: turn.id }).report,
    action: 'resolve',
    ...(callId === undefined ? {} : { callId }),
    delayMs,
    nextAt,
    max,
  })
}

/** A runner that is shutting down counts as unreachable: it, or its successor, is looked up again, and wakes a parked turn. */
export function runnerFault(thrown: unknown, boxId?: string): Fault {
  const fault = classify(thrown, { boundary: 'runner', boxId })
  if (fault.category !== 'shutting_down') return fault
  return new Fault('runner_unreachable', { errorRaw: fault.errorRaw, cause: fault, boxId })
}

/** The known address or token is out of date: both are read again for the next call. */
export const isStale = (thrown: unknown): boolean =>
  isFault(thrown) && (runnerFault(thrown).report.next === 'resolve' || thrown.category === 'runner_auth_failed')
