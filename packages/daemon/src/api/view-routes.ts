/** Routes that look at more than one session, or at one from outside: the system, the watch, boxes, faults, exports, the gateway. */
import { readFileSync } from 'node:fs'
import { Fault, FAULTS, isFaultCategory } from '@breakfall/faults'
import {
  boxOverviewSchema,
  faultPageSchema,
  systemSchema,
  watchChangeSchema,
  watchSnapshotSchema,
} from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import type { Route } from '@breakfall/wire/node'
import type { Sessions } from '../engine/sessions.ts'
import type { SessionProcesses } from '../engine/session-processes.ts'
import type { Undoing } from '../engine/undo.ts'
import type { WatchHub } from '../engine/watch-hub.ts'
import type { DaemonLimits, DaemonOptions } from '../options.ts'
import type { Runners } from '../runner/runners.ts'
import type { SystemView } from '../system.ts'
import { boxesAt } from './boxes.ts'
import { checkpointRoutes } from './checkpoint-routes.ts'
import { processRoutes } from './process-routes.ts'
import { sendBundle } from './export.ts'
import { streamWatch } from './watch.ts'

export type ViewParts = {
  readonly undoing: Undoing
  readonly processes: SessionProcesses
  readonly system: SystemView
  readonly hub: WatchHub
  readonly limits: DaemonLimits
  readonly sessions: Sessions
  readonly runner: Runners
  readonly options: Pick<DaemonOptions, 'gateway' | 'faultPage'>
}

export function viewRoutes(parts: ViewParts): readonly Route[] {
  const { system, hub, limits, sessions, runner, options } = parts
  return [
    ...checkpointRoutes(parts.undoing),
    ...processRoutes(parts.processes),
    {
      method: 'get',
      path: '/v1/system',
      operationId: 'getSystem',
      summary: 'The daemon, its journal, its runner and its model server',
      answers: { 200: systemSchema },
      handle: async () => ({ status: 200, json: await system.read() }),
    },
    {
      method: 'get',
      path: '/v1/watch',
      operationId: 'watch',
      summary: 'A snapshot of all sessions with work, then every change, as SSE: `snapshot` once, then `watch`',
      answers: { 200: { sse: { snapshot: watchSnapshotSchema, watch: watchChangeSchema } } },
      handle: async (context) => {
        await streamWatch(context, hub, limits)
        return undefined
      },
    },
    {
      method: 'get',
      path: '/v1/boxes',
      operationId: 'listBoxes',
      summary: "The runner's boxes, with the commands that run in them",
      answers: { 200: boxOverviewSchema },
      faults: ['runner_unreachable'],
      handle: async ({ signal }) => ({ status: 200, json: await boxesAt(runner, signal) }),
    },
    {
      method: 'get',
      path: '/v1/sessions/{id}/export',
      operationId: 'exportSession',
      summary: 'The session as NDJSON: a `bundle` line, then its events as they are in the journal',
      query: { redact: 'text: without prompts, answers, commands and output' },
      answers: { 200: 'application/x-ndjson' },
      faults: ['invalid_request', 'not_found', 'journal_corrupt'],
      handle: async (context) => {
        const redact = context.query.get('redact')
        if (redact !== null && redact !== 'text')
          throw invalidRequest([{ field: 'redact', expected: 'text', got: redact.slice(0, 100) }])
        await sendBundle(context, sessions, () => system.read())
        return undefined
      },
    },
    {
      method: 'get',
      path: '/v1/faults/{category}',
      operationId: 'getFault',
      summary: 'One category, with its documentation page',
      answers: { 200: faultPageSchema },
      faults: ['not_found'],
      handle: ({ params }) => ({ status: 200, json: faultPageOf(params['category'] ?? '', options.faultPage) }),
    },
    {
      method: 'get',
      path: '/v1/gateway',
      operationId: 'getGateway',
      summary: 'The live streams of the gateway that `up --gateway` runs beside the daemon',
      answers: { 200: 'application/json' },
      faults: ['not_found'],
      handle: () => {
        const snapshot = options.gateway?.()
        if (snapshot === undefined) throw new Fault('not_found', { facts: { name: 'gateway beside this daemon' } })
        return { status: 200, json: snapshot }
      },
    },
  ]
}

// ---- details ----

function faultPageOf(category: string, fileOf: DaemonOptions['faultPage']): object {
  if (!isFaultCategory(category)) throw new Fault('not_found', { facts: { name: 'such category' } })
  return { category, ...FAULTS[category], docs: `docs/faults/${category}.md`, page: pageIn(fileOf?.(category)) }
}

function pageIn(file: string | undefined): string | null {
  try {
    return file === undefined ? null : readFileSync(file, 'utf8')
  } catch {
    return null // not part of this installation
  }
}
