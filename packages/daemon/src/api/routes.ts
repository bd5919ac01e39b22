/** The daemon's routes, as data: names, parameters, responses and handlers. */
import { traceparentIn } from '@breakfall/model/internal'
import { FAULTS } from '@breakfall/faults'
import {
  API_NUMBER,
  boxReleasedSchema,
  boxReleaseSchema,
  daemonHealthSchema,
  type DaemonModel,
  daemonModelSchema,
  type DaemonReady,
  daemonReadySchema,
  type FaultList,
  eventSchemas,
  faultListSchema,
  openApiDocument,
  prunedSchema,
  pruneSchema,
  sessionCreateSchema,
  SESSION_FILTERS,
  sessionListSchema,
  sessionPatchSchema,
  sessionSchema,
  streamNoticeSchema,
  turnApproveSchema,
  turnCancelSchema,
  turnCreateSchema,
  turnListSchema,
  turnReceiptSchema,
  turnResumeSchema,
  turnSchema,
} from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import { readJson, type RequestContext, type Route } from '@breakfall/wire/node'
import type { Sessions } from '../engine/sessions.ts'
import type { DaemonLimits } from '../options.ts'
import type { OutsideTools } from '../outside/outside-tools.ts'
import { mcpRoutes } from './mcp-routes.ts'
import { streamEvents } from './events.ts'
import { orUnsatisfiable, outputRequestOf, relayOutput } from './output.ts'
import { sessionQueryOf } from './session-query.ts'

type RouteParts = {
  readonly sessions: Sessions
  readonly limits: DaemonLimits
  readonly version: string
  readonly ready: () => Promise<DaemonReady>
  /** The model server in use. */
  readonly model: () => Promise<DaemonModel>
  readonly metricsText: () => Promise<string>
  readonly outside: OutsideTools
  /** Routes with their own parts. */
  readonly more: readonly Route[]
}

const KEY_CHARS_MAX = 255

/** By the name of the event. */
const EVENT_STREAM = { ...eventSchemas, reset: streamNoticeSchema, closed: streamNoticeSchema }

export function daemonRoutes(parts: RouteParts): readonly Route[] {
  const { sessions, limits, version } = parts
  const routes: Route[] = [
    {
      method: 'post',
      path: '/v1/sessions',
      operationId: 'createSession',
      summary: 'A new session',
      headers: { 'idempotency-key': 'the same key gets the same session' },
      body: sessionCreateSchema,
      answers: { 201: sessionSchema },
      faults: ['invalid_request', 'quota_exceeded', 'isolation_unavailable', 'shutting_down', 'idempotency_conflict'],
      handle: async (context) => {
        const request = await readJson(context.req, sessionCreateSchema)
        return { status: 201, json: await sessions.create(request, keyOf(context)) }
      },
    },
    {
      method: 'get',
      path: '/v1/sessions',
      operationId: 'listSessions',
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
      handle: async ({ query }) => ({ status: 200, json: await sessions.list(sessionQueryOf(query)) }),
    },
    {
      method: 'get',
      path: '/v1/sessions/{id}',
      operationId: 'getSession',
      summary: 'One session',
      answers: { 200: sessionSchema },
      faults: ['not_found'],
      handle: async (context) => ({ status: 200, json: await sessions.get(param(context, 'id')) }),
    },
    {
      method: 'patch',
      path: '/v1/sessions/{id}',
      operationId: 'changeSession',
      summary: 'Changes the title, and the model and its provider for the next turn',
      body: sessionPatchSchema,
      answers: { 200: sessionSchema },
      faults: ['invalid_request', 'not_found', 'journal_full', 'shutting_down'],
      handle: async (context) => {
        const request = await readJson(context.req, sessionPatchSchema)
        return { status: 200, json: await sessions.change(param(context, 'id'), request) }
      },
    },
    {
      method: 'delete',
      path: '/v1/sessions/{id}',
      operationId: 'deleteSession',
      summary: "Ends a session's turns and deletes it with its box",
      query: { ifEnded: '1: refuse with 409 if a turn is unfinished' },
      answers: { 204: null },
      faults: ['not_found', 'session_busy'],
      handle: async (context) => {
        await sessions.delete(param(context, 'id'), { ifEnded: context.query.get('ifEnded') === '1' })
        return { status: 204 }
      },
    },
    {
      method: 'post',
      path: '/v1/sessions/{id}/release',
      operationId: 'releaseBox',
      summary: 'Releases the box of an idle session now; the next tool gets it back',
      body: boxReleaseSchema,
      answers: { 200: boxReleasedSchema },
      faults: ['not_found'],
      handle: async (context) => {
        await readJson(context.req, boxReleaseSchema)
        return { status: 200, json: { released: await sessions.release(param(context, 'id')) } }
      },
    },
    {
      method: 'post',
      path: '/v1/prune',
      operationId: 'prune',
      summary: 'Deletes sessions that have ended, or says how many it would delete',
      body: pruneSchema,
      answers: { 200: prunedSchema },
      faults: ['invalid_request', 'shutting_down'],
      handle: async (context) => ({
        status: 200,
        json: await sessions.prune(await readJson(context.req, pruneSchema)),
      }),
    },
    {
      method: 'post',
      path: '/v1/sessions/{id}/turns',
      operationId: 'createTurn',
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
      handle: async (context) => {
        const request = await readJson(context.req, turnCreateSchema)
        const traceparent = traceparentIn(context.req.headers['traceparent'])
        const receipt = await sessions.prompt(param(context, 'id'), { ...request, traceparent }, keyOf(context))
        return { status: 202, json: receipt }
      },
    },
    {
      method: 'get',
      path: '/v1/sessions/{id}/turns',
      operationId: 'listTurns',
      summary: "A session's turns, newest first",
      query: { cursor: 'the `next` of the previous page' },
      answers: { 200: turnListSchema },
      faults: ['invalid_request', 'not_found'],
      handle: async (context) => ({
        status: 200,
        json: await sessions.turns(param(context, 'id'), context.query.get('cursor') ?? undefined),
      }),
    },
    {
      method: 'get',
      path: '/v1/sessions/{id}/execs/{execId}/output/{stream}',
      operationId: 'getOutput',
      summary: "All bytes that a tool's command printed, from the runner; stream is stdout or stderr",
      headers: { range: 'bytes=FROM-TO' },
      answers: { 200: 'application/octet-stream', 206: 'application/octet-stream' },
      faults: ['not_found', 'exec_not_found', 'range_not_satisfiable', 'runner_unreachable'],
      handle: async (context) => {
        await relayOutput(context, await orUnsatisfiable(context, sessions.output(outputRequestOf(context))))
        return undefined
      },
    },
    {
      method: 'get',
      path: '/v1/sessions/{id}/events',
      operationId: 'streamEvents',
      summary: 'Events as SSE: replay after the cursor, then live',
      query: { after: 'JOURNAL-SEQ or a bare seq' },
      headers: { 'last-event-id': 'the same, as browsers send it' },
      answers: { 200: { sse: EVENT_STREAM } },
      faults: ['invalid_request', 'not_found', 'journal_corrupt'],
      handle: async (context) => {
        await streamEvents(context, await sessions.view(param(context, 'id')), limits)
        return undefined
      },
    },
    {
      method: 'get',
      path: '/v1/turns/{id}',
      operationId: 'getTurn',
      summary: 'One turn',
      answers: { 200: turnSchema },
      faults: ['not_found'],
      handle: async (context) => ({ status: 200, json: await sessions.turn(param(context, 'id')) }),
    },
    {
      method: 'post',
      path: '/v1/turns/{id}/cancel',
      operationId: 'cancelTurn',
      summary: 'Ends a turn in any phase',
      body: turnCancelSchema,
      answers: { 200: turnSchema, 202: turnSchema },
      faults: ['not_found'],
      handle: async (context) => {
        const { reason = null } = await readJson(context.req, turnCancelSchema)
        const { turn, isOver } = await sessions.cancel(param(context, 'id'), { actor: 'user', reason })
        return { status: isOver ? 200 : 202, json: turn }
      },
    },
    {
      method: 'post',
      path: '/v1/turns/{id}/resume',
      operationId: 'resumeTurn',
      summary:
        'Wakes a parked turn now, or ends the wait before a retry; it may bring a key for the provider of the turn',
      body: turnResumeSchema,
      answers: { 202: turnSchema },
      faults: ['invalid_request', 'not_found', 'turn_not_parked'],
      handle: async (context) => {
        const request = await readJson(context.req, turnResumeSchema)
        return { status: 202, json: await sessions.resume(param(context, 'id'), request) }
      },
    },
    {
      method: 'post',
      path: '/v1/turns/{id}/approve',
      operationId: 'approveCall',
      summary: 'Answers a tool call that waits for an approval',
      body: turnApproveSchema,
      answers: { 202: turnSchema },
      faults: ['invalid_request', 'not_found', 'turn_not_parked'],
      handle: async (context) => {
        const request = await readJson(context.req, turnApproveSchema)
        return { status: 202, json: await sessions.approve(param(context, 'id'), request) }
      },
    },
    {
      method: 'get',
      path: '/v1/ws',
      operationId: 'webSocket',
      summary: 'The same operations and events over a WebSocket; requires `Upgrade: websocket`',
      answers: { 101: null },
      faults: ['invalid_request'],
      handle: () => {
        throw invalidRequest([
          { field: 'Upgrade', expected: 'websocket, the only protocol at this address', got: 'nothing' },
        ])
      },
    },
    {
      method: 'get',
      path: '/v1/model',
      operationId: 'getModel',
      summary: 'The model server in use, and the model of sessions that name none',
      answers: { 200: daemonModelSchema },
      handle: async () => ({ status: 200, json: await parts.model() }),
    },
    {
      method: 'get',
      path: '/v1/faults',
      operationId: 'listFaults',
      summary: 'Every category with its class, its status and its next step',
      answers: { 200: faultListSchema },
      handle: () => ({ status: 200, json: { faults: catalogue() } }),
    },
    {
      method: 'get',
      path: '/v1/health',
      operationId: 'health',
      summary: 'The daemon runs',
      open: true,
      answers: { 200: daemonHealthSchema },
      handle: () => ({ status: 200, json: { status: 'ok', version, api: API_NUMBER } }),
    },
    {
      method: 'get',
      path: '/v1/ready',
      operationId: 'ready',
      summary: 'The daemon accepts prompts',
      open: true,
      answers: { 200: daemonReadySchema, 503: daemonReadySchema },
      handle: async () => {
        const ready = await parts.ready()
        if (ready.status === 'ready') return { status: 200, json: ready }
        return { status: 503, json: ready, headers: { 'retry-after': '1' } }
      },
    },
    {
      method: 'get',
      path: '/metrics',
      operationId: 'metrics',
      summary: 'Prometheus text',
      answers: { 200: 'text/plain' },
      handle: async (context) => {
        context.res.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' })
        context.res.end(await parts.metricsText())
        return undefined
      },
    },
    ...parts.more,
  ]
  const all = [...routes, ...mcpRoutes(parts.outside, limits)]
  return [...all, openApi(all, version)]
}

// ---- details ----

function openApi(routes: readonly Route[], version: string): Route {
  let document: object | undefined // built on first use: it takes milliseconds, and the route needs no token
  return {
    method: 'get',
    path: '/v1/openapi.json',
    operationId: 'openApi',
    summary: 'This API as an OpenAPI document',
    open: true,
    answers: { 200: 'application/json' },
    handle: () => ({
      status: 200,
      json: (document ??= openApiDocument({ title: 'Breakfall daemon', version }, routes)),
    }),
  }
}

const param = (context: RequestContext, name: string): string => context.params[name] ?? ''

function keyOf(context: RequestContext): string | undefined {
  const key = context.req.headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key === 'string' && key !== '' && key.length <= KEY_CHARS_MAX) return key
  const got = `${String(key).length} characters`
  throw invalidRequest([{ field: 'Idempotency-Key', expected: `1 to ${KEY_CHARS_MAX} characters`, got }])
}

const catalogue = (): FaultList['faults'] =>
  Object.entries(FAULTS).map(([category, row]) => ({ category, ...row, docs: `docs/faults/${category}.md` }))
