/**
 * A `fetch` for the clients of the two APIs (`openai`, `ai`, `@anthropic-ai/sdk`) whose answers survive. Calls of
 * `…/chat/completions` and `…/messages` are healed; everything else goes to the plain `fetch`.
 *
 * I1  The caller's signal ends everything at once, and the promise or the body fails with its reason, as with `fetch`.
 * I2  An answer that could not be had is an answer with a status and `x-should-retry: false`: one owner of retries.
 */
import type { ApiName } from './answer.ts'
import type { RelayOptions, RelayRequest, RelaySink, RelayTarget } from './relay.ts'
import { relayAnswer } from './relay-answer.ts'
import { isSameHost } from './relay-request.ts'
import { resolvePolicy } from './resolve-policy.ts'

export type ResilientFetchOptions = Omit<RelayOptions, 'signal'> & {
  readonly profile?: RelayTarget['profile']
  /** Other places to ask when the tries at the first are spent. */
  readonly fallback?: readonly RelayTarget[] | undefined
  /** For calls that are not healed. */
  readonly fetch?: typeof fetch | undefined
}

/** Throws `invalid_request` for a policy that makes no sense. */
export function resilientFetch(options: ResilientFetchOptions = {}): typeof fetch {
  const plain = options.fetch ?? fetch
  const policy = resolvePolicy(options.policy)
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
      withoutKeys: !isSameHost(place.baseUrl, target.baseUrl),
      ...place,
    }))
    void relayAnswer(request, [{ ...target, profile: options.profile }, ...fallback], sink, {
      ...options,
      policy,
      signal: sink.signal,
    })
      .catch(reject) // never by its word; a caller that waits for ever would be worse
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

type FetchArguments = Parameters<typeof fetch>

const ROUTES: readonly (readonly [suffix: string, api: ApiName])[] = [
  ['/chat/completions', 'openai-chat'],
  ['/messages', 'anthropic-messages'],
]

/** The call, where it is one that can be healed; else what the plain fetch is to be called with. */
async function read(...asked: FetchArguments): Promise<HealableCall | FetchArguments> {
  const [input, init] = asked
  const address = input instanceof Request ? input.url : String(input)
  const url = URL.canParse(address) ? new URL(address) : undefined
  const route = ROUTES.find(([suffix]) => url?.pathname.endsWith(suffix) === true)
  const method = init?.method ?? (input instanceof Request ? input.method : 'GET')
  if (url === undefined || route === undefined || method.toUpperCase() !== 'POST') return asked
  // The platform's own rules say what a request is made of; its body is read from a copy, so that it can still be sent.
  const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined)
  const request = new Request(input, { ...init, method: 'POST', signal: null })
  const body = Buffer.from(await request.clone().arrayBuffer())
  const json = parsed(body)
  if (json === undefined) return [request, { signal: signal ?? null }]
  const [suffix, api] = route
  const { search } = url
  url.search = ''
  url.pathname = url.pathname.slice(0, -suffix.length)
  return {
    request: { api, method: 'POST', search, headers: Object.fromEntries(request.headers), body, json },
    target: { baseUrl: url.href },
    signal,
  }
}

function parsed(body: Buffer): Record<string, unknown> | undefined {
  try {
    const json: unknown = JSON.parse(body.toString('utf8'))
    return typeof json === 'object' && json !== null && !Array.isArray(json)
      ? (json as Record<string, unknown>)
      : undefined
  } catch {
    return undefined // not ours to judge: the server will say what is wrong with it
  }
}

const reasonOf = (signal: AbortSignal | undefined): Error =>
  signal?.reason instanceof Error ? signal.reason : new DOMException('This operation was aborted', 'AbortError')

/** What a server sends may not be what `Headers` takes: such a header is left out, not a reason to fail. */
function readable(headers: Readonly<Record<string, string>>): Headers {
  const out = new Headers()
  for (const [name, value] of Object.entries(headers)) {
    try {
      out.append(name, value)
    } catch {
      continue // not readable for any client of `fetch` either
    }
  }
  return out
}

/** The answer as a `Response` whose body is read at the reader's pace. */
class ResponseSink implements RelaySink {
  readonly #gone = new AbortController()
  readonly #resolve: (response: Response) => void
  #body: ReadableStreamDefaultController<Uint8Array> | undefined
  #room: (() => void) | undefined

  constructor(resolve: (response: Response) => void) {
    this.#resolve = resolve
  }

  /** The caller has given up. */
  fail(reason: Error): void {
    this.#gone.abort(reason)
    this.#body?.error(reason)
    this.#body = undefined
  }

  /** Aborted when the reader is gone, or the caller has given up. */
  get signal(): AbortSignal {
    return this.#gone.signal
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#body = controller
        },
        pull: () => this.#room?.(),
        cancel: (reason) => {
          this.#body = undefined
          this.#gone.abort(reason)
        },
      },
      { highWaterMark: 64 * 1024, size: (chunk) => chunk.byteLength },
    )
    const hasNoBody = status === 204 || status === 205 || status === 304
    const known = status >= 200 && status <= 599 ? status : 502 // a Response takes no other, and servers send them
    this.#resolve(new Response(hasNoBody ? null : body, { status: known, headers: readable(headers) }))
  }

  write(chunk: string | Buffer): boolean {
    this.#body?.enqueue(typeof chunk === 'string' ? new TextEncoder().encode(chunk) : chunk)
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
