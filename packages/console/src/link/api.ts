/** Calls to the daemon. A failure is the daemon's own fault report, or `daemon_unreachable`; nothing is retried here. */
import { hasFields, isText, type Json } from './shapes.ts'

export type CallFault = { readonly category: string; readonly error: string; readonly status: number }

export class CallError extends Error {
  readonly fault: CallFault
  constructor(fault: CallFault) {
    super(fault.error)
    this.fault = fault
  }
}

export type Call = {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH'
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

let token = ''

export function useToken(next: string): void {
  token = next
}

export const currentToken = (): string => token

/** The raw response, for bytes. */
export async function send(path: string, call: Call = {}): Promise<Response> {
  const { method = 'GET', body, headers = {}, signal } = call
  const response = await fetch(path, {
    method,
    headers: {
      ...(token === '' ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
    cache: 'no-store',
  }).catch((cause: unknown) => {
    throw new CallError({
      category: 'daemon_unreachable',
      error: 'The daemon did not answer. Nothing was changed. The page reconnects on its own.',
      status: 0,
      ...(cause instanceof Error && cause.name === 'AbortError' ? { category: 'cancelled' } : {}),
    })
  })
  if (!response.ok) throw new CallError(await faultIn(response))
  return response
}

/** The response's JSON. What uses it checks its fields. */
export async function json(path: string, call: Call = {}): Promise<Json> {
  const response = await send(path, call)
  if (response.status === 204) return {}
  const value: unknown = await response.json().catch(() => null) // not JSON: refused below, with the address
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
  throw new CallError({
    category: 'other',
    error: `The daemon's answer to ${path} is not JSON.`,
    status: response.status,
  })
}

// ---- details ----

async function faultIn(response: Response): Promise<CallFault> {
  const problem: unknown = await response.json().catch(() => null) // a proxy's error page
  if (hasFields(problem, { category: isText, error: isText })) {
    return { category: problem.category, error: problem.error, status: response.status }
  }
  const error = `The daemon answered ${response.status} ${response.statusText}.`
  return { category: response.status === 401 ? 'unauthorized' : 'other', error, status: response.status }
}
