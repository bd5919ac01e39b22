/**
 * Calls a runner to end something: a cancelled command, the box of a deleted session. A runner that moved or is restarting is
 * looked up again until the caller's signal aborts. Nothing is journalled: the caller reports whether the thing ended.
 */
import { POLICY_DEFAULTS, retrying } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import { ANYWHERE } from '../runner/placement.ts'
import type { Runners } from '../runner/runners.ts'
import { isStale, runnerFault } from './runner-call.ts'

export function cleanUpAtRunner<T>(
  runners: Runners,
  {
    runnerId,
    epoch,
    isReturning = false,
  }: { readonly runnerId: string | null; readonly epoch: number; readonly isReturning?: boolean },
  signal: AbortSignal,
  call: (client: RunnerClient) => Promise<T>,
): Promise<T> {
  const act = async (): Promise<T> => {
    const { client, address } = await runners.connect(runnerId, epoch, signal, { ...ANYWHERE, isReturning })
    try {
      return await call(client)
    } catch (thrown) {
      if (isStale(thrown)) runners.forget(address)
      throw thrown
    }
  }
  return retrying(act, {
    policy: POLICY_DEFAULTS,
    signal,
    now: runners.clock.now,
    dice: runners.clock.dice,
    faultOf: (thrown) => runnerFault(thrown).with({ sideEffects: 'none' }), // ending it twice does no harm
    situation: ({ attempt, awayMs, dice }) => ({
      ...NO_TURN,
      resolves: attempt - 1,
      resolvingMs: awayMs,
      dice,
    }),
  })
}

// ---- details ----

/** No turn waits for this call, so there is no budget to draw on. */
const NO_TURN = { at: 'runner', failures: 1, waitedMs: 0, parking: 'impossible', deadlineAt: null } as const
