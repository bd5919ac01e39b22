/**
 * Every call of the runner, once: the server serves this table, the client calls by it and OpenAPI is made from it.
 * What a call can be refused with is part of its row.
 */
import type { FaultCategory } from '@breakfall/faults'
import {
  boxCreateSchema,
  boxListSchema,
  boxSchema,
  EPOCH_HEADER,
  execListSchema,
  execRequestSchema,
  execSchema,
  execSignalSchema,
  fileListSchema,
  invalidRequest,
  type OpenApiRoute,
  RUNNER_HEADER,
  runnerHealthSchema,
} from '@breakfall/wire'

const BOX = '/v1/{prefix}/boxes/{id}'
const EXEC = `${BOX}/execs/{execId}`
const FILE = `${BOX}/files/{path+}`

const headers = {
  [RUNNER_HEADER]: 'the id of the runner that is meant; another one answers 421 and does nothing',
  [EPOCH_HEADER]: 'the owner calling; one lower than seen for this box is refused with 409 and nothing is done',
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
    summary: 'Who answers here',
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
    summary: 'Create a box; it is running when the answer comes',
    headers,
    body: boxCreateSchema,
    answers: { 201: boxSchema },
    faults: [...mutating, 'box_already_exists', 'quota_exceeded', 'isolation_unavailable'],
  },
  checkBox: {
    method: 'post',
    path: '/v1/{prefix}/boxes/check',
    operationId: 'checkBox',
    summary: 'What a box would be, or why it would be refused; nothing is made',
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
    query: { cursor: 'where the last page ended', limit: 'at most this many, from 1 to 1000' },
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
  startBox: {
    method: 'post',
    path: `${BOX}/start`,
    operationId: 'startBox',
    summary: 'Start a stopped box; a running one stays as it is',
    headers,
    answers: { 200: boxSchema },
    faults: [...mutating, 'box_invalid_state'],
  },
  stopBox: {
    method: 'post',
    path: `${BOX}/stop`,
    operationId: 'stopBox',
    summary: 'End all execs of a box and stop it; a stopped one stays as it is',
    headers,
    answers: { 200: boxSchema },
    faults: [...mutating, 'box_invalid_state'],
  },
  removeBox: {
    method: 'delete',
    path: BOX,
    operationId: 'removeBox',
    summary: 'Stop a box and remove it with its private files',
    headers,
    answers: { 204: null },
    faults: mutating,
  },
  startExec: {
    method: 'post',
    path: `${BOX}/exec`,
    operationId: 'startExec',
    summary: 'Start a command; with Accept: text/event-stream the answer is its events',
    headers,
    body: execRequestSchema,
    answers: { 200: execSchema, 201: execSchema },
    faults: [...mutating, 'box_stopped', 'box_invalid_state', 'exec_conflict', 'quota_exceeded', 'spawn_failed'],
  },
  listExecs: {
    method: 'get',
    path: `${BOX}/execs`,
    operationId: 'listExecs',
    summary: 'The execs of a box, finished ones too, oldest first',
    query: { cursor: 'where the last page ended', limit: 'at most this many, from 1 to 1000' },
    answers: { 200: execListSchema },
    faults: onBox,
  },
  getExec: {
    method: 'get',
    path: EXEC,
    operationId: 'getExec',
    summary: 'One exec, kept after its end',
    answers: { 200: execSchema },
    faults: onExec,
  },
  execEvents: {
    method: 'get',
    path: `${EXEC}/events`,
    operationId: 'execEvents',
    summary: 'Its events from any point, live or over; Last-Event-ID works too',
    query: { after: 'the seq of the last event you have' },
    answers: { 200: 'text/event-stream' },
    faults: onExec,
  },
  execOutput: {
    method: 'get',
    path: `${EXEC}/output/{stream}`,
    operationId: 'execOutput',
    summary: 'The bytes of stdout or stderr; Range works',
    answers: { 200: 'application/octet-stream', 206: 'application/octet-stream' },
    faults: [...onExec, 'range_not_satisfiable'],
  },
  waitExec: {
    method: 'get',
    path: `${EXEC}/wait`,
    operationId: 'waitExec',
    summary: 'The record as soon as the exec is over; 202 with the record so far when the time is up',
    query: { timeoutMs: 'how long to wait, from 0 to 3600000; 60000 where left out' },
    answers: { 200: execSchema, 202: execSchema },
    faults: [...onExec, 'shutting_down'],
  },
  writeStdin: {
    method: 'post',
    path: `${EXEC}/stdin`,
    operationId: 'writeStdin',
    summary: 'Bytes for its standard input; answered when the command, or the pipe before it, has taken them',
    query: { eof: '1: close the input after these bytes' },
    headers,
    body: 'application/octet-stream',
    answers: { 200: execSchema },
    faults: [...onExec, 'lease_lost', 'exec_finished', 'payload_too_large'],
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
    summary: 'End it and everything it started: SIGTERM, its grace, SIGKILL. Answered when it is over',
    headers,
    answers: { 200: execSchema },
    faults: [...onExec, 'lease_lost'],
  },
  readFile: {
    method: 'get',
    path: FILE,
    operationId: 'readFile',
    summary: 'A file of the workspace; Range, If-Range, If-Match and If-None-Match work',
    answers: { 200: 'application/octet-stream', 206: 'application/octet-stream', 304: null },
    faults: [...onBox, 'file_not_found', 'range_not_satisfiable', 'precondition_failed'],
  },
  writeFile: {
    method: 'put',
    path: FILE,
    operationId: 'writeFile',
    summary: 'Write a file of the workspace, whole or not at all; missing folders are made',
    headers: {
      ...headers,
      'if-match': 'write only over the version with this ETag',
      'if-none-match': '*: only where there is none',
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
    headers: { ...headers, 'if-match': 'delete only the version with this ETag' },
    answers: { 204: null },
    faults: [...mutating, 'precondition_failed', 'file_not_found', 'box_invalid_state'],
  },
  listFiles: {
    method: 'get',
    path: `${BOX}/files`,
    operationId: 'listFiles',
    summary: 'Files of the workspace that match a glob, by path',
    query: {
      glob: 'e.g. src/**/*.ts; left out: the top folder',
      cursor: 'where the last page ended',
      limit: 'at most this many, from 1 to 1000',
    },
    answers: { 200: fileListSchema },
    faults: onBox,
  },
} as const satisfies Record<string, OpenApiRoute & { readonly faults?: readonly FaultCategory[] }>

export type RouteName = keyof typeof RUNNER_ROUTES

/**
 * The path of a call, with its parameters escaped. A `path+` keeps its slashes. What would lead to another route once
 * somebody on the way tidies the URL up is refused here, since no escape protects `..`.
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
