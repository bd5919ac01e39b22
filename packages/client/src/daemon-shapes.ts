/** The same for lists, and for what the daemon says about itself. */
import { isObject } from '@breakfall/faults/internal'
import type {
  CheckpointDiff,
  ConsoleTicket,
  DaemonList,
  McpCalled,
  McpDetail,
  McpList,
  Pruned,
  RunnerList,
  RunnerView,
  Session,
  SessionCheckpoints,
  SessionFilter,
  SessionProcessList,
  StoppedProcess,
  Turn,
} from '@breakfall/wire'
import { fields, isNumber, isText, listOf, orUndefined, shape } from './check.ts'
import { isSession, isTurn } from './shapes.ts'

export type DaemonHealth = { readonly status: 'ok'; readonly version: string }
export type DaemonModel = { readonly name: string; readonly baseUrl: string }
export type DaemonReadiness = {
  readonly isReady: boolean
  readonly checks: Readonly<Record<string, string | boolean>>
}
export type SessionPage = {
  readonly sessions: readonly Session[]
  readonly next?: string | undefined
  readonly counts?: Readonly<Partial<Record<SessionFilter, number>>> | undefined
}
export type TurnPage = { readonly turns: readonly Turn[]; readonly next?: string | undefined }

/** From where to where. */
export type DiffQuery = {
  readonly turn?: string | undefined
  readonly checkpoint?: string | undefined
  /** `now`, `next` (up to the following turn), or the id of a checkpoint. Default: `now`. */
  readonly to?: string | undefined
}

export const isTicket = shape<ConsoleTicket>({ ticket: isText, expiresAt: isText })
export const isPruned = shape<Pruned>({ sessions: isNumber, bytes: isNumber })
export const isReleased = shape<{ readonly released: boolean }>({ released: (value) => typeof value === 'boolean' })
export const isRunnerView = shape<RunnerView>({ runnerId: isText, url: isText, state: isText })
export const isRunnerList = shape<RunnerList>({ runners: Array.isArray })
export const isDaemonList = shape<DaemonList>({ daemons: Array.isArray })
export const isMcpServer = shape<McpList['servers'][number]>({ name: isText, state: isText, tools: isNumber })
export const isMcpList = shape<McpList>({ servers: listOf(isMcpServer) })
export const isMcpDetail = shape<McpDetail>({ name: isText, state: isText, offered: Array.isArray, log: Array.isArray })
export const isMcpCalled = shape<McpCalled>({ outcome: isText, text: isText })
export const isCheckpoints = shape<SessionCheckpoints>({
  mode: isText,
  checkpoints: listOf(fields({ id: isText, at: isText, files: isNumber })),
  skipped: Array.isArray,
})
export const isProcessList = shape<SessionProcessList>({ processes: Array.isArray })
export const isStopped = shape<StoppedProcess>({ name: isText, end: isText })
export const isDiff = shape<CheckpointDiff>({
  files: listOf(fields({ path: isText, change: isText })),
})
export const isHealth = shape<DaemonHealth>({ status: (value) => value === 'ok', version: isText })
export const isModel = shape<DaemonModel>({ name: isText, baseUrl: isText })
export const isReadinessBody = shape<Pick<DaemonReadiness, 'checks'>>({ checks: isObject })
export const isSessionPage = shape<SessionPage>({
  sessions: listOf(isSession),
  next: orUndefined(isText),
})
export const isTurnPage = shape<TurnPage>({
  turns: listOf(isTurn),
  next: orUndefined(isText),
})
