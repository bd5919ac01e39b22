/**
 * A daemon in this process for one call, where none runs: for whoever wants to end a turn that an earlier one left.
 *
 * I1  It takes up the session that it is asked for and no other, and nobody else can find it.
 * I2  It asks no model: a turn that it has taken up waits for its cancel.
 */
import { once } from 'node:events'
import { Fault } from '@breakfall/faults'
import { startDaemon } from '@breakfall/daemon'
import type { TryEvent, TryOptions } from '@breakfall/model'
import { DaemonClient } from './client.ts'
import { liveConfig } from './options.ts'
import type { Context } from '../program.ts'

export async function forAMoment<T>(context: Context, act: (client: DaemonClient) => Promise<T>): Promise<T> {
  const { model, runner } = liveConfig(context.loaded.config, undefined, context)
  const daemon = await startDaemon({
    stateDir: context.stateDir,
    model: { ...model, serve: undefined },
    runner,
    policy: context.loaded.config.policy,
    tryAnswer: silence,
    logLevel: context.env['BREAKFALL_LOG'] ?? 'error',
    recover: 'requested', // I1
    isMomentary: true, // I1
  })
  try {
    return await act(new DaemonClient({ url: daemon.url, token: daemon.token }))
  } finally {
    await daemon.close({ stopRunner: true })
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
