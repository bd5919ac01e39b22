/**
 * Calls the session's runner. A runner that is not where it was is looked up again inside the call, visibly and bounded;
 * what is left after that is `decide`'s to park or to stop.
 *
 * I1  Only faults whose `next` is `resolve` are tried again here, and only through `decide`.
 * I2  Every try that failed is in the journal before the next one begins.
 * I3  What is given in here can be entered again without harm (an exec by its id, a file put whole, an edit that looks
 *     first), so a lost answer is no reason to stop.
 */
import { classify, Fault, isFault, LIMITS } from '@breakfall/faults'
import { sleep } from '@breakfall/model'
import type { RunnerClient } from '@breakfall/runner/client'
import { GivenUp } from './given-up.ts'
import type { LiveSession } from './live-session.ts'
import type { Ports } from './ports.ts'
import { decideFor } from './turn-decision.ts'

export type RunnerCall<T> = (client: RunnerClient, runnerId: string) => Promise<T>

export async function callRunner<T>(ports: Ports, session: LiveSession, call: RunnerCall<T>): Promise<T> {
  const { signal } = session
  let resolves = 0
  let firstFailedAt: number | undefined
  for (;;) {
    const before = { seq: session.row.lastSeq, at: ports.now() }
    try {
      const { client, place } = await ports.runner.connect(session.data.runnerId, session.row.epoch, signal)
      try {
        return await call(client, place.runnerId)
      } catch (thrown) {
        if (isStale(thrown)) ports.runner.forget(place)
        throw thrown
      }
    } catch (thrown) {
      if (signal.aborted || thrown instanceof GivenUp) throw thrown
      const fault = runnerFault(thrown, session.boxId)
      const turn = session.fold.turn
      if (fault.report.next !== 'resolve' || turn === null) throw fault // I1
      const now = ports.now()
      const isStreamed = fault.report.phase === 'stream' && now - before.at >= LIMITS.resolveMsMax
      if (session.row.lastSeq > before.seq || isStreamed) {
        // Something came of it, or it was followed for a while: this is another loss, not the same one going on.
        resolves = 0
        firstFailedAt = undefined
      }
      firstFailedAt ??= now
      const harmless = fault.with({ sideEffects: 'none' }) // I3
      const failed = { at: 'runner', resolves, resolvingMs: now - firstFailedAt } as const
      const decision = decideFor(ports, session, turn, harmless.report, failed)
      if (decision.action === 'park' || decision.action === 'stop') throw new GivenUp(fault.report, decision)
      resolves += 1
      const { delayMs } = decision
      const nextAt = new Date(now + delayMs).toISOString()
      const retry = { attempt: resolves, max: LIMITS.resolvesMax, nextAt }
      await session.append({
        type: 'retry',
        turnId: turn.id,
        step: turn.step,
        attempt: resolves,
        fault: fault.with({ retry, turnId: turn.id }).report,
        action: 'resolve',
        delayMs,
        nextAt,
        max: LIMITS.resolvesMax,
      }) // I2
      await sleep(delayMs, signal)
      if (signal.aborted) throw signal.reason
    }
  }
}

// ---- details ----

/** One that is going down is one that cannot be reached: it, or its successor, is looked up. Parked so, a turn is woken by it. */
export function runnerFault(thrown: unknown, boxId?: string): Fault {
  const fault = classify(thrown, { boundary: 'runner', boxId })
  if (fault.category !== 'shutting_down') return fault
  return new Fault('runner_unreachable', { errorRaw: fault.errorRaw, cause: fault, boxId })
}

/** The address or the token that we know is not good any more: both are read again for the next try. */
export const isStale = (thrown: unknown): boolean =>
  isFault(thrown) && (runnerFault(thrown).report.next === 'resolve' || thrown.category === 'runner_auth_failed')
