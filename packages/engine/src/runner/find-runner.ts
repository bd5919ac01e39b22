/** Finds a runner before a tool needs one, for a caller that starts a daemon and shows where its runner is. */
import { isFault } from '@breakfall/faults'
import type { Log } from '../log.ts'
import type { Runners } from './runners.ts'

const FIND_MS = 30_000

export async function findRunner(
  runner: Runners,
  log: Log,
): Promise<{ readonly url: string; readonly runnerId: string } | undefined> {
  try {
    const { address } = await runner.connect(null, 0, AbortSignal.timeout(FIND_MS))
    return { url: address.url, runnerId: address.runnerId }
  } catch (err) {
    if (isFault(err) && err.category === 'runner_not_available') log.info({}, 'no runner has joined yet')
    else log.warn({ err }, 'the runner is not reachable yet')
    return undefined
  }
}
