/** What callers do with sessions and their turns. */
import { traceparentIn } from '@breakfall/model/internal'
import { invalidRequest } from '@breakfall/wire/internal'
import type { RequestContext } from '@breakfall/wire/node'
import type { Sessions } from '@breakfall/engine'
import type { DaemonLimits } from '../options.ts'
import type { SystemView } from '../system.ts'
import { streamEvents } from './events.ts'
import { sendBundle } from './export.ts'
import { Reply, type SomeHandlers } from './routes.ts'
import { orUnsatisfiable, outputRequestOf, relayOutput } from './output.ts'
import { sessionQueryOf } from './session-query.ts'

type SessionParts = { readonly sessions: Sessions; readonly system: SystemView; readonly limits: DaemonLimits }

const KEY_CHARS_MAX = 255

export const sessionHandlers = ({ sessions, system, limits }: SessionParts) =>
  ({
    createSession: async (context) => sessions.create(await context.body(), keyOf(context)),
    listSessions: ({ query }) => sessions.list(sessionQueryOf(query)),
    getSession: ({ params }) => sessions.get(params.id),
    changeSession: async ({ body, params }) => sessions.change(params.id, await body()),
    deleteSession: ({ params, query }) => sessions.delete(params.id, { ifEnded: query.get('ifEnded') === '1' }),
    releaseBox: async ({ body, params }) => {
      await body()
      return { released: await sessions.release(params.id) }
    },
    prune: async ({ body }) => sessions.prune(await body()),
    createTurn: async (context) => {
      const request = await context.body()
      const traceparent = traceparentIn(context.req.headers['traceparent'])
      return sessions.prompt(context.params.id, { ...request, traceparent }, keyOf(context))
    },
    listTurns: ({ params, query }) => sessions.turns(params.id, query.get('cursor') ?? undefined),
    getOutput: async (context) =>
      relayOutput(context, await orUnsatisfiable(context, sessions.output(outputRequestOf(context)))),
    streamEvents: async (context) => streamEvents(context, await sessions.view(context.params.id), limits),
    exportSession: (context) => {
      const redact = context.query.get('redact')
      if (redact !== null && redact !== 'text')
        throw invalidRequest([{ field: 'redact', expected: 'text', got: redact.slice(0, 100) }])
      return sendBundle(context, sessions, () => system.read())
    },
    getTurn: ({ params }) => sessions.turn(params.id),
    cancelTurn: async ({ body, params }) => {
      const { reason = null } = await body()
      const { turn, isOver } = await sessions.cancel(params.id, { actor: 'user', reason })
      return new Reply(isOver ? 200 : 202, turn)
    },
    resumeTurn: async ({ body, params }) => sessions.resume(params.id, await body()),
    approveCall: async ({ body, params }) => sessions.approve(params.id, await body()),
  }) satisfies SomeHandlers

// ---- details ----

function keyOf(context: RequestContext): string | undefined {
  const key = context.req.headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key === 'string' && key !== '' && key.length <= KEY_CHARS_MAX) return key
  const got = `${String(key).length} characters`
  throw invalidRequest([{ field: 'Idempotency-Key', expected: `1 to ${KEY_CHARS_MAX} characters`, got }])
}
