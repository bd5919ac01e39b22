/**
 * Calls a runner to end something: a command that was cancelled, the box of a deleted session. A runner that moved or is just
 * being started again is looked up again for as long as the caller waits. Nothing of it is journalled: what counts is
 * whether the thing was ended, and the caller tells that.
 */
import { decide, POLICY_DEFAULTS } from '@breakfall/faults'
import { sleep } from '@breakfall/model'
import type { RunnerClient } from '@breakfall/runner/client'
import type { Ports } from './ports.ts'
import { isStale, runnerFault } from './runner-call.ts'

export async function reachRunner<T>(
  ports: Ports,
  { runnerId, epoch }: { readonly runnerId: string | null; readonly epoch: number },
  signal: AbortSignal,
  call: (client: RunnerClient) => Promise<T>,
): Promise<T> {
  for (let resolves = 0; ; resolves += 1) {
    try {
      const { client, place } = await ports.runner.connect(runnerId, epoch, signal)
      try {
        return await call(client)
      } catch (thrown) {
        if (isStale(thrown)) ports.runner.forget(place)
        throw thrown
      }
    } catch (thrown) {
      const fault = runnerFault(thrown).with({ sideEffects: 'none' }) // to end it again is no harm
      const situation = { ...NO_TURN, resolves, dice: ports.dice() }
      const decision = decide(fault.report, situation, POLICY_DEFAULTS, ports.now())
      if (decision.action !== 'resolve') throw thrown
      await sleep(decision.delayMs, signal)
      if (signal.aborted) throw thrown
    }
  }
}

// ---- details ----

const NO_TURN = {
  at: 'runner',
  failures: 1,
  waitedMs: 0,
  resolvingMs: 0,
  parking: 'impossible',
  deadlineAt: null,
} as const
