/**
 * Runs a model server as a child: on a free port for each run, ready when the child itself answers there. When it crashes,
 * open streams end with the reason.
 *
 *   const server = serveModel({ command: 'llama-server', args: ({ port }) => ['-m', 'qwen.gguf', '--port', `${port}`] })
 *   await server.start()
 *   const response = await server.fetch('/v1/chat/completions', { method: 'POST', body })
 *
 * I1  A stream that a crash cut off never looks complete and never ends with a bare socket error: it waits for the verdict.
 */
import net from 'node:net'
import { classify, Fault, isFault } from '@breakfall/faults'
import { systemClock } from './clock.ts'
import type { JudgedReport } from './report.ts'
import { type ModelServerSpec, resolveModelSpec } from './model-spec.ts'
import { openServedRequest, type ServedRequest } from './served-request.ts'
import type { Launch } from './spec.ts'
import { supervise } from './supervise.ts'
import { ServeLog, type ServeStatus } from './serve-log.ts'
import type { StartOptions, Supervised } from './supervised.ts'
import { isUnhealableStart } from './unhealable-start.ts'

export type ModelServer = AsyncDisposable & {
  readonly supervised: Supervised
  readonly status: ServeStatus
  /** `http://127.0.0.1:PORT` of the current run, or null if it is not ready. */
  readonly url: string | null
  /** Resolves with the address when the server answers. */
  readonly start: (options?: StartOptions) => Promise<string>
  readonly ready: (signal?: AbortSignal) => Promise<string>
  readonly stop: Supervised['stop']
  readonly restart: Supervised['restart']
  /** Opens a request as soon as the server is ready, through restarts. Rejects with a fault when it is given up or stopped. */
  readonly request: (signal?: AbortSignal) => Promise<ServedRequest>
  /** `fetch` against the current run. Rejects, or breaks the body off, with a fault that names the cause. */
  readonly fetch: (path: string, init?: globalThis.RequestInit) => Promise<Response>
}

export function serveModel(spec: ModelServerSpec): ModelServer {
  return new Server(spec)
}

// ---- details, in the order they are used above ----

class Server implements ModelServer {
  readonly supervised: Supervised
  readonly #log: ServeLog
  #url: string | null = null
  #args: readonly string[] = []

  constructor(input: ModelServerSpec) {
    const { args, env, healthPath, host, watchHealth, health: timing, ...rest } = resolveModelSpec(input)
    const launch = async (): Promise<Launch> => {
      const port = await freePort(host)
      const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`
      this.#url = url
      const run = { port, host }
      const health = { kind: 'http' as const, url: `${url}${healthPath}` }
      this.#args = args(run)
      return {
        args: this.#args,
        ready: health,
        ...(watchHealth ? { alive: { ...health, ...timing } } : {}),
        ...(typeof env === 'function' ? { env: env(run) } : {}),
      }
    }
    this.supervised = supervise({
      stdin: 'ignore',
      ...rest,
      ...(typeof env === 'object' ? { env } : {}),
      launch,
      mayRestart: (report) =>
        rest.mayRestart?.(report) ?? isPortTaken(report) ?? (this.#isUnhealable(report, rest.cwd) ? false : undefined),
    })
    this.#log = new ServeLog(this.supervised, (rest.clock ?? systemClock).epoch())
    this.supervised.on((event) => {
      if (event.type === 'exit') this.#url = null
    })
  }

  get url(): string | null {
    const { status } = this.supervised.state
    return status === 'ready' || status === 'busy' ? this.#url : null
  }

  get status(): ServeStatus {
    return this.#log.status
  }

  async start(options: StartOptions = {}): Promise<string> {
    await this.supervised.start(options)
    return this.#url ?? ''
  }

  async ready(signal?: AbortSignal): Promise<string> {
    await this.supervised.ready(signal)
    return this.#url ?? ''
  }

  async stop(): ReturnType<Supervised['stop']> {
    return this.supervised.stop()
  }

  async restart(): Promise<void> {
    await this.supervised.restart()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async fetch(path: string, init: globalThis.RequestInit = {}): Promise<Response> {
    if (typeof path !== 'string' || !path.startsWith('/')) {
      // Any other text after the port would become part of the host: `@evil.example/`.
      throw new Fault('invalid_request', { error: `the path must start with "/", got ${JSON.stringify(path)}` })
    }
    const own = init.signal ?? undefined
    const request = this.#open(own)
    const address = `${request.url}${path}`
    const signal = own === undefined ? request.signal : AbortSignal.any([request.signal, own])
    try {
      const response = await fetch(address, { ...init, signal })
      request.progress()
      if (response.body === null) {
        request[Symbol.dispose]()
        return response
      }
      const { status, statusText, headers } = response
      return new Response(guarded(response.body, request, address, own), { status, statusText, headers })
    } catch (error) {
      throw await explained(error, request, { phase: 'connect', address, signal: own })
    }
  }

  async request(signal?: AbortSignal): Promise<ServedRequest> {
    try {
      do await this.supervised.ready(signal)
      while (!this.supervised.serving) // it may have failed again before we got to run
    } catch (thrown) {
      throw isFault(thrown) && thrown.category !== 'cancelled' ? this.#log.explain(thrown) : thrown
    }
    return this.#open(signal)
  }

  #isUnhealable(report: JudgedReport, cwd = '.'): boolean {
    return isUnhealableStart(report, this.#args, cwd)
  }

  #open(signal: AbortSignal | undefined): ServedRequest {
    return openServedRequest(this.supervised, this.#log, this.#url ?? '', signal)
  }
}

/** The body: every chunk counts as progress, and a break carries its reason. */
function guarded(
  body: ReadableStream<Uint8Array>,
  request: ServedRequest,
  address: string,
  own: AbortSignal | undefined,
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let isCancelled = false
  return new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      try {
        request.progress() // the caller waits for the server again
        const { done, value } = await reader.read()
        request.hold()
        if (!done) {
          controller.enqueue(value)
          return
        }
        request[Symbol.dispose]()
        controller.close()
      } catch (error) {
        if (isCancelled) return // the caller has stopped reading and does not need the reason
        controller.error(await explained(error, request, { phase: 'stream', address, signal: own })) // I1: after the verdict
      }
    },
    cancel: async (reason) => {
      isCancelled = true
      request[Symbol.dispose]()
      await reader.cancel(reason)
    },
  })
}

async function explained(
  error: unknown,
  request: ServedRequest,
  context: { readonly phase: string; readonly address: string; readonly signal: AbortSignal | undefined },
): Promise<Fault> {
  const seen = classify(error, { boundary: 'model', ...context })
  const fault = context.signal?.aborted === true ? seen : await request.judge(seen)
  request[Symbol.dispose]()
  return fault
}

async function freePort(host: string): Promise<number> {
  return new Promise<number>((resolve, reject) => {
    const server = net.createServer()
    server.on('error', reject)
    server.listen({ host, port: 0, exclusive: true }, () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}

/** Another process took the port before the child could bind it. The next run gets another port, so it may restart. */
function isPortTaken(report: JudgedReport): true | undefined {
  const [head] = report.diagnoses
  return head !== undefined && /port_in_use|eaddrinuse/.test(head.id) ? true : undefined
}
