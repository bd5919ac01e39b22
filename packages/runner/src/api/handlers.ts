/** What each call does. The table says which calls there are; a call without a handler does not compile. */
import { RUNNER_HEADER } from '@breakfall/wire'
import type { RequestContext, Route, RouteResult } from '@breakfall/wire/node'
import { type RouteName, RUNNER_ROUTES } from '../routes.ts'
import { checkRunner } from './access.ts'
import { boxHandlers } from './boxes.ts'
import { execHandlers } from './execs.ts'
import { fileHandlers } from './files.ts'
import { systemHandlers } from './system.ts'
import type { ApiContext } from './context.ts'

export type Handler = (call: RequestContext) => Promise<RouteResult> | RouteResult

export function runnerRoutes(context: ApiContext): readonly Route[] {
  const handlers: Record<RouteName, Handler> = {
    ...systemHandlers(context),
    ...boxHandlers(context),
    ...execHandlers(context),
    ...fileHandlers(context),
  }
  return Object.entries(RUNNER_ROUTES).map(([name, route]) => ({
    ...route,
    headers: { [RUNNER_HEADER]: 'the id of the runner that is meant', ...('headers' in route ? route.headers : {}) },
    handle: (call) => {
      checkRunner(call.req, context.identity.runnerId) // before anything is looked at, let alone done
      context.onCall(name as RouteName)
      return handlers[name as RouteName](call)
    },
  }))
}
