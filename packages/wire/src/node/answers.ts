/** Sends JSON and problem documents on a raw response. */
import type { ServerResponse } from 'node:http'
import { type Fault, PROBLEM_CONTENT_TYPE, toProblem } from '@breakfall/faults'

export function sendJson(
  res: ServerResponse,
  status: number,
  json: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (json === undefined) {
    res.writeHead(status, headers).end()
    return
  }
  const text = JSON.stringify(json)
  res.writeHead(status, {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(text)),
    'cache-control': 'no-store',
    ...headers,
  })
  res.end(text)
}

const RETRY_MS = 1_000 // a balancer or a client may ask again that soon: another daemon may answer, or this one is back

export function sendFault(res: ServerResponse, fault: Fault): void {
  const problem = toProblem(fault)
  const text = JSON.stringify(problem)
  const { retryAfterMs = problem.status === 503 ? RETRY_MS : undefined } = fault.report
  res.writeHead(problem.status, {
    'content-type': PROBLEM_CONTENT_TYPE,
    'content-length': String(Buffer.byteLength(text)),
    'cache-control': 'no-store',
    ...(fault.category === 'method_not_allowed' && fault.report.reason !== undefined
      ? { allow: fault.report.reason }
      : {}),
    ...(fault.category === 'unauthorized' ? { 'www-authenticate': 'Bearer' } : {}),
    ...(retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) }),
  })
  res.end(text)
}
