/**
 * Every call of the runner in one table, which the server, the client and the OpenAPI document use. Each row lists the faults
 * that the call can return.
 */
import type { FaultCategory } from '@breakfall/faults'
import {
  boxCreateSchema,
  boxNetworkSchema,
  networkAllowSchema,
  boxListSchema,
  boxOwnerSchema,
  boxSchema,
  checkpointCreateSchema,
  checkpointDiffSchema,
  checkpointListSchema,
  checkpointSchema,
  execListSchema,
  execRequestSchema,
  execSchema,
  execSignalSchema,
  fileListSchema,
  type OpenApiRoute,
  restoredSchema,
  restoreRequestSchema,
  runnerHealthSchema,
  EPOCH_HEADER,
  RUNNER_HEADER,
  boxPortCreateSchema,
  boxPortListSchema,
  boxPortSchema,
} from '@breakfall/wire'
import { processListSchema, invalidRequest } from '@breakfall/wire/internal'

const BOX = '/v1/{prefix}/boxes/{id}'
const EXEC = `${BOX}/execs/{execId}`
const CHECKPOINT = `${BOX}/checkpoints/{cid}`
const FILE = `${BOX}/files/{path+}`

const IF_IDLE = { ifIdle: '1: refuse with 409 if an exec is running' }

const headers = {
  [RUNNER_HEADER]: 'the id of the intended runner; any other runner answers 421 and does nothing',
  [EPOCH_HEADER]: "the caller's epoch; a lower one than the box has seen is refused with 409",
}

const everywhere = ['unauthorized', 'forbidden', 'runner_identity_mismatch', 'not_found'] as const
const onBox = [...everywhere, 'box_not_found', 'invalid_request'] as const
const mutating = [...onBox, 'lease_lost', 'shutting_down', 'journal_full'] as const
const onExec = [...onBox, 'exec_not_found'] as const

export const RUNNER_ROUTES = {
  health: {
    method: 'get',
    path: '/v1/health',
    operationId: 'health',
    summary: 'Identity and health of this runner',
    answers: { 200: runnerHealthSchema },
    open: true,
  },
  config: {
    method: 'get',
    path: '/v1/config',
    operationId: 'config',
    summary: 'Limits, isolation level and version of this runner',
    answers: { 200: 'application/json' },
    faults: everywhere,
  },
  openapi: {
    method: 'get',
    path: '/v1/openapi.json',
    operationId: 'openapi',
    summary: 'This document',
    answers: { 200: 'application/json' },
    faults: everywhere,
  },
  metrics: {
    method: 'get',
    path: '/metrics',
    operationId: 'metrics',
    summary: 'Prometheus text',
    answers: { 200: 'text/plain' },
    faults: everywhere,
  },
  createBox: {
    method: 'post',
    path: '/v1/{prefix}/boxes',
    operationId: 'createBox',
    summary: 'Create a box and start it',
    headers,
    body: boxCreateSchema,
    answers: { 201: boxSchema },
    faults: [...mutating, 'box_already_exists', 'quota_exceeded', 'isolation_unavailable'],
  },
  checkBox: {
    method: 'post',
    path: '/v1/{prefix}/boxes/check',
    operationId: 'checkBox',
    summary: 'Check what a new box would be, or why it would be refused; nothing is created',
    headers,
    body: boxCreateSchema,
    answers: { 200: boxSchema },
    faults: [...everywhere, 'invalid_request', 'quota_exceeded', 'isolation_unavailable'],
  },
  listBoxes: {
    method: 'get',
    path: '/v1/{prefix}/boxes',
    operationId: 'listBoxes',
    summary: 'The boxes of a prefix, by id',
    query: {
      cursor: '`next` of the previous page',
      limit: 'at most this many, from 1 to 1000',
      state: 'only boxes in this state',
    },
    answers: { 200: boxListSchema },
    faults: [...everywhere, 'invalid_request'],
  },
  getBox: {
    method: 'get',
    path: BOX,
    operationId: 'getBox',
    summary: 'One box',
    answers: { 200: boxSchema },
    faults: onBox,
  },
  ownBox: {
    method: 'put',
    path: `${BOX}/owner`,
    operationId: 'ownBox',
    summary: "Refuse every lower epoch from now on, with or without a box; answers with the new owner's epoch",
    headers,
    answers: { 200: boxOwnerSchema },
    faults: [...everywhere, 'invalid_request', 'lease_lost', 'shutting_down', 'journal_full'],
  },
  listProcesses: {
    method: 'get',
    path: `${BOX}/processes`,
    operationId: 'listProcesses',
    summary: 'The background processes of a box, with the ports that they listen on',
    answers: { 200: processListSchema },
    faults: onBox,
  },
  getNetwork: {
    method: 'get',
    path: `${BOX}/network`,
    operationId: 'getNetwork',
    summary: 'What a box may reach, and what it was refused',
    answers: { 200: boxNetworkSchema },
    faults: onBox,
  },
  setNetwork: {
    method: 'put',
    path: `${BOX}/network`,
    operationId: 'setNetwork',
    summary: 'Change the list of names that a box may reach; connections that are open stay',
    headers,
    body: networkAllowSchema,
    answers: { 200: boxNetworkSchema },
    faults: mutating,
  },
  openPort: {
    method: 'post',
    path: `${BOX}/ports`,
    operationId: 'openPort',
    summary: "Open a port of the box on the loopback of the runner's machine; needs --allow-ports",
    headers,
    body: boxPortCreateSchema,
    answers: { 201: boxPortSchema },
    faults: [...mutating, 'box_stopped', 'box_invalid_state', 'quota_exceeded', 'isolation_unavailable'],
  },
  listPorts: {
    method: 'get',
    path: `${BOX}/ports`,
    operationId: 'listPorts',
    summary: 'The ports of a box that are open on the host',
    answers: { 200: boxPortListSchema },
    faults: onBox,
  },
  closePort: {
    method: 'delete',
    path: `${BOX}/ports/{port}`,
    operationId: 'closePort',
    summary: 'Close a port on the host; connections that are open stay',
    headers,
    answers: { 204: null },
    faults: mutating,
  },
  startBox: {
    method: 'post',
    path: `${BOX}/start`,
    operationId: 'startBox',
    summary: 'Start a stopped box; no effect if it is running',
    headers,
    answers: { 200: boxSchema },
    faults: [...mutating, 'box_invalid_state', 'quota_exceeded'],
  },
  stopBox: {
    method: 'post',
    path: `${BOX}/stop`,
    operationId: 'stopBox',
    summary: 'End all execs of a box and stop it; no effect if it is stopped',
    headers,
    query: IF_IDLE,
    answers: { 200: boxSchema },
    faults: [...mutating, 'box_invalid_state'],
  },
  removeBox: {
    method: 'delete',
    path: BOX,
    operationId: 'removeBox',
    summary: 'Stop a box and remove it with its private files',
    headers,
    query: IF_IDLE,
    answers: { 204: null },
    faults: [...mutating, 'box_invalid_state'],
  },
  startExec: {
    method: 'post',
    path: `${BOX}/exec`,
    operationId: 'startExec',
    summary: 'Start a command; with Accept: text/event-stream the response is its events',
    headers,
    body: execRequestSchema,
    answers: { 200: execSchema, 201: execSchema },
    faults: [
      ...mutating,
      'box_stopped',
      'box_invalid_state',
      'exec_conflict',
      'quota_exceeded',
      'spawn_failed',
      'isolation_unavailable',
    ],
  },
  listExecs: {
    method: 'get',
    path: `${BOX}/execs`,
    operationId: 'listExecs',
    summary: 'The execs of a box, finished ones too, oldest first',
    query: { cursor: '`next` of the previous page', limit: 'at most this many, from 1 to 1000' },
    answers: { 200: execListSchema },
    faults: onBox,
  },
  getExec: {
    method: 'get',
    path: EXEC,
    operationId: 'getExec',
    summary: 'One exec, running or finished',
    answers: { 200: execSchema },
    faults: onExec,
  },
  execEvents: {
    method: 'get',
    path: `${EXEC}/events`,
    operationId: 'execEvents',
    summary: 'The events of an exec, live or finished, from any point; supports Last-Event-ID',
    query: { after: 'the seq of the last event you have' },
    answers: { 200: 'text/event-stream' },
    faults: onExec,
  },
  execOutput: {
    method: 'get',
    path: `${EXEC}/output/{stream}`,
    operationId: 'execOutput',
    summary:
      'The bytes of stdout or stderr; supports Range. 206 also if the beginning is no longer kept: Content-Range says what is',
    answers: { 200: 'application/octet-stream', 206: 'application/octet-stream' },
    faults: [...onExec, 'range_not_satisfiable'],
  },
  waitExec: {
    method: 'get',
    path: `${EXEC}/wait`,
    operationId: 'waitExec',
    summary: 'Wait until the exec is over; 202 with the current record after the timeout',
    query: { timeoutMs: 'how long to wait, from 0 to 3600000; default 60000' },
    answers: { 200: execSchema, 202: execSchema },
    faults: [...onExec, 'shutting_down'],
  },
  writeStdin: {
    method: 'post',
    path: `${EXEC}/stdin`,
    operationId: 'writeStdin',
    summary: 'Write to standard input; answers when the command or its pipe has accepted the bytes',
    query: { eof: '1: close the input after these bytes' },
    headers,
    body: 'application/octet-stream',
    answers: { 200: execSchema },
    faults: [...onExec, 'lease_lost', 'exec_finished', 'payload_too_large'],
  },
  restartExec: {
    method: 'post',
    path: `${EXEC}/restart`,
    operationId: 'restartExec',
    summary: 'End a background process, if it runs, and start it again as a new exec ID.2, ID.3 …',
    headers,
    answers: { 200: execSchema },
    faults: [...mutating, 'exec_not_found', 'exec_conflict', 'box_stopped', 'quota_exceeded', 'spawn_failed'],
  },
  signalExec: {
    method: 'post',
    path: `${EXEC}/signal`,
    operationId: 'signalExec',
    summary: 'Send a signal to its process group',
    headers,
    body: execSignalSchema,
    answers: { 200: execSchema },
    faults: [...onExec, 'lease_lost', 'exec_finished'],
  },
  killExec: {
    method: 'post',
    path: `${EXEC}/kill`,
    operationId: 'killExec',
    summary: 'End the exec and everything it started: SIGTERM, grace period, SIGKILL. Answers when it is over',
    headers,
    query: { burn: '1: an unknown exec never starts from now on, with or without a box' },
    answers: { 200: execSchema },
    faults: [...onExec, 'lease_lost', 'shutting_down', 'journal_full'],
  },
  readFile: {
    method: 'get',
    path: FILE,
    operationId: 'readFile',
    summary: 'Read a file of the workspace; supports Range, If-Range, If-Match and If-None-Match',
    answers: { 200: 'application/octet-stream', 206: 'application/octet-stream', 304: null },
    faults: [...onBox, 'file_not_found', 'range_not_satisfiable', 'precondition_failed'],
  },
  writeFile: {
    method: 'put',
    path: FILE,
    operationId: 'writeFile',
    summary: 'Write a file of the workspace atomically; creates missing folders',
    headers: {
      ...headers,
      'if-match': 'write only if the file has this ETag',
      'if-none-match': '*: write only if there is no file',
    },
    body: 'application/octet-stream',
    answers: { 200: 'application/json', 201: 'application/json' },
    faults: [
      ...mutating,
      'precondition_failed',
      'payload_too_large',
      'unsupported_media_type',
      'file_not_found',
      'box_invalid_state',
    ],
  },
  deleteFile: {
    method: 'delete',
    path: FILE,
    operationId: 'deleteFile',
    summary: 'Delete a file or an empty folder of the workspace',
    headers: { ...headers, 'if-match': 'delete only if the file has this ETag' },
    answers: { 204: null },
    faults: [...mutating, 'precondition_failed', 'file_not_found', 'box_invalid_state'],
  },
  listFiles: {
    method: 'get',
    path: `${BOX}/files`,
    operationId: 'listFiles',
    summary: 'Files of the workspace that match a glob, by path',
    query: {
      glob: 'for example src/**/*.ts; default: the top folder',
      cursor: '`next` of the previous page',
      limit: 'at most this many, from 1 to 1000',
    },
    answers: { 200: fileListSchema },
    faults: onBox,
  },
  takeCheckpoint: {
    method: 'post',
    path: `${BOX}/checkpoints`,
    operationId: 'takeCheckpoint',
    summary: 'Take a checkpoint of the workspace; commands do not wait for it',
    headers,
    body: checkpointCreateSchema,
    answers: { 201: checkpointSchema },
    faults: [...mutating, 'box_invalid_state', 'quota_exceeded', 'deadline_exceeded', 'file_not_found'],
  },
  listCheckpoints: {
    method: 'get',
    path: `${BOX}/checkpoints`,
    operationId: 'listCheckpoints',
    summary: 'The checkpoints of a box, oldest first, and those that were skipped',
    answers: { 200: checkpointListSchema },
    faults: onBox,
  },
  removeCheckpoint: {
    method: 'delete',
    path: CHECKPOINT,
    operationId: 'removeCheckpoint',
    summary: 'Remove a checkpoint',
    headers,
    answers: { 204: null },
    faults: [...mutating, 'box_invalid_state', 'checkpoint_not_found'],
  },
  diffCheckpoint: {
    method: 'get',
    path: `${CHECKPOINT}/diff`,
    operationId: 'diffCheckpoint',
    summary: 'What changed since a checkpoint; with Accept: text/x-diff as a patch',
    query: { to: 'now, or the id of a later checkpoint; default now' },
    answers: { 200: checkpointDiffSchema },
    faults: [...onBox, 'checkpoint_not_found', 'quota_exceeded', 'file_not_found', 'journal_full'],
  },
  restoreCheckpoint: {
    method: 'post',
    path: `${CHECKPOINT}/restore`,
    operationId: 'restoreCheckpoint',
    summary:
      'Bring files back to a checkpoint, after a safety checkpoint of what is there; dryRun only says what it would do',
    headers,
    body: restoreRequestSchema,
    answers: { 200: restoredSchema },
    faults: [
      ...mutating,
      'box_invalid_state',
      'checkpoint_not_found',
      'workspace_busy',
      'checkpoint_conflict',
      'quota_exceeded',
      'file_not_found',
    ],
  },
} as const satisfies Record<string, OpenApiRoute & { readonly faults?: readonly FaultCategory[] }>

export type RouteName = keyof typeof RUNNER_ROUTES

export const ROUTE_NAMES: readonly RouteName[] = Object.values(RUNNER_ROUTES).map(({ operationId }) => operationId)

/**
 * The path with its parameters escaped; a `path+` keeps its slashes. Refuses `..`, which no escape protects: a proxy that
 * normalizes the URL would turn it into another route.
 */
export function pathOf(name: RouteName, params: Readonly<Record<string, string>>): string {
  return RUNNER_ROUTES[name].path.replaceAll(/\{(\w+)(\+?)\}/g, (_, key: string, rest: string) => {
    const value = String(params[key] ?? '')
    const parts = rest === '' ? [value] : value.split('/')
    if (value === '' || parts.includes('..') || !value.isWellFormed())
      throw invalidRequest([
        {
          field: key,
          expected: rest === '' ? 'a name' : 'a path inside the workspace, without ".."',
          got: JSON.stringify(value.slice(0, 200)),
        },
      ])
    return parts.map(encodeURIComponent).join('/')
  })
}
