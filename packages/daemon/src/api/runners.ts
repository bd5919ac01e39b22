/** Joined runners: they call to join, and people list, drain and drop them. */
import { Fault } from '@breakfall/faults'
import { bearerToken, type RequestContext } from '@breakfall/wire/node'
import type { Registration, RunnerRegistry, RunnerState } from '@breakfall/engine'
import { Reply, type SomeHandlers } from './routes.ts'

/** Undefined without a shared store. */
export function runnerHandlers(fleet?: { registry: RunnerRegistry; registration: Registration }) {
  const registered = async ({ params }: RequestContext) =>
    (await fleet?.registry.get(params['id'] ?? '')) ?? noSuchRunner()
  const change = (state: RunnerState) => async (context: RequestContext) => {
    if ((await fleet?.registration.setState(context.params['id'] ?? '', state)) !== true) noSuchRunner()
    return registered(context)
  }
  const joining = (): Registration => fleet?.registration ?? alone()
  return {
    listRunners: async () => ({ runners: (await fleet?.registry.list()) ?? [] }),
    enrollRunner: async ({ body, req }) => {
      const { runnerId } = await body()
      return { runnerId, token: await joining().enroll(runnerId, bearerToken(req)) }
    },
    getRunner: registered,
    joinRunner: async ({ body, params, req }) => {
      joining().authorize(params.id, bearerToken(req))
      const joined = await joining().join(params.id, await body())
      return new Reply(joined.reachable ? 200 : 202, joined)
    },
    drainRunner: change('draining'),
    dropRunner: change('lost'),
  } satisfies SomeHandlers
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
