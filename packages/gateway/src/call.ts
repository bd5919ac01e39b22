/** One request to the gateway: its id, its client's connection, and the gateway's own responses in the shape of the requested API. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Fault, type FaultReport } from '@breakfall/faults'
import { type RelayApiName } from '@breakfall/model'
import { type ErrorAnswer, errorAnswer, type MemoryShare } from '@breakfall/model/internal'
import type { Refusal } from '@breakfall/wire/node'
import { REQUEST_ID } from './http-sink.ts'
import { errorApi, normalised } from './paths.ts'
import { newId } from '@breakfall/wire/node'

/** What is asked, over HTTP or over a WebSocket. */
export type Asked = {
  readonly requestId: string
  readonly method: string
  readonly path: string
  readonly search: string
  /** Aborted when the client is gone, or by `stop`. */
  readonly signal: AbortSignal
  /** What this request holds. */
  readonly memory: MemoryShare
  /** Ends the request with a fault that the client receives. */
  readonly stop: (fault: Fault) => void
}

export type Call = Asked & {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** The API whose error shape the client understands. */
  readonly api: RelayApiName
}

/** As the client meant it. The query has its question mark, or is empty. */
export function pathOf(req: IncomingMessage): { readonly path: string; readonly search: string } {
  const [asked = '/', query = ''] = (req.url ?? '/').split(/\?(.*)/s)
  return { path: normalised(asked), search: query === '' ? '' : `?${query}` }
}

export function openCall(req: IncomingMessage, res: ServerResponse, memory: MemoryShare): Call {
  const { path, search } = pathOf(req)
  const gone = new AbortController()
  res.once('close', () => {
    if (!res.writableFinished) gone.abort(new Error('the client closed the connection'))
  })
  res.on('error', () => gone.abort(new Error('the connection to the client broke')))
  return {
    req,
    res,
    requestId: newId(),
    method: req.method ?? 'GET',
    path,
    search,
    api: errorApi(path),
    signal: gone.signal,
    memory,
    stop: (fault) => gone.abort(fault),
  }
}

/** Sends an error of the gateway itself. */
export function refuse(call: Call, fault: Fault | FaultReport, headers: Readonly<Record<string, string>> = {}): number {
  const report = fault instanceof Fault ? fault.report : fault
  return send(call, errorAnswer(call.api, report, undefined), headers)
}

/**
 * Agents that prefer a WebSocket fall back to HTTP at once on this status. Any other status is retried for seconds.
 */
export function refuseUpgrade(call: Call): number {
  const fault = new Fault('invalid_request', {
    error: 'The gateway does not serve WebSockets. Send the request over HTTP.',
    errorRaw: `an upgrade to ${String(call.req.headers.upgrade).slice(0, 50)}`,
  })
  const headers = { upgrade: 'HTTP/1.1', connection: 'upgrade, close' }
  const answer = errorAnswer(call.api, fault.report, undefined)
  // Gemini repeats the status in the body.
  const body = String(answer.body).replace(`"code":${answer.status}`, `"code":${UPGRADE_REQUIRED}`)
  return send(call, { ...answer, body, status: UPGRADE_REQUIRED }, headers)
}

const UPGRADE_REQUIRED = 426

export const wantsWebSocket = ({ req }: Call): boolean =>
  /(?:^|[\s,])websocket(?:$|[\s,/])/i.test(req.headers.upgrade ?? '')

function send(call: Call, answer: ErrorAnswer, headers: Readonly<Record<string, string>>): number {
  const { res } = call
  if (res.headersSent || res.destroyed) {
    res.destroy()
    return answer.status
  }
  const length = String(Buffer.byteLength(answer.body))
  res.writeHead(answer.status, {
    ...answer.headers,
    ...headers,
    'content-length': length,
    [REQUEST_ID]: call.requestId,
  })
  res.end(answer.body)
  return answer.status
}

/** The refusal of a request that is not readable HTTP. Which API it was meant for is unknown. */
export function unreadable(fault: Fault, _status: number, requestId: string): Refusal {
  const { headers, body } = errorAnswer('openai-chat', fault.report, undefined)
  return { headers: { ...headers, [REQUEST_ID]: requestId }, body: String(body) }
}

export function headersOf(req: IncomingMessage): Record<string, string> {
  const out: Record<string, string> = {}
  for (const [name, value] of Object.entries(req.headers)) {
    if (value === undefined || name.startsWith('x-breakfall-')) continue // ours, not the upstream's
    out[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return out
}
