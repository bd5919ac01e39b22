/** One HTTP request to the daemon: a response with a 2xx status, or a thrown `Fault`, also if the connection breaks in the body. */
import { reportedFault } from '@breakfall/faults/caller'
import type { DaemonAddress } from './address.ts'
import { brokenStream, failedCall, refusedCall } from './call-fault.ts'
import type { Guard } from './check.ts'

export type ApiRequest = {
  readonly method: string
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
        ...(token === '' ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...request.headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: limited(signal, timeoutMs),
    })
  } catch (thrown) {
    throw failedCall(thrown, address, signal)
  }
  if (response.ok || request.accept?.includes(response.status) === true) return response
  throw refusedCall(response, jsonOrText(await textOf(response, address, signal)), address)
}

/** A response that was read to its end. */
export type Answer = { readonly ok: boolean; readonly text: string }

export async function ask(
  fetch: typeof globalThis.fetch,
  address: DaemonAddress,
  request: ApiRequest,
): Promise<Answer> {
  const response = await send(fetch, address, request)
  return { ok: response.ok, text: await textOf(response, address, request.signal) }
}

/** The JSON body, checked. */
export const read = <T>({ text }: Answer, guard: Guard<T>, what: string): T => checked(jsonOrText(text), guard, what)

export function checked<T>(value: unknown, guard: Guard<T>, what: string): T {
  if (guard(value)) return value
  throw reportedFault('other', {
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

async function textOf(response: Response, address: DaemonAddress, signal: AbortSignal | undefined): Promise<string> {
  try {
    return await response.text()
  } catch (thrown) {
    throw brokenStream(thrown, address, signal)
  }
}

function limited(signal: AbortSignal | undefined, timeoutMs: number | undefined): AbortSignal | null {
  if (timeoutMs === undefined) return signal ?? null
  const timeout = AbortSignal.timeout(timeoutMs)
  return signal === undefined ? timeout : AbortSignal.any([signal, timeout])
}
