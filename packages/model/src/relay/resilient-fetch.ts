/**
 * A `fetch` for clients of the model APIs (`openai`, `ai`, `@anthropic-ai/sdk`) whose answers survive. POSTs to
 * `…/chat/completions`, `…/responses` and `…/messages` are healed; everything else goes to the plain `fetch`.
 *
 * I1  The caller's signal ends everything at once, and the promise or the body fails with its reason, as with `fetch`.
 * I2  A failure becomes a response with a status and `x-should-retry: false`: retries have one owner.
 */
import { DIALECTS } from '../dialects/dialects.ts'
import { API_NAMES } from '../contract/names.ts'
import type { RelayOptions, RelayRequest, RelaySink, ReturnedHeaders, RelayTarget } from './relay.ts'
import { relayAnswer } from './relay-answer.ts'
import { receiveBody } from './request-body.ts'
import { Conversations } from '../repair/conversations.ts'
import { systemNow } from '../lib/clock.ts'
import { unboundedShare } from '@breakfall/wire/node'
import { isSameOrigin } from './relay-request.ts'
import { resolvePolicy } from '../contract/resolve-policy.ts'

export type ResilientFetchOptions = Omit<RelayOptions, 'signal' | 'memory' | 'conversations'> & {
  readonly profile?: RelayTarget['profile']
  /** Other servers to ask when the attempts at the first are spent. */
  readonly fallback?: readonly RelayTarget[] | undefined
  /** For calls that are not healed. */
  readonly fetch?: typeof fetch | undefined
}

/** Throws `invalid_request` for an invalid policy. */
export function resilientFetch(options: ResilientFetchOptions = {}): typeof fetch {
  const plain = options.fetch ?? fetch
  const policy = resolvePolicy(options.policy)
  const conversations = new Conversations(options.now ?? systemNow)
  return async (input, init) => {
    const asked = await read(input, init)
    if (!('request' in asked)) return plain(...asked)
    const { request, target, signal } = asked
    signal?.throwIfAborted() // I1
    const { promise, resolve, reject } = Promise.withResolvers<Response>()
    const sink = new ResponseSink(resolve)
    const onAbort = (): void => {
      const reason = reasonOf(signal)
      reject(reason)
      sink.fail(reason)
    }
    signal?.addEventListener('abort', onAbort) // I1
    const fallback = (options.fallback ?? []).map((place) => ({
      ...place,
      withoutKeys: place.withoutKeys ?? !isSameOrigin(place.baseUrl, target.baseUrl),
    }))
    void relayAnswer(request, [{ ...target, profile: options.profile }, ...fallback], sink, {
      ...options,
      hold: options.hold ?? 'auto', // as the gateway
      policy,
      conversations,
      signal: sink.signal,
    })
      .catch(reject) // it promises never to throw; if it does, the caller must not wait forever
      .finally(() => signal?.removeEventListener('abort', onAbort)) // a signal may outlive a thousand calls
    return promise
  }
}

// ---- details ----

type HealableCall = {
  readonly request: RelayRequest
  readonly target: RelayTarget
  readonly signal: AbortSignal | undefined
}

const BODY_BYTES_MAX = 1024 * 1024 * 1024 // decompressed; the caller's own memory holds it already

type FetchArguments = Parameters<typeof fetch>

/** The call if it can be healed, else the arguments for the plain fetch. */
async function read(...asked: FetchArguments): Promise<HealableCall | FetchArguments> {
  const [input, init] = asked
  const address = input instanceof Request ? input.url : String(input)
  const url = URL.canParse(address) ? new URL(address) : undefined
  const api = API_NAMES.find((name) => url?.pathname.endsWith(`/${DIALECTS[name].path}`) === true)
  const method = init?.method ?? (input instanceof Request ? input.method : 'GET')
  if (url === undefined || api === undefined || method.toUpperCase() !== 'POST') return asked
  // `Request` applies the platform's rules. The body is read from a copy and can still be sent.
  const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined)
  const request = new Request(input, { ...init, method: 'POST', signal: null })
  const body = Buffer.from(await request.clone().arrayBuffer())
  const limits = { bytesMax: BODY_BYTES_MAX, memory: unboundedShare(), look: 'fields' } as const
  const received = receiveBody([body], { ...limits, headers: Object.fromEntries(request.headers) })
  const { read } = await received.catch(() => ({ read: undefined })) // too large to be healed: the server says so, if it is for the server
  if (read === undefined) return [request, { signal: signal ?? null }]
  const { search } = url
  url.search = ''
  url.pathname = url.pathname.slice(0, -`/${DIALECTS[api].path}`.length)
  return {
    request: { api, search, ...read },
    target: { baseUrl: url.href },
    signal,
  }
}

const reasonOf = (signal: AbortSignal | undefined): Error =>
  signal?.reason instanceof Error ? signal.reason : new DOMException('This operation was aborted', 'AbortError')

/** A server may send headers that `Headers` rejects: those are left out. */
function readable(headers: ReturnedHeaders): Headers {
  const out = new Headers()
  for (const [name, value] of Object.entries(headers)) {
    try {
      for (const each of [value].flat()) out.append(name, each)
    } catch {
      continue // plain `fetch` would not show it either
    }
  }
  return out
}

/** Turns the answer into a `Response` whose body is read at the reader's pace. */
class ResponseSink implements RelaySink {
  readonly #gone = new AbortController()
  readonly #resolve: (response: Response) => void
  #body: ReadableStreamDefaultController<Uint8Array> | undefined
  #room: (() => void) | undefined

  constructor(resolve: (response: Response) => void) {
    this.#resolve = resolve
  }

  /** The caller aborted. */
  fail(reason: Error): void {
    this.#gone.abort(reason)
    this.#body?.error(reason)
    this.#body = undefined
    this.#room?.()
  }

  /** Fires when the reader is gone or the caller aborted. */
  get signal(): AbortSignal {
    return this.#gone.signal
  }

  head(status: number, headers: ReturnedHeaders): void {
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#body = controller
        },
        pull: () => this.#room?.(),
        cancel: (reason) => {
          this.#body = undefined
          this.#gone.abort(reason)
          this.#room?.()
        },
      },
      { highWaterMark: 64 * 1024, size: (chunk) => chunk.byteLength },
    )
    const hasNoBody = status === 204 || status === 205 || status === 304
    const known = status >= 200 && status <= 599 ? status : 502 // `Response` rejects any other status, and servers do send them
    this.#resolve(new Response(hasNoBody ? null : body, { status: known, headers: readable(headers) }))
  }

  write(chunk: string | Buffer): boolean {
    // Each chunk has its own memory, as with `fetch`: a reader may look at all of it, or transfer it.
    this.#body?.enqueue(typeof chunk === 'string' ? new TextEncoder().encode(chunk) : new Uint8Array(chunk))
    return (this.#body?.desiredSize ?? 1) > 0
  }

  drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#room = resolve
      if (this.#body === undefined || (this.#body.desiredSize ?? 1) > 0) resolve()
    })
  }

  end(): void {
    this.#body?.close()
    this.#body = undefined
  }
}
