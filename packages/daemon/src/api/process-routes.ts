/** The background processes of sessions: listed, and stopped. */
import { sessionProcessListSchema, stoppedProcessSchema } from '@breakfall/wire'
import type { Route } from '@breakfall/wire/node'
import type { SessionProcesses } from '../engine/session-processes.ts'

export function processRoutes(processes: SessionProcesses): readonly Route[] {
  return [
    {
      method: 'get',
      path: '/v1/processes',
      operationId: 'listProcesses',
      summary: 'The background processes of all sessions, or of one, with the ports that they listen on',
      query: { session: 'only those of this session' },
      answers: { 200: sessionProcessListSchema },
      faults: ['not_found', 'runner_unreachable'],
      handle: async ({ query, signal }) => {
        const session = query.get('session')
        return { status: 200, json: await (session === null ? processes.all(signal) : processes.of(session, signal)) }
      },
    },
    {
      method: 'post',
      path: '/v1/sessions/{id}/processes/{process}/stop',
      operationId: 'stopProcess',
      summary: 'Stops a background process, by its name or the id of its exec',
      answers: { 200: stoppedProcessSchema },
      faults: ['not_found', 'exec_not_found', 'lease_lost', 'runner_unreachable'],
      handle: async ({ params, signal }) => ({
        status: 200,
        json: await processes.stop(params['id'] ?? '', params['process'] ?? '', signal),
      }),
    },
  ]
}
