/** Undo: a session's checkpoints, the changes since a checkpoint, and restoring one. */
import { checkpointDiffSchema, sessionCheckpointsSchema, undoneSchema, undoSchema } from '@breakfall/wire'
import { readJson, type RequestContext, type Route } from '@breakfall/wire/node'
import type { CheckpointChoice, Undoing } from '../engine/undo.ts'

export function checkpointRoutes(undoing: Undoing): readonly Route[] {
  return [
    {
      method: 'get',
      path: '/v1/sessions/{id}/checkpoints',
      operationId: 'listCheckpoints',
      summary: "The checkpoints of a session's files, oldest first, with the turn that each was taken before",
      answers: { 200: sessionCheckpointsSchema },
      faults: ['not_found', 'runner_unreachable'],
      handle: async (context) => ({ status: 200, json: await undoing.list(idOf(context), context.signal) }),
    },
    {
      method: 'get',
      path: '/v1/sessions/{id}/diff',
      operationId: 'diffSession',
      summary: 'What changed since a checkpoint; with Accept: text/x-diff as a patch',
      query: {
        turn: 'since before this turn; default: the newest turn that has a checkpoint',
        checkpoint: 'since this checkpoint',
        to: 'now, next (up to the following turn), or the id of a checkpoint; default now',
      },
      answers: { 200: checkpointDiffSchema },
      faults: ['not_found', 'checkpoint_not_found', 'quota_exceeded', 'runner_unreachable'],
      handle: async (context) => {
        const to = context.query.get('to') ?? 'now'
        const given = [idOf(context), choiceOf(context), to, context.signal] as const
        if (!(context.req.headers.accept ?? '').includes('text/x-diff'))
          return { status: 200, json: await undoing.diff(...given) }
        const patch = await undoing.patch(...given)
        context.res.writeHead(200, { 'content-type': 'text/x-diff', 'content-length': patch.length }).end(patch)
        return undefined
      },
    },
    {
      method: 'post',
      path: '/v1/sessions/{id}/undo',
      operationId: 'undo',
      summary: "Brings a session's files back to before a turn; dryRun only says what it would do",
      body: undoSchema,
      answers: { 200: undoneSchema },
      faults: [
        'invalid_request',
        'not_found',
        'checkpoint_not_found',
        'workspace_busy',
        'checkpoint_conflict',
        'file_not_found',
        'quota_exceeded',
        'journal_full',
        'runner_unreachable',
      ],
      handle: async (context) => {
        const request = await readJson(context.req, undoSchema)
        return { status: 200, json: await undoing.undo(idOf(context), request, context.signal) }
      },
    },
  ]
}

// ---- details ----

const idOf = ({ params }: RequestContext): string => params['id'] ?? ''

const choiceOf = ({ query }: RequestContext): CheckpointChoice => ({
  toTurn: query.get('turn') ?? undefined,
  checkpoint: query.get('checkpoint') ?? undefined,
})
