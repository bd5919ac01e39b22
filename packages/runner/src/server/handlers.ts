/** Connects the routes with their handlers. A route without a handler does not compile. */
import { RUNNER_HEADER } from '@breakfall/wire'
import type { Route } from '@breakfall/wire/node'
import { ROUTE_NAMES, type RouteName, RUNNER_ROUTES } from '../contract/routes.ts'
import { checkRunner } from './access.ts'
import { boxHandlers } from './box-handlers.ts'
import { checkpointHandlers } from './checkpoint-handlers.ts'
import { execHandlers } from './exec-handlers.ts'
import { fileHandlers } from './file-handlers.ts'
import { portHandlers } from './port-handlers.ts'
import { systemHandlers } from './system-handlers.ts'
import type { ApiContext, Handler } from './handler-context.ts'

export function runnerRoutes(context: ApiContext): readonly Route[] {
  const handlers: Record<RouteName, Handler> = {
    ...systemHandlers(context),
    ...boxHandlers(context),
    ...portHandlers(context),
    ...execHandlers(context),
    ...fileHandlers(context),
    ...checkpointHandlers(context),
  }
  return ROUTE_NAMES.map((name) => {
    const route = RUNNER_ROUTES[name]
    return {
      ...route,
      headers: { [RUNNER_HEADER]: 'the id of the intended runner', ...('headers' in route ? route.headers : {}) },
      handle: (call) => {
        checkRunner(call.req, context.identity.runnerId) // before anything is read or changed
        context.onCall(name)
        return handlers[name](call)
      },
    }
  })
}
