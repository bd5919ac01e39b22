/** What the handlers share. */
import { Fault } from '@breakfall/faults'
import { body } from '@breakfall/wire'
import { readJson, type RequestContext, type RouteResult } from '@breakfall/wire/node'
import type { Box } from '../box/box.ts'
import type { Boxes } from '../box/boxes.ts'
import type { ExecView } from '../box/execs.ts'
import type { RunnerHost } from '../host.ts'
import type { RunnerMetrics } from '../metrics.ts'
import type { RouteName } from '../routes.ts'
import type { Identity } from '../state/identity.ts'
import { epochOf } from './access.ts'

export type ApiContext = {
  readonly identity: Identity
  readonly host: RunnerHost
  readonly boxes: Boxes
  readonly metrics: RunnerMetrics
  /** Aborted when the runner shuts down. */
  readonly closing: AbortSignal
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
  const epoch = epochOf(call.req)
  const box = boxOf(context, call)
  box.admit(epoch, isEnding)
  return box
}

/** For calls that end something. */
export const boxToEnd = (context: ApiContext, call: RunnerCall): Box => boxToChange(context, call, true)

/** For calls without a body: refuses any field, because sending one is a mistake. */
export async function refuseFields(call: RunnerCall): Promise<void> {
  await readJson(call.req, NO_FIELDS)
}

const NO_FIELDS = body({})

export function execOf(box: Box, call: RunnerCall): ExecView {
  return box.execs.get(call.params['execId'] ?? '')
}

export function refuseWhileClosing(context: ApiContext): void {
  if (context.closing.aborted) throw new Fault('shutting_down', { boundary: 'runner' })
}
