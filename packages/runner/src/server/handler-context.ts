/** What the handlers share. */
import { Fault } from '@breakfall/faults'
import { EPOCH_HEADER } from '@breakfall/wire'
import { body, ID_PATTERN, invalidRequest } from '@breakfall/wire/internal'
import { readJson, type RequestContext, type RouteResult } from '@breakfall/wire/node'
import type { Box } from '../box/box.ts'
import type { Boxes } from '../box/boxes.ts'
import type { ExecView } from '../box/execs.ts'
import type { RunnerHost } from '../host/host.ts'
import type { RunnerMetrics } from './metrics.ts'
import type { RouteName } from '../contract/routes.ts'
import type { Identity } from '../host/identity.ts'
import { epochOf } from './access.ts'

export type ApiContext = {
  readonly identity: Identity
  readonly host: RunnerHost
  readonly boxes: Boxes
  readonly metrics: RunnerMetrics
  /** Aborted when the runner shuts down. */
  readonly closing: AbortSignal
  /** Several daemons use this runner: a change without an epoch is refused. */
  readonly needsEpoch: boolean
  readonly onCall: (route: RouteName) => void
}

export type RunnerCall = RequestContext
export type Handler = (call: RunnerCall) => Promise<RouteResult> | RouteResult

export function boxOf(context: ApiContext, call: RunnerCall): Box {
  return context.boxes.get(call.params['prefix'] ?? '', call.params['id'] ?? '')
}

/** For calls that change something: refused during shutdown, and for an owner that was replaced. */
export function boxToChange(context: ApiContext, call: RunnerCall, isEnding = false): Box {
  refuseWhileClosing(context)
  const epoch = epochToChange(context, call)
  const { prefix = '', id = '' } = call.params
  const box = context.boxes.find(prefix, id)
  if (box === undefined) context.host.fences.check(`${prefix}/${id}`, epoch) // a replaced owner learns that, not that there is no box
  box?.admit(epoch, isEnding)
  return box ?? boxOf(context, call)
}

/** The caller's epoch. A runner that several daemons use refuses changes without one. */
export function epochToChange(context: ApiContext, call: RunnerCall): number | undefined {
  const epoch = epochOf(call.req)
  if (epoch === undefined && context.needsEpoch)
    throw invalidRequest([{ field: EPOCH_HEADER, expected: "the owner's epoch, for every change", got: 'nothing' }])
  return epoch
}

/** The box's key in the fences; refuses names that no box or exec can have. */
export function keyOf(call: RunnerCall): string {
  const { prefix = '', id = '', execId } = call.params
  if (!ID_PATTERN.test(id) || (execId !== undefined && !ID_PATTERN.test(execId)))
    throw invalidRequest([
      { field: 'path', expected: 'ids of a box and an exec', got: `${id}/${execId ?? ''}`.slice(0, 50) },
    ])
  return `${prefix}/${id}`
}

/** For calls that end something. */
export const boxToEnd = (context: ApiContext, call: RunnerCall): Box => boxToChange(context, call, true)

/** For calls without a body: refuses any field, because sending one is a mistake. */
export async function refuseFields(call: RunnerCall): Promise<void> {
  await readJson(call, NO_FIELDS)
}

const NO_FIELDS = body({})

export function execOf(box: Box, call: RunnerCall): ExecView {
  const execId = call.params['execId'] ?? ''
  return box.findExec(execId) ?? box.execs.get(execId)
}

export function refuseWhileClosing(context: ApiContext): void {
  if (context.closing.aborted) throw new Fault('shutting_down', { boundary: 'runner' })
}
