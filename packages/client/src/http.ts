/** One HTTP request to the daemon: a response with a 2xx status, or a thrown `Fault`. */
import { classify, Fault } from '@breakfall/faults'
import type { Guard } from './shapes.ts'

export type DaemonAddress = {
  /** Without a trailing slash: `http://127.0.0.1:4711`. */
  readonly url: string
  readonly token: string
  /** Where the token came from. Named in the error if the daemon rejects it. */
  readonly tokenSource?: string | undefined
}

export type ApiRequest = {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Statuses that are an answer, not a failure. */
  readonly accept?: readonly number[]
  readonly signal?: AbortSignal | undefined
  /** Default: no limit, as for an event stream. */
  readonly timeoutMs?: number | undefined
}

export async function send(
  fetch: typeof globalThis.fetch,
  address: DaemonAddress,
  request: ApiRequest,
): Promise<Response> {
  const { url, token } = address
  const { method, path, body, signal, timeoutMs } = request
  let response: Response
  try {
    response = await fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...request.headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: limited(signal, timeoutMs),
    })
  } catch (thrown) {
    throw loopbackFault(thrown, url) ?? classify(thrown, { boundary: 'daemon', address: url, signal })
  }
  if (response.ok || request.accept?.includes(response.status) === true) return response
  const fault = classify(undefined, {
    boundary: 'daemon',
    address: url,
    response: { status: response.status, headers: response.headers, body: jsonOrText(await response.text()) },
  })
  throw response.status === 401 ? fault.with({ error: tokenError(address) }) : fault
}

/** The JSON body, checked. */
export async function read<T>(response: Response, guard: Guard<T>, what: string): Promise<T> {
  return checked(jsonOrText(await response.text()), guard, what)
}

export function checked<T>(value: unknown, guard: Guard<T>, what: string): T {
  if (guard(value)) return value
  throw new Fault('other', {
    boundary: 'daemon',
    error: `The daemon sent ${what} in a form that this client cannot read. Use the same version on both sides.`,
    errorRaw: `not ${what}: ${(JSON.stringify(value) ?? 'nothing').slice(0, 500)}`,
    next: 'never',
  })
}

export function jsonOrText(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return value
  } catch {
    return text // not JSON: kept for the error report
  }
}

// ---- details, in the order they are used above ----

function limited(signal: AbortSignal | undefined, timeoutMs: number | undefined): AbortSignal | null {
  if (timeoutMs === undefined) return signal ?? null
  const timeout = AbortSignal.timeout(timeoutMs)
  return signal === undefined ? timeout : AbortSignal.any([signal, timeout])
}

const tokenError = ({ url, tokenSource = 'this client' }: DaemonAddress): string =>
  `The daemon at ${url} rejected the token from ${tokenSource}. Its token has changed: restart the daemon, or use the new token.`

/** On a machine without a loopback interface neither a retry nor another daemon helps. */
function loopbackFault(thrown: unknown, url: string): Fault | undefined {
  const cause = thrown instanceof Error ? thrown.cause : undefined
  const isUnreachable = cause instanceof Error && 'code' in cause && cause.code === 'ENETUNREACH'
  if (!isUnreachable || !/^http:\/\/(?:127\.|localhost|\[::1\])/.test(url)) return undefined
  return new Fault('daemon_unreachable', {
    error: `Cannot reach the daemon at ${url}: this machine's loopback interface is down. Bring it up: ip link set lo up`,
    next: 'never',
    cause,
  })
}
