/** The daemons that share the store. A daemon with a store of its own is the only one, and is not listed. */
import { Fault } from '@breakfall/faults'
import type { Coordination } from '@breakfall/engine'
import type { SomeHandlers } from './routes.ts'

export function fleetHandlers(store: Coordination) {
  return {
    listDaemons: async () => ({ daemons: await store.daemons() }),
    drainDaemon: async ({ params }) => {
      if (!(await store.drainDaemon(params.bootId))) throw new Fault('not_found', { facts: { name: 'such daemon' } })
      return { daemons: await store.daemons() }
    },
  } satisfies SomeHandlers
}
