/** The daemons that share the store. A daemon with a store of its own is the only one, and is not listed. */
import { Fault } from '@breakfall/faults'
import { daemonListSchema } from '@breakfall/wire'
import type { Route } from '@breakfall/wire/node'
import type { Store } from '../store/store.ts'

export function fleetRoutes(store: Store): readonly Route[] {
  return [
    {
      method: 'get',
      path: '/v1/daemons',
      operationId: 'listDaemons',
      summary: 'The daemons that share the store, also those that died within the last day',
      answers: { 200: daemonListSchema },
      handle: async () => ({ status: 200, json: { daemons: await store.daemons() } }),
    },
    {
      method: 'post',
      path: '/v1/daemons/{bootId}/drain',
      operationId: 'drainDaemon',
      summary: 'Hands over the sessions of a daemon; it claims no more',
      answers: { 202: daemonListSchema },
      faults: ['not_found'],
      handle: async ({ params }) => {
        if (!(await store.drainDaemon(params['bootId'] ?? '')))
          throw new Fault('not_found', { facts: { name: 'such daemon' } })
        return { status: 202, json: { daemons: await store.daemons() } }
      },
    },
  ]
}
