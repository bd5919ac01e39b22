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

export type ResilientFetchOptions = Omit<RelayOptions, 'signal'> & {
  readonly profile?: RelayTarget['profile']
  /** Other places to ask when the tries at the first are spent. */
  readonly fallback?: readonly RelayTarget[] | undefined
  /** For calls that are not healed. */
  readonly fetch?: typeof fetch | undefined
}

export function resilientFetch(options: ResilientFetchOptions = {}): typeof fetch {
  const plain = options.fetch ?? fetch
  return async (input, init) => {
    const call = await healable(input, init)
    if (call === undefined) return plain(input, init)
    const { request, target, signal } = call
    signal?.throwIfAborted() // I1
    const { promise, resolve, reject } = Promise.withResolvers<Response>()
    const sink = new ResponseSink(resolve, signal)
    signal?.addEventListener('abort', () => reject(reasonOf(signal)), { once: true }) // I1
    const fallback = (options.fallback ?? []).map((place) => ({
      withoutKeys: !isSameHost(place.baseUrl, target.baseUrl),
      ...place,
    }))
    void relayAnswer(request, [{ ...target, profile: options.profile }, ...fallback], sink, {
      ...options,
      signal: sink.signal,
    })
    return promise
  }
}

// ---- details ----

type HealableCall = {
  readonly request: RelayRequest
  readonly target: RelayTarget
  readonly signal: AbortSignal | undefined
}

const ROUTES: readonly (readonly [suffix: string, api: ApiName])[] = [
  ['/chat/completions', 'openai-chat'],
  ['/messages', 'anthropic-messages'],
]

async function healable(
  input: Parameters<typeof fetch>[0],
  init: RequestInit | undefined,
): Promise<HealableCall | undefined> {
  const url = new URL(typeof input === 'string' || input instanceof URL ? input : input.url)
  const route = ROUTES.find(([suffix]) => url.pathname.endsWith(suffix))
  if (route === undefined) return undefined
  const [suffix, api] = route
  // A body that is a stream can be read once only: whoever sends one gets the plain fetch.
  if (input instanceof Request || !isReadable(init?.body) || init?.method?.toUpperCase() !== 'POST') return undefined
  const body = Buffer.from(await new Response(init.body).arrayBuffer())
  const json = parsed(body)
  if (json === undefined) return undefined
  const { search } = url
  url.search = ''
  url.pathname = url.pathname.slice(0, -suffix.length)
  return {
    request: { api, method: 'POST', search, headers: Object.fromEntries(new Headers(init.headers)), body, json },
    target: { baseUrl: url.href },
    signal: init.signal ?? undefined,
  }
}

const isReadable = (body: unknown): body is string | Uint8Array<ArrayBuffer> | ArrayBuffer =>
  typeof body === 'string' || body instanceof Uint8Array || body instanceof ArrayBuffer

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

const reasonOf = (signal: AbortSignal): Error =>
  signal.reason instanceof Error ? signal.reason : new DOMException('This operation was aborted', 'AbortError')

/** The answer as a `Response` whose body is read at the reader's pace. */
class ResponseSink implements RelaySink {
  readonly #gone = new AbortController()
  readonly #resolve: (response: Response) => void
  #body: ReadableStreamDefaultController<Uint8Array> | undefined
  #room: (() => void) | undefined

  constructor(resolve: (response: Response) => void, outer: AbortSignal | undefined) {
    this.#resolve = resolve
    outer?.addEventListener(
      'abort',
      () => {
        this.#gone.abort(outer.reason)
        this.#body?.error(reasonOf(outer))
        this.#body = undefined
      },
      { once: true },
    )
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
        cancel: (reason) => this.#gone.abort(reason),
      },
      { highWaterMark: 64 * 1024, size: (chunk) => chunk.byteLength },
    )
    const hasNoBody = status === 204 || status === 205 || status === 304
    this.#resolve(new Response(hasNoBody ? null : body, { status, headers }))
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
