/** Routes for joined runners: runners call them to join, and people to list, drain and drop runners. */
import { Fault } from '@breakfall/faults'
import {
  runnerEnrolledSchema,
  runnerEnrollSchema,
  runnerJoinedSchema,
  runnerJoinSchema,
  runnerListSchema,
  runnerSchema,
} from '@breakfall/wire'
import { bearerToken, readJson, type RequestContext, type Route, type RouteResult } from '@breakfall/wire/node'
import type { Registration } from '../runner/registration.ts'
import type { RunnerRegistry, RunnerState } from '../store/sharing.ts'

/** Undefined without a shared store. */
export function runnerRoutes(fleet?: { registry: RunnerRegistry; registration: Registration }): readonly Route[] {
  const registered = async ({ params }: RequestContext): Promise<RouteResult> => ({
    status: 200,
    json: (await fleet?.registry.get(params['id'] ?? '')) ?? noSuchRunner(),
  })
  const change = (state: RunnerState) => async (context: RequestContext) => {
    if ((await fleet?.registration.setState(context.params['id'] ?? '', state)) !== true) noSuchRunner()
    return registered(context)
  }
  const joining = (): Registration => fleet?.registration ?? alone()
  return [
    {
      method: 'get',
      path: '/v1/runners',
      operationId: 'listRunners',
      summary: 'The runners that joined',
      answers: { 200: runnerListSchema },
      handle: async () => ({ status: 200, json: { runners: (await fleet?.registry.list()) ?? [] } }),
    },
    {
      method: 'post',
      path: '/v1/runners/enroll',
      operationId: 'enrollRunner',
      summary: 'The token of a runner, for a code of "breakfall fleet enroll" in place of a token; once for each code',
      open: true,
      body: runnerEnrollSchema,
      answers: { 200: runnerEnrolledSchema },
      faults: ['unauthorized', 'invalid_request'],
      handle: async ({ req }) => {
        const { runnerId } = await readJson(req, runnerEnrollSchema)
        return { status: 200, json: { runnerId, token: await joining().enroll(runnerId, bearerToken(req)) } }
      },
    },
    {
      method: 'get',
      path: '/v1/runners/{id}',
      operationId: 'getRunner',
      summary: 'One of them',
      answers: { 200: runnerSchema },
      faults: ['not_found'],
      handle: registered,
    },
    {
      method: 'put',
      path: '/v1/runners/{id}',
      operationId: 'joinRunner',
      summary:
        "A runner says where and how it is, with its own token; it is believed if it answers there (202: it doesn't)",
      open: true,
      body: runnerJoinSchema,
      answers: { 200: runnerJoinedSchema, 202: runnerJoinedSchema },
      faults: ['unauthorized', 'invalid_request'],
      handle: async ({ req, params }) => {
        const runnerId = params['id'] ?? ''
        joining().authorize(runnerId, bearerToken(req))
        const joined = await joining().join(runnerId, await readJson(req, runnerJoinSchema))
        return { status: joined.reachable ? 200 : 202, json: joined }
      },
    },
    {
      method: 'post',
      path: '/v1/runners/{id}/drain',
      operationId: 'drainRunner',
      summary: 'Places no more sessions there; those that are there stay until they end',
      answers: { 200: runnerSchema },
      faults: ['not_found'],
      handle: change('draining'),
    },
    {
      method: 'post',
      path: '/v1/runners/{id}/drop',
      operationId: 'dropRunner',
      summary: 'Declares it lost: what ran there is unknown, and its sessions get boxes at other runners',
      answers: { 200: runnerSchema },
      faults: ['not_found'],
      handle: change('lost'),
    },
  ]
}

// ---- details ----

function noSuchRunner(): never {
  throw new Fault('not_found', { facts: { name: 'such runner' } })
}

function alone(): never {
  throw new Fault('invalid_request', {
    error:
      'This daemon shares no store, so runners cannot join it. Start it with --store, or set [runner] url instead.',
  })
}
