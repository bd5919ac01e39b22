/** Undo: a session's checkpoints, the changes since a checkpoint, and restoring one. */
import type { RequestContext } from '@breakfall/wire/node'
import type { CheckpointChoice, Undoing } from '@breakfall/engine'
import type { SomeHandlers } from './routes.ts'

export function checkpointHandlers(undoing: Undoing) {
  return {
    listCheckpoints: ({ params, signal }) => undoing.list(params.id, signal),
    diffSession: async (context) => {
      const to = context.query.get('to') ?? 'now'
      const given = [context.params.id, choiceOf(context), to, context.signal] as const
      if (!(context.req.headers.accept ?? '').includes('text/x-diff')) return undoing.diff(...given)
      const patch = await undoing.patch(...given)
      context.res.writeHead(200, { 'content-type': 'text/x-diff', 'content-length': patch.length }).end(patch)
      return undefined
    },
    undo: async ({ body, params, signal }) => undoing.undo(params.id, await body(), signal),
  } satisfies SomeHandlers
}

// ---- details ----

const choiceOf = ({ query }: RequestContext): CheckpointChoice => ({
  toTurn: query.get('turn') ?? undefined,
  checkpoint: query.get('checkpoint') ?? undefined,
})
