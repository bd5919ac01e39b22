/** What our packages use of undici, over the simulated network: `Agent` with `request` and `dispatch`, and `request` alone. */
import { Readable } from 'node:stream'
import { theNetwork } from '../world/network.ts'

type Headers = Readonly<Record<string, unknown>>

type Options = {
  readonly origin?: string | URL
  readonly path?: string
  readonly method?: string
  readonly headers?: Headers
  readonly body?: unknown
  readonly headersTimeout?: number
  readonly bodyTimeout?: number
  readonly signal?: AbortSignal
}

type Controller = {
  readonly aborted: boolean
  readonly paused: boolean
  readonly reason: unknown
  abort(reason?: unknown): void
  pause(): void
  resume(): void
}

type Handler = {
  onRequestStart?(controller: Controller, context: unknown): void
  onResponseStart?(controller: Controller, status: number, headers: Headers, message: string): void
  onResponseData?(controller: Controller, chunk: Buffer): void
  onResponseEnd?(controller: Controller, trailers: Headers): void
  onResponseError?(controller: Controller, error: Error): void
}

class TransportError extends Error {
  readonly code: string

  constructor(code: string, message: string, name = 'SocketError') {
    super(message)
    this.code = code
    this.name = name
  }
}

export class Agent {
  readonly #connectMs: number
  readonly #open = new Set<Dispatch>()

  constructor({ connect = {} }: { readonly connect?: { readonly timeout?: number } } = {}) {
    this.#connectMs = connect.timeout ?? 10_000
  }

  dispatch(options: Options, handler: Handler): boolean {
    const dispatch = new Dispatch(options, handler, this.#connectMs, () => this.#open.delete(dispatch))
    this.#open.add(dispatch)
    dispatch.start()
    return true
  }

  request(options: Options): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const { signal } = options
      if (signal?.aborted === true) return reject(signal.reason)
      let body: Body | undefined
      let control: Controller | undefined
      const onAbort = (): void => control?.abort(signal?.reason)
      signal?.addEventListener('abort', onAbort, { once: true })
      const over = (): void => signal?.removeEventListener('abort', onAbort)
      this.dispatch(options, {
        onRequestStart: (controller) => {
          control = controller
        },
        onResponseStart: (controller, statusCode, headers) => {
          body = new Body(() => controller.abort(new Error('the body was destroyed')))
          resolve({ statusCode, headers, body, trailers: {}, opaque: null, context: {} })
        },
        onResponseData: (_controller, chunk) => body?.push(chunk),
        onResponseEnd: () => {
          over()
          body?.push(null)
        },
        onResponseError: (_controller, error) => {
          over()
          if (body === undefined) reject(error)
          else body.destroy(error)
        },
      })
    })
  }

  compose(): this {
    return this
  }

  async close(): Promise<void> {
    await this.destroy()
  }

  async destroy(): Promise<void> {
    for (const dispatch of this.#open)
      dispatch.abort(new TransportError('UND_ERR_DESTROYED', 'The client is destroyed'))
  }
}

export const interceptors = { decompress: () => undefined }

export function request(
  url: string | URL,
  { dispatcher, ...options }: Options & { readonly dispatcher?: Agent } = {},
): Promise<unknown> {
  const { origin, pathname, search } = new URL(url)
  return (dispatcher ?? new Agent()).request({ ...options, origin, path: pathname + search })
}

// ---- details ----

class Body extends Readable {
  readonly #onDestroy: () => void

  constructor(onDestroy: () => void) {
    super({ read: () => undefined })
    this.#onDestroy = onDestroy
    this.on('error', () => undefined) // whoever reads it hears of it; a body that no one reads breaks nothing
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.readableEnded) this.#onDestroy()
    done(error)
  }

  async text(): Promise<string> {
    const chunks: Buffer[] = []
    for await (const chunk of this as AsyncIterable<Buffer>) chunks.push(chunk)
    return Buffer.concat(chunks).toString('utf8')
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text())
  }

  async dump(): Promise<void> {
    this.destroy()
  }
}

async function textOf(body: unknown): Promise<string> {
  if (body == null) return ''
  if (typeof body === 'string') return body
  if (body instanceof Uint8Array) return Buffer.from(body).toString('utf8')
  const chunks: Uint8Array[] = []
  for await (const chunk of body as AsyncIterable<Uint8Array>) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

class Dispatch implements Controller {
  readonly #options: Options
  readonly #handler: Handler
  readonly #connectMs: number
  readonly #onOver: () => void
  #leave: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #isOver = false
  #held: (() => void)[] = []
  aborted = false
  paused = false
  reason: unknown = null

  constructor(options: Options, handler: Handler, connectMs: number, onOver: () => void) {
    this.#options = options
    this.#handler = handler
    this.#connectMs = connectMs
    this.#onOver = onOver
  }

  start(): void {
    this.#handler.onRequestStart?.(this, {})
    if (this.aborted) return
    this.#limit(this.#connectMs, 'UND_ERR_CONNECT_TIMEOUT', 'Connect Timeout Error', 'ConnectTimeoutError')
    void textOf(this.#options.body).then((body) => {
      if (!this.#isOver) this.#send(body)
    })
  }

  #send(body: string): void {
    const { origin = '', path = '/', method = 'GET', headers = {}, headersTimeout = 300_000 } = this.#options
    const sent = {
      method,
      path,
      headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)])),
      body,
    }
    this.#leave = theNetwork().request(String(origin), sent, {
      connected: () => this.#limit(headersTimeout, 'UND_ERR_HEADERS_TIMEOUT', 'Headers Timeout Error'),
      head: (status, received) =>
        this.#deliver(() => {
          this.#limitBody()
          this.#handler.onResponseStart?.(this, status, received, '')
        }),
      data: (chunk) =>
        this.#deliver(() => {
          this.#limitBody()
          this.#handler.onResponseData?.(this, chunk)
        }),
      end: () =>
        this.#deliver(() => {
          this.#finish()
          this.#handler.onResponseEnd?.(this, {})
        }),
      broken: (code, message) => this.#deliver(() => this.#fail(new TransportError(code, message))),
    })
  }

  abort(reason: unknown = new Error('aborted')): void {
    if (this.#isOver) return
    this.aborted = true
    this.reason = reason
    this.#leave?.()
    this.#fail(reason instanceof Error ? reason : new TransportError('UND_ERR_ABORTED', String(reason)))
  }

  pause(): void {
    this.paused = true
  }

  resume(): void {
    this.paused = false
    const held = this.#held
    this.#held = []
    for (const deliver of held) this.#deliver(deliver)
  }

  #deliver(run: () => void): void {
    if (this.#isOver) return
    if (this.paused) this.#held.push(run)
    else run()
  }

  #limitBody(): void {
    this.#limit(this.#options.bodyTimeout ?? 300_000, 'UND_ERR_BODY_TIMEOUT', 'Body Timeout Error', 'BodyTimeoutError')
  }

  #limit(ms: number, code: string, message: string, name = 'HeadersTimeoutError'): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (ms <= 0) return
    this.#timer = setTimeout(() => {
      this.#leave?.()
      this.#fail(new TransportError(code, message, name))
    }, ms)
  }

  #fail(error: Error): void {
    if (this.#isOver) return
    this.#finish()
    this.#handler.onResponseError?.(this, error)
  }

  #finish(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#onOver()
  }
}
