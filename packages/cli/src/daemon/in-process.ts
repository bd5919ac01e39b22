/**
 * A daemon inside this process, for one call when no daemon runs: to cancel a turn, or to export a session.
 *
 * I1  It adopts the requested session and no other, and no other process can find it.
 * I2  It asks no model: an adopted turn waits for its cancel.
 */
import { once } from 'node:events'
import { DaemonClient, RECONNECT_POLICY } from '@breakfall/client'
import { startDaemon } from '@breakfall/daemon'
import { Fault } from '@breakfall/faults'
import type { TryEvent, TryOptions } from '@breakfall/model'
import type { ResolvedConfig } from '../config/resolve.ts'
import { daemonSettings } from './options.ts'

export async function withTemporaryDaemon<T>(
  config: ResolvedConfig,
  act: (client: DaemonClient) => Promise<T>,
): Promise<T> {
  const daemon = await startDaemon({
    stateDir: config.stateDir,
    ...daemonSettings(config, { kind: 'none' }),
    retention: undefined, // a command that looks or cancels deletes nothing
    policy: config.policy,
    tryAnswer: silence,
    logLevel: config.logLevel ?? 'silent', // what fails is in the answer, and the command says it
    recover: 'requested', // I1
    isMomentary: true, // I1
  })
  try {
    return await act(
      new DaemonClient({ url: daemon.url, token: daemon.token }, { retryCalls: false, policy: RECONNECT_POLICY }),
    )
  } finally {
    await daemon.close({ stopRunner: true, releaseBoxes: true })
  }
}

/** I2 */
const silence = (_request: unknown, { signal }: TryOptions): AsyncIterable<TryEvent> => ({
  [Symbol.asyncIterator]: () => ({
    next: async () => {
      if (signal?.aborted === false) await once(signal, 'abort')
      throw new Fault('cancelled')
    },
  }),
})
