/** The background processes of sessions: listed, and stopped. */
import type { SessionProcesses } from '@breakfall/engine'
import type { SomeHandlers } from './routes.ts'

export function processHandlers(processes: SessionProcesses) {
  return {
    listProcesses: async ({ query, signal }) => {
      const session = query.get('session')
      return session === null ? processes.all(signal) : processes.of(session, signal)
    },
    stopProcess: ({ params, signal }) => processes.stop(params.id, params.process, signal),
  } satisfies SomeHandlers
}
