/**
 * Every operation of the daemon, once. Its routes and its OpenAPI document, the methods of its WebSocket, the client and the console's
 * calls follow from this table: a row without a handler does not compile, and neither does a call to an address that is not here.
 * What changes nothing is a GET, and needs no more than a read token.
 */
import type { z } from 'zod'
import { checkpointDiffSchema, sessionCheckpointsSchema, undoneSchema, undoSchema } from './checkpoint-api.ts'
import {
  boxOverviewSchema,
  chaosKillSchema,
  chaosNextSchema,
  chaosPlanSchema,
  chaosSchema,
  consoleTicketCreateSchema,
  consoleTicketSchema,
  consoleTokenCreateSchema,
  consoleTokenSchema,
  faultOccurrencesSchema,
  faultPageSchema,
  faultsSeenSchema,
  systemSchema,
  watchChangeSchema,
  watchSnapshotSchema,
} from './console-api.ts'
import {
  streamNoticeSchema,
  boxReleasedSchema,
  boxReleaseSchema,
  daemonHealthSchema,
  daemonModelSchema,
  daemonReadySchema,
  faultListSchema,
  prunedSchema,
  pruneSchema,
  sessionCreateSchema,
  sessionListSchema,
  sessionPatchSchema,
  sessionSchema,
  turnApproveSchema,
  turnCancelSchema,
  turnCreateSchema,
  turnListSchema,
  turnReceiptSchema,
  turnResumeSchema,
  turnSchema,
} from './daemon-api.ts'
import { eventSchemas } from './events.ts'
import {
  daemonListSchema,
  runnerEnrolledSchema,
  runnerEnrollSchema,
  runnerJoinedSchema,
  runnerJoinSchema,
  runnerListSchema,
  runnerSchema,
} from './fleet-api.ts'
import {
  mcpCalledSchema,
  mcpCallSchema,
  mcpDetailSchema,
  mcpListSchema,
  mcpRestartSchema,
  mcpServerSchema,
} from './mcp-api.ts'
import { SESSION_FILTERS, type WsMethod } from './names.ts'
import type { OpenApiRoute } from './openapi.ts'
import { sessionProcessListSchema, stoppedProcessSchema } from './process-api.ts'

export type Operation = Omit<OpenApiRoute, 'method' | 'path' | 'operationId'> & {
  /** Method and path. Parameters are in braces. */
  readonly at: `${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} /${string}`
  /** A caller that lost the answer must not send it again. Everything else is safe to repeat: by its key, or by its nature. */
  readonly once?: true
  /** The method of the WebSocket that does the same. */
  readonly socket?: WsMethod
}

/** By the name of the event. */
const EVENT_STREAM = { ...eventSchemas, reset: streamNoticeSchema, closed: streamNoticeSchema }

const TABLE = {
  createSession: {
    at: 'POST /v1/sessions',
    summary: 'A new session',
    headers: { 'idempotency-key': 'the same key gets the same session' },
    body: sessionCreateSchema,
    answers: { 201: sessionSchema },
    faults: ['invalid_request', 'quota_exceeded', 'isolation_unavailable', 'shutting_down', 'idempotency_conflict'],
  },
  listSessions: {
    at: 'GET /v1/sessions',
    socket: 'sessions',
    summary: 'Sessions, newest first',
    query: {
      state: `any of ${SESSION_FILTERS.join(', ')}, by comma; needs: what waits for a person, idle: no turn yet`,
      class: 'the class of the fault of its last turn',
      category: 'the category of that fault',
      q: 'part of the title, the last prompt or the folder, or the start of the id',
      workspace: 'the host folder of its box',
      since: 'changed at or after this time',
      limit: '1 to 100',
      cursor: 'the `next` of the previous page',
      counts: '1: with the number of sessions per state',
    },
    answers: { 200: sessionListSchema },
    faults: ['invalid_request'],
  },
  getSession: {
    at: 'GET /v1/sessions/{id}',
    socket: 'session',
    summary: 'One session',
    answers: { 200: sessionSchema },
    faults: ['not_found'],
  },
  changeSession: {
    at: 'PATCH /v1/sessions/{id}',
    summary: 'Changes the title, and the model and its provider for the next turn',
    body: sessionPatchSchema,
    answers: { 200: sessionSchema },
    faults: ['invalid_request', 'not_found', 'journal_full', 'shutting_down'],
  },
  deleteSession: {
    at: 'DELETE /v1/sessions/{id}',
    summary: "Ends a session's turns and deletes it with its box",
    query: { ifEnded: '1: refuse with 409 if a turn is unfinished' },
    answers: { 204: null },
    faults: ['not_found', 'session_busy'],
  },
  releaseBox: {
    at: 'POST /v1/sessions/{id}/release',
    summary: 'Releases the box of an idle session now; the next tool gets it back',
    body: boxReleaseSchema,
    answers: { 200: boxReleasedSchema },
    faults: ['not_found'],
  },
  prune: {
    at: 'POST /v1/prune',
    summary: 'Deletes sessions that have ended, or says how many it would delete',
    body: pruneSchema,
    answers: { 200: prunedSchema },
    faults: ['invalid_request', 'shutting_down'],
  },
  createTurn: {
    at: 'POST /v1/sessions/{id}/turns',
    socket: 'prompt',
    summary: 'A prompt: starts a turn, or queues one',
    headers: { 'idempotency-key': 'the same key gets the same receipt, also after a restart' },
    body: turnCreateSchema,
    answers: { 202: turnReceiptSchema },
    faults: [
      'invalid_request',
      'not_found',
      'session_busy',
      'idempotency_conflict',
      'journal_full',
      'quota_exceeded',
      'isolation_unavailable',
    ],
  },
  listTurns: {
    at: 'GET /v1/sessions/{id}/turns',
    summary: "A session's turns, newest first",
    query: { cursor: 'the `next` of the previous page' },
    answers: { 200: turnListSchema },
    faults: ['invalid_request', 'not_found'],
  },
  getOutput: {
    at: 'GET /v1/sessions/{id}/execs/{execId}/output/{stream}',
    summary: "All bytes that a tool's command printed, from the runner; stream is stdout or stderr",
    headers: { range: 'bytes=FROM-TO' },
    answers: { 200: 'application/octet-stream', 206: 'application/octet-stream' },
    faults: ['not_found', 'exec_not_found', 'range_not_satisfiable', 'runner_unreachable'],
  },
  streamEvents: {
    at: 'GET /v1/sessions/{id}/events',
    socket: 'subscribe',
    summary: 'Events as SSE: replay after the cursor, then live',
    query: { after: 'JOURNAL-SEQ or a bare seq' },
    headers: { 'last-event-id': 'the same, as browsers send it' },
    answers: { 200: { sse: EVENT_STREAM } },
    faults: ['invalid_request', 'not_found', 'journal_corrupt'],
  },
  getTurn: {
    at: 'GET /v1/turns/{id}',
    summary: 'One turn',
    answers: { 200: turnSchema },
    faults: ['not_found'],
  },
  cancelTurn: {
    at: 'POST /v1/turns/{id}/cancel',
    socket: 'cancel',
    summary: 'Ends a turn in any phase',
    body: turnCancelSchema,
    answers: { 200: turnSchema, 202: turnSchema },
    faults: ['not_found'],
  },
  resumeTurn: {
    at: 'POST /v1/turns/{id}/resume',
    socket: 'resume',
    summary:
      'Wakes a parked turn now, or ends the wait before a retry; it may bring a key for the provider of the turn',
    body: turnResumeSchema,
    answers: { 202: turnSchema },
    faults: ['invalid_request', 'not_found', 'turn_not_parked'],
  },
  approveCall: {
    at: 'POST /v1/turns/{id}/approve',
    summary: 'Answers a tool call that waits for an approval',
    body: turnApproveSchema,
    answers: { 202: turnSchema },
    faults: ['invalid_request', 'not_found', 'turn_not_parked'],
  },
  webSocket: {
    at: 'GET /v1/ws',
    summary: 'The same operations and events over a WebSocket; requires `Upgrade: websocket`',
    answers: { 101: null },
    faults: ['invalid_request'],
  },
  getModel: {
    at: 'GET /v1/model',
    summary: 'The model server in use, and the model of sessions that name none',
    answers: { 200: daemonModelSchema },
  },
  listFaults: {
    at: 'GET /v1/faults',
    summary: 'Every category with its class, its status and its next step',
    answers: { 200: faultListSchema },
  },
  health: {
    at: 'GET /v1/health',
    summary: 'The daemon runs',
    open: true,
    answers: { 200: daemonHealthSchema },
  },
  ready: {
    at: 'GET /v1/ready',
    summary: 'The daemon accepts prompts',
    open: true,
    answers: { 200: daemonReadySchema, 503: daemonReadySchema },
  },
  metrics: {
    at: 'GET /metrics',
    summary: 'Prometheus text',
    answers: { 200: 'text/plain' },
  },
  listDaemons: {
    at: 'GET /v1/daemons',
    summary: 'The daemons that share the store, also those that died within the last day',
    answers: { 200: daemonListSchema },
  },
  drainDaemon: {
    at: 'POST /v1/daemons/{bootId}/drain',
    summary: 'Hands over the sessions of a daemon; it claims no more',
    answers: { 202: daemonListSchema },
    faults: ['not_found'],
  },
  listRunners: {
    at: 'GET /v1/runners',
    summary: 'The runners that joined',
    answers: { 200: runnerListSchema },
  },
  enrollRunner: {
    at: 'POST /v1/runners/enroll',
    once: true,
    summary: 'The token of a runner, for a code of "breakfall fleet enroll" in place of a token; once for each code',
    open: true,
    body: runnerEnrollSchema,
    answers: { 200: runnerEnrolledSchema },
    faults: ['unauthorized', 'invalid_request'],
  },
  getRunner: {
    at: 'GET /v1/runners/{id}',
    summary: 'One of them',
    answers: { 200: runnerSchema },
    faults: ['not_found'],
  },
  joinRunner: {
    at: 'PUT /v1/runners/{id}',
    summary:
      "A runner says where and how it is, with its own token; it is believed if it answers there (202: it doesn't)",
    open: true,
    body: runnerJoinSchema,
    answers: { 200: runnerJoinedSchema, 202: runnerJoinedSchema },
    faults: ['unauthorized', 'invalid_request'],
  },
  drainRunner: {
    at: 'POST /v1/runners/{id}/drain',
    summary: 'Places no more sessions there; those that are there stay until they end',
    answers: { 200: runnerSchema },
    faults: ['not_found'],
  },
  dropRunner: {
    at: 'POST /v1/runners/{id}/drop',
    summary: 'Declares it lost: what ran there is unknown, and its sessions get boxes at other runners',
    answers: { 200: runnerSchema },
    faults: ['not_found'],
  },
  console: {
    at: 'GET /',
    summary: 'The console, for a browser',
    open: true,
    answers: { 200: 'text/html', 503: 'text/html' },
  },
  consoleFile: {
    at: 'GET /assets/{file}',
    summary: "One of the console's files",
    open: true,
    answers: { 200: 'application/octet-stream', 304: null },
    faults: ['not_found'],
  },
  createConsoleTicket: {
    at: 'POST /v1/console/tickets',
    summary: 'A ticket for a browser: valid once, for two minutes, in the address as #ticket=…',
    body: consoleTicketCreateSchema,
    answers: { 201: consoleTicketSchema },
    faults: ['forbidden'],
  },
  createConsoleToken: {
    at: 'POST /v1/console/tokens',
    once: true,
    summary: 'A token for a ticket. It is valid for twelve hours, also after a restart',
    open: true,
    body: consoleTokenCreateSchema,
    answers: { 201: consoleTokenSchema },
    faults: ['invalid_request', 'unauthorized', 'quota_exceeded'],
  },
  listFaultsSeen: {
    at: 'GET /v1/faults/seen',
    summary: 'Faults of all sessions by fingerprint, latest first',
    query: {
      since: 'counts what happened at or after this time',
      class: 'the class of the fault',
      open: '1: only groups with a fault that is open or parks its turn',
      limit: '1 to 100',
      cursor: 'the `next` of the previous page',
    },
    answers: { 200: faultsSeenSchema },
    faults: ['invalid_request'],
  },
  listFaultOccurrences: {
    at: 'GET /v1/faults/seen/{fingerprint}',
    summary: 'One group and its occurrences, latest first',
    query: {
      since: 'only what happened at or after this time',
      limit: '1 to 100',
      cursor: 'the `next` of the previous page',
    },
    answers: { 200: faultOccurrencesSchema },
    faults: ['invalid_request', 'not_found'],
  },
  listCheckpoints: {
    at: 'GET /v1/sessions/{id}/checkpoints',
    summary: "The checkpoints of a session's files, oldest first, with the turn that each was taken before",
    answers: { 200: sessionCheckpointsSchema },
    faults: ['not_found', 'runner_unreachable'],
  },
  diffSession: {
    at: 'GET /v1/sessions/{id}/diff',
    summary: 'What changed since a checkpoint; with Accept: text/x-diff as a patch',
    query: {
      turn: 'since before this turn; default: the newest turn that has a checkpoint',
      checkpoint: 'since this checkpoint',
      to: 'now, next (up to the following turn), or the id of a checkpoint; default now',
    },
    answers: { 200: checkpointDiffSchema },
    faults: ['not_found', 'checkpoint_not_found', 'quota_exceeded', 'runner_unreachable'],
  },
  undo: {
    at: 'POST /v1/sessions/{id}/undo',
    once: true,
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
  },
  listProcesses: {
    at: 'GET /v1/processes',
    summary: 'The background processes of all sessions, or of one, with the ports that they listen on',
    query: { session: 'only those of this session' },
    answers: { 200: sessionProcessListSchema },
    faults: ['not_found', 'runner_unreachable'],
  },
  stopProcess: {
    at: 'POST /v1/sessions/{id}/processes/{process}/stop',
    summary: 'Stops a background process, by its name or the id of its exec',
    answers: { 200: stoppedProcessSchema },
    faults: ['not_found', 'exec_not_found', 'lease_lost', 'runner_unreachable'],
  },
  getSystem: {
    at: 'GET /v1/system',
    summary: 'The daemon, its journal, its runner and its model server',
    answers: { 200: systemSchema },
  },
  watch: {
    at: 'GET /v1/watch',
    socket: 'watch',
    summary: 'A snapshot of all sessions with work, then every change, as SSE: `snapshot` once, then `watch`',
    answers: { 200: { sse: { snapshot: watchSnapshotSchema, watch: watchChangeSchema } } },
  },
  listBoxes: {
    at: 'GET /v1/boxes',
    summary: "The runner's boxes, with the commands that run in them",
    answers: { 200: boxOverviewSchema },
    faults: ['runner_unreachable'],
  },
  exportSession: {
    at: 'GET /v1/sessions/{id}/export',
    summary: 'The session as NDJSON: a `bundle` line, then its events as they are in the journal',
    query: { redact: 'text: without prompts, answers, commands and output' },
    answers: { 200: 'application/x-ndjson' },
    faults: ['invalid_request', 'not_found', 'journal_corrupt'],
  },
  getFault: {
    at: 'GET /v1/faults/{category}',
    summary: 'One category, with its documentation page',
    answers: { 200: faultPageSchema },
    faults: ['not_found'],
  },
  getGateway: {
    at: 'GET /v1/gateway',
    summary: 'The live streams of the gateway that `up --gateway` runs beside the daemon',
    answers: { 200: 'application/json' },
    faults: ['not_found'],
  },
  getChaos: {
    at: 'GET /v1/chaos',
    summary: 'The plan of faults, and what was injected',
    answers: { 200: chaosSchema },
  },
  setChaosPlan: {
    at: 'PUT /v1/chaos/plan',
    summary: 'Which faults are injected from now on',
    body: chaosPlanSchema,
    answers: { 200: chaosSchema },
    faults: ['invalid_request'],
  },
  injectNext: {
    at: 'POST /v1/chaos/next',
    summary: 'Breaks the next answer of the model',
    body: chaosNextSchema,
    answers: { 202: chaosSchema },
    faults: ['invalid_request'],
  },
  kill: {
    at: 'POST /v1/chaos/kill',
    summary: 'Kills the daemon or the runner, or moves the runner to another port',
    body: chaosKillSchema,
    answers: { 202: chaosKillSchema },
    faults: ['invalid_request'],
  },
  listMcpServers: {
    at: 'GET /v1/mcp',
    summary: 'The MCP servers, and how they are',
    answers: { 200: mcpListSchema },
  },
  getMcpServer: {
    at: 'GET /v1/mcp/{name}',
    summary: 'One MCP server, with its tools and its last lines',
    answers: { 200: mcpDetailSchema },
    faults: ['not_found'],
  },
  restartMcpServer: {
    at: 'POST /v1/mcp/{name}/restart',
    summary: 'Restarts an MCP server, or connects to it again',
    body: mcpRestartSchema,
    answers: { 202: mcpServerSchema },
    faults: ['not_found'],
  },
  callMcpTool: {
    at: 'POST /v1/mcp/{name}/call',
    once: true,
    summary: "Calls a server's tool once, outside of any session",
    body: mcpCallSchema,
    answers: { 200: mcpCalledSchema },
    faults: ['not_found', 'tool_not_offered', 'mcp_server_failed', 'mcp_unreachable', 'mcp_auth_failed'],
  },
  openApi: {
    at: 'GET /v1/openapi.json',
    summary: 'This API as an OpenAPI document',
    open: true,
    answers: { 200: 'application/json' },
  },
} as const satisfies Record<string, Operation>

type Table = typeof TABLE

export type OperationId = keyof Table

export const OPERATIONS: Readonly<Record<OperationId, Operation>> = TABLE

/** Method and path of an operation, as a caller names it. */
export type OperationAt = Table[OperationId]['at']

export type OperationParams<Id extends OperationId> = Readonly<Record<ParamsIn<Table[Id]['at']>, string>>

/** A body, after its check. */
export type OperationBody<Id extends OperationId> = Table[Id] extends { readonly body: infer S extends z.ZodType }
  ? z.output<S>
  : undefined

/** What callers say and get, by the address. Types only, so that a browser needs no schemas. */
export type OperationCalls = {
  readonly [Id in OperationId as Table[Id]['at']]: {
    readonly params: ParamsIn<Table[Id]['at']>
    readonly query: Table[Id] extends { readonly query: infer Query } ? keyof Query : never
    readonly body: Table[Id] extends { readonly body: infer S extends z.ZodType } ? z.input<S> : undefined
    readonly answer: JsonIn<Table[Id]['answers'][keyof Table[Id]['answers']]>
    readonly once: Table[Id] extends { readonly once: true } ? true : false
  }
}

// ---- details ----

type ParamsIn<At extends string> = At extends `${string}{${infer Name}}${infer Rest}` ? Name | ParamsIn<Rest> : never
type JsonIn<Answer> = Answer extends z.ZodType ? z.output<Answer> : never
