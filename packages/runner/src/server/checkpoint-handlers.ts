/** Checkpoints of a box over HTTP. */
import { Fault } from '@breakfall/faults'
import { checkpointCreateSchema, restoreRequestSchema } from '@breakfall/wire'
import { ID_PATTERN } from '@breakfall/wire/internal'
import { readJson, type RouteResult } from '@breakfall/wire/node'
import { type Checkpoints, requireCheckpoints } from '../checkpoint/checkpoints.ts'
import type { Box } from '../box/box.ts'
import { wrongState } from '../box/states.ts'
import { type ApiContext, boxOf, boxToChange, type Handler, refuseFields, type RunnerCall } from './handler-context.ts'

type Names = 'takeCheckpoint' | 'listCheckpoints' | 'removeCheckpoint' | 'diffCheckpoint' | 'restoreCheckpoint'

export function checkpointHandlers(context: ApiContext): Record<Names, Handler> {
  return {
    takeCheckpoint: async (call) => {
      boxToChange(context, call)
      const { label = null, limitMs } = await readJson(call, checkpointCreateSchema)
      const checkpoints = changeable(boxToChange(context, call))
      return { status: 201, json: await checkpoints.take(label, limitMs) }
    },
    listCheckpoints: (call) => ({ status: 200, json: requireCheckpoints(boxOf(context, call).checkpoints).list() }),
    removeCheckpoint: async (call) => {
      await refuseFields(call)
      await changeable(boxToChange(context, call)).remove(idOf(call))
      return { status: 204 }
    },
    diffCheckpoint: async (call) => {
      const checkpoints = requireCheckpoints(boxOf(context, call).checkpoints)
      const to = call.query.get('to') ?? 'now'
      if (!(call.req.headers.accept ?? '').includes('text/x-diff'))
        return { status: 200, json: await checkpoints.diff(idOf(call), named(to)) }
      return sendText(call, await checkpoints.textDiff(idOf(call), named(to)))
    },
    restoreCheckpoint: async (call) => {
      boxToChange(context, call)
      const request = await readJson(call, restoreRequestSchema)
      return { status: 200, json: await changeable(boxToChange(context, call)).restore(idOf(call), request) }
    },
  }
}

// ---- details ----

function changeable(box: Box): Checkpoints {
  if (box.state !== 'running' && box.state !== 'stopped') throw wrongState(box.id, box.state)
  return requireCheckpoints(box.checkpoints)
}

const idOf = (call: RunnerCall): string => named(call.params['cid'] ?? '')

function named(id: string): string {
  if (ID_PATTERN.test(id)) return id
  throw new Fault('checkpoint_not_found', { facts: { name: id.slice(0, 128) } })
}

function sendText(call: RunnerCall, bytes: Buffer): RouteResult {
  call.res.writeHead(200, { 'content-type': 'text/x-diff', 'content-length': String(bytes.length) }).end(bytes)
  return undefined
}
