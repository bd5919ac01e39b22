/** What the daemon says about itself: whether it is well, what it knows, and what runs now. */
import { readFileSync } from 'node:fs'
import { Fault, FAULTS, isFaultCategory } from '@breakfall/faults'
import { API_NUMBER, type DaemonModel, type DaemonReady, type FaultList, openApiDocument } from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import type { Runners, WatchHub } from '@breakfall/engine'
import type { DaemonLimits, DaemonOptions } from '../options.ts'
import type { SystemView } from '../system.ts'
import { boxesAt } from './boxes.ts'
import { Reply, type SomeHandlers } from './routes.ts'
import { streamWatch } from './watch.ts'

type SystemParts = {
  readonly version: string
  readonly ready: () => Promise<DaemonReady>
  /** The model server in use. */
  readonly model: () => Promise<DaemonModel>
  readonly metricsText: () => Promise<string>
  readonly system: SystemView
  readonly hub: WatchHub
  readonly limits: DaemonLimits
  readonly runners: Runners
  readonly options: Pick<DaemonOptions, 'gateway' | 'faultPage'>
  /** The routes that are served. */
  readonly routes: () => Parameters<typeof openApiDocument>[1]
}

export function systemHandlers(parts: SystemParts) {
  const { version, options } = parts
  let document: object | undefined // built on first use: it takes milliseconds, and the route needs no token
  return {
    health: () => ({ status: 'ok', version, api: API_NUMBER }),
    ready: async () => {
      const ready = await parts.ready()
      return ready.status === 'ready' ? ready : new Reply(503, ready, { 'retry-after': '1' })
    },
    metrics: async ({ res }) => {
      res.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }).end(await parts.metricsText())
    },
    openApi: () => (document ??= openApiDocument({ title: 'Breakfall daemon', version }, parts.routes())),
    webSocket: () => {
      throw invalidRequest([
        { field: 'Upgrade', expected: 'websocket, the only protocol at this address', got: 'nothing' },
      ])
    },
    getModel: () => parts.model(),
    getSystem: () => parts.system.read(),
    watch: (context) => streamWatch(context, parts.hub, parts.limits),
    listBoxes: ({ signal }) => boxesAt(parts.runners, signal),
    listFaults: () => ({ faults: catalogue() }),
    getFault: ({ params }) => faultPageOf(params.category, options.faultPage),
    getGateway: () => {
      const snapshot = options.gateway?.()
      if (snapshot === undefined) throw new Fault('not_found', { facts: { name: 'gateway beside this daemon' } })
      return snapshot
    },
  } satisfies SomeHandlers
}

// ---- details ----

const catalogue = (): FaultList['faults'] =>
  Object.entries(FAULTS).map(([category, row]) => ({ category, ...row, docs: `docs/faults/${category}.md` }))

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
