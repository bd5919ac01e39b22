/** Routes that show more than one session: the system around them, and what changes in all of them. */
import { systemSchema, watchChangeSchema, watchSnapshotSchema } from '@breakfall/wire'
import type { Route } from '@breakfall/wire/node'
import type { WatchHub } from '../engine/watch-hub.ts'
import type { DaemonLimits } from '../options.ts'
import type { SystemView } from '../system.ts'
import { streamWatch } from './watch.ts'

export type ViewParts = { readonly system: SystemView; readonly hub: WatchHub; readonly limits: DaemonLimits }

export function viewRoutes({ system, hub, limits }: ViewParts): readonly Route[] {
  return [
    {
      method: 'get',
      path: '/v1/system',
      operationId: 'getSystem',
      summary: 'The daemon, its journal, its runner and its model server',
      answers: { 200: systemSchema },
      handle: async () => ({ status: 200, json: await system.read() }),
    },
    {
      method: 'get',
      path: '/v1/watch',
      operationId: 'watch',
      summary: 'A snapshot of all sessions with work, then every change, as SSE: `snapshot` once, then `watch`',
      answers: { 200: { sse: { snapshot: watchSnapshotSchema, watch: watchChangeSchema } } },
      handle: async (context) => {
        await streamWatch(context, hub, limits)
        return undefined
      },
    },
  ]
}
