/** Connects the daemon's operations with their handlers. An operation without a handler does not compile. */
import {
  type Operation,
  type OperationBody,
  type OperationId,
  type OperationParams,
  OPERATIONS,
} from '@breakfall/wire/internal'
import { readJson, type RequestContext, type Route, type RouteResult } from '@breakfall/wire/node'
import { z } from 'zod'

type AnyContext = RequestContext & { readonly body: () => Promise<unknown> }

/** Typed as a method, so that a handler may ask for the parameters and the body that the table says its operation has. */
type AnyHandler = { handle(context: AnyContext): unknown }['handle']

/** A request, with the parameters of its path and its checked body. */
export type OperationContext<Id extends OperationId> = RequestContext & {
  readonly params: OperationParams<Id>
  readonly body: () => Promise<OperationBody<Id>>
}

/** Returns the JSON of the answer, a `Reply` where there are several statuses, or undefined if it wrote the answer itself. */
type Handler<Id extends OperationId> = (context: OperationContext<Id>) => unknown

type Handlers<Id extends OperationId> = { readonly [Each in Id]: Handler<Each> }
export type SomeHandlers = Partial<Handlers<OperationId>>

/** The operations that break things on purpose. They exist only under `breakfall demo`. */
export type ChaosId = 'getChaos' | 'setChaosPlan' | 'injectNext' | 'kill'

type AllHandlers = Handlers<Exclude<OperationId, ChaosId>> & Partial<Handlers<ChaosId>>

export class Reply {
  readonly result: RouteResult

  constructor(status: number, json: unknown, headers: Readonly<Record<string, string>> = {}) {
    this.result = { status, json, headers }
  }
}

/** In the order of the table, which is that of the document, and of a literal before a parameter. */
export function routesOf(handlers: AllHandlers): readonly Route[] {
  const given: Readonly<Record<string, AnyHandler | undefined>> = handlers
  return Object.entries<Operation>(OPERATIONS).flatMap(([operationId, { at, ...operation }]) => {
    const handler = given[operationId]
    if (handler === undefined) return []
    const { body } = operation
    const method = METHODS.find((each) => at.startsWith(`${each.toUpperCase()} `)) ?? 'get'
    const [first] = Object.entries(operation.answers)
    const [status, form] = first ?? ['200', null]
    return {
      ...operation,
      method,
      path: at.slice(at.indexOf('/')),
      operationId,
      handle: async (context) => {
        const result = await handler({
          ...context,
          body: async () => (body instanceof z.ZodType ? readJson(context, body) : undefined),
        })
        if (result instanceof Reply) return result.result
        return result === undefined && form !== null ? undefined : { status: Number(status), json: result }
      },
    }
  })
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const
