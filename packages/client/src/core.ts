/**
 * What every call shares: the daemon's address, the limits, and the retries. The calls are functions on it, so a program that bundles
 * some of them carries no others; `DaemonClient` is all of them as one class.
 */
import { type LoopOptions, type ReportedFault, type RetryPolicy, retryingCall } from '@breakfall/faults/caller'
import type { OperationAt, OperationCalls } from '@breakfall/wire/internal'
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

  /** The JSON of an answer, as far as the guard looks at it. */
  json<At extends Repeatable, T>(call: Call<At>, guard: Guard<T>, what: string): Promise<Fitting<At, T>>
  json<T>(call: ApiRequest, guard: Guard<T>, what: string): Promise<T> {
    return this.call(call, (answer) => read(answer, guard, what))
  }

  call<T>(request: Call<Repeatable>, result: (answer: Answer) => T): Promise<T> {
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

/** A request to one of the daemon's operations. `operation` makes it. */
export type Call<At extends OperationAt = OperationAt> = ApiRequest & { readonly at?: At }

/** What fills the path of an operation, and its query. */
type Given<At extends OperationAt> = Readonly<Record<OperationCalls[At]['params'], string>> & {
  readonly [Name in OperationCalls[At]['query']]?: string | number | undefined
}

/** Addresses, parameters and bodies are checked by the compiler against the daemon's own table. */
export function operation<At extends OperationAt>(
  at: At,
  given: Given<At>,
  more?: { readonly body?: OperationCalls[At]['body'] } & Pick<ApiRequest, 'headers' | 'accept'>,
): Call<At>
export function operation(
  at: string,
  given: Readonly<Record<string, string | number | undefined>>,
  more?: Partial<ApiRequest>,
): ApiRequest {
  const [method = '', template = ''] = at.split(' ')
  const query = new URLSearchParams()
  let path = template
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue
    const filled = path.replace(`{${name}}`, encodeURIComponent(String(value)))
    if (filled === path) query.set(name, String(value))
    path = filled
  }
  return { ...more, method, path: query.size === 0 ? path : `${path}?${query.toString()}` }
}

/** Operations that may be sent again if the answer is lost. */
type Repeatable = {
  readonly [At in OperationAt]: OperationCalls[At]['once'] extends true ? never : At
}[OperationAt]

type Fitting<At extends OperationAt, T> = OperationCalls[At]['answer'] extends T
  ? T
  : 'another guard than the answer has'
