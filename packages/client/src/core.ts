/**
 * What every call shares: the daemon's address, the limits, and the retries. The calls are functions on it, so a program that bundles
 * some of them carries no others; `DaemonClient` is all of them as one class.
 */
import { type LoopOptions, type ReportedFault, type RetryPolicy, retryingCall } from '@breakfall/faults/caller'
import type { DaemonAddress } from './address.ts'
import { type Surroundings, SURROUNDINGS } from './clock.ts'
import { type Answer, type ApiRequest, ask, read, send } from './http.ts'
import { CALL_MS, RECONNECT_POLICY } from './limits.ts'
import type { Guard } from './check.ts'

export type ClientOptions = Partial<Surroundings> & {
  /** False: a call to a daemon that does not answer fails at once. Event streams reconnect in either case. Default: true. */
  readonly retryCalls?: boolean | undefined
  /** When to give up. Default: calls after about a minute, event streams never. */
  readonly policy?: RetryPolicy | undefined
  /** Called before each retry for the daemon's current address. Default: the address does not change. */
  readonly locate?: ((fault: ReportedFault) => Promise<DaemonAddress>) | undefined
  /** Ends every call and every event stream of this client. */
  readonly signal?: AbortSignal | undefined
  /** How long a call may take, per attempt. */
  readonly callMs?: number | undefined
  /** How long an event stream may be silent. The daemon sends a heartbeat every 15 s. */
  readonly livenessMs?: number | undefined
}

export type CallRetry = Pick<LoopOptions, 'signal' | 'failed' | 'onRetry'> & { readonly policy?: RetryPolicy }

export class ClientCore {
  address: DaemonAddress
  readonly options: ClientOptions
  readonly surroundings: Surroundings

  constructor(address: DaemonAddress, options: ClientOptions) {
    this.address = address
    this.options = options
    this.surroundings = { ...SURROUNDINGS, ...options }
  }

  get<T>(path: string, guard: Guard<T>, what: string): Promise<T> {
    return this.json({ method: 'GET', path }, guard, what)
  }

  post<T>(path: string, body: unknown, guard: Guard<T>, what: string): Promise<T> {
    return this.json({ method: 'POST', path, body }, guard, what)
  }

  json<T>(request: ApiRequest, guard: Guard<T>, what: string): Promise<T> {
    return this.call(request, (answer) => read(answer, guard, what))
  }

  /** Every call is safe to repeat: by its key, by its nature, or because a session without a turn does no harm. */
  call<T>(request: ApiRequest, result: (answer: Answer) => T): Promise<T> {
    const { signal, callMs = CALL_MS, retryCalls = true } = this.options
    const once = async (): Promise<T> => result(await this.ask({ signal, timeoutMs: callMs, ...request }))
    return retryCalls ? this.retrying(once, { signal }) : once()
  }

  /** For what must not be repeated. */
  ask(request: ApiRequest): Promise<Answer> {
    return ask(this.surroundings.fetch, this.address, { signal: this.options.signal, ...request })
  }

  /** For a body that the caller reads. */
  send(request: ApiRequest): Promise<Response> {
    return send(this.surroundings.fetch, this.address, { signal: this.options.signal, ...request })
  }

  retrying<T>(act: () => Promise<T>, options: CallRetry): Promise<T> {
    const { policy = options.policy ?? RECONNECT_POLICY, locate } = this.options
    const { now, random, sleep } = this.surroundings
    return retryingCall(act, {
      ...options,
      policy,
      now,
      dice: random,
      sleep,
      beforeRetry: async (fault) => {
        if (locate !== undefined) this.address = await locate(fault)
      },
    })
  }
}

export function withQuery(path: string, given: readonly (readonly [string, string | number | undefined])[]): string {
  const query = new URLSearchParams()
  for (const [name, value] of given) if (value !== undefined) query.set(name, String(value))
  return query.size === 0 ? path : `${path}?${query.toString()}`
}

export const segment = (text: string): string => encodeURIComponent(text)
