/**
 * A model server as a child: a free port for each run, ready when *it* answers there, and streams that end with the reason
 * when it crashes.
 *
 *   const server = serveModel({ command: 'llama-server', args: ({ port }) => ['-m', 'qwen.gguf', '--port', `${port}`] })
 *   await server.start()
 *   const response = await server.fetch('/v1/chat/completions', { method: 'POST', body })
 *
 * I1  A stream that the crash cut never ends as if it were whole, nor with a bare socket error: it waits for the verdict.
 * I2  A model's answer has no side effect, so its fault says that none happened and it may be asked for again.
 */
import net from 'node:net'
import { classify, Fault } from '@breakfall/faults'
import { pause, systemClock } from './clock.ts'
import type { InFlightRequest } from './in-flight.ts'
import type { JudgedReport } from './report.ts'
import { type ModelServerSpec, resolveModelSpec } from './model-spec.ts'
import type { Launch } from './spec.ts'
import { supervise } from './supervise.ts'
import type { Supervised } from './supervised.ts'

export type ModelServer = AsyncDisposable & {
  readonly supervised: Supervised
  /** `http://127.0.0.1:PORT` of the present run; null while there is none. */
  readonly url: string | null
  /** Resolves with the address when it answers. */
  readonly start: () => Promise<string>
  readonly ready: (signal?: AbortSignal) => Promise<string>
  readonly stop: Supervised['stop']
  readonly restart: Supervised['restart']
  /** `fetch` against the present run. Rejects, and breaks the body off, with a Fault that names the cause. */
  readonly fetch: (path: string, init?: globalThis.RequestInit) => Promise<Response>
}

export function serveModel(spec: ModelServerSpec): ModelServer {
  return new Server(spec)
}

// ---- details, in the order they are used above ----

const EXIT_MS = 500 // a process that dies closes its sockets and is collected in the same moment, even on a busy machine
const VERDICT_MS = 10_000 // drain, ladder and judgement of a process that is known to be ending

class Server implements ModelServer {
  readonly supervised: Supervised
  #url: string | null = null

  constructor(input: ModelServerSpec) {
    const { args, env, healthPath, host, port: fixed, watchHealth, ...rest } = resolveModelSpec(input)
    const launch = async (): Promise<Launch> => {
      const port = fixed ?? (await freePort(host))
      const url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`
      this.#url = url
      const run = { port, host }
      const health = { kind: 'http' as const, url: `${url}${healthPath}` }
      return {
        args: args(run),
        ready: health,
        ...(watchHealth ? { alive: health } : {}),
        ...(typeof env === 'function' ? { env: env(run) } : {}),
      }
    }
    this.supervised = supervise({
      stdin: 'ignore',
      ...rest,
      ...(typeof env === 'object' ? { env } : {}),
      launch,
      mayRestart: (report) => rest.mayRestart?.(report) ?? portTaken(report, fixed !== undefined),
    })
    this.supervised.on((event) => {
      if (event.type === 'exit') this.#url = null
    })
  }

  get url(): string | null {
    const { status } = this.supervised.state
    return status === 'ready' || status === 'busy' ? this.#url : null
  }

  async start(): Promise<string> {
    await this.supervised.start()
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
      // Behind the port, any other text would be a part of the host: `@evil.example/`.
      throw new Fault('invalid_request', { error: `the path must begin with "/", got ${JSON.stringify(path)}` })
    }
    const request = this.supervised.request({ pure: true }) // I2
    const address = `${this.#url}${path}`
    const own = init.signal ?? undefined
    const signal = own === undefined ? request.signal : AbortSignal.any([request.signal, own])
    try {
      request.sent()
      const response = await fetch(address, { ...init, signal })
      request.progress()
      if (response.body === null) {
        request.done()
        return response
      }
      const { status, statusText, headers } = response
      return new Response(guarded(this.supervised, response.body, request, address, own), {
        status,
        statusText,
        headers,
      })
    } catch (error) {
      throw await verdict(this.supervised, error, request, address, own, 'connect')
    }
  }
}

/** The body, with every chunk counted as progress and every break explained. */
function guarded(
  supervised: Supervised,
  body: ReadableStream<Uint8Array>,
  request: InFlightRequest,
  address: string,
  own: AbortSignal | undefined,
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let isCancelled = false
  return new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      try {
        request.progress() // from here on it is the server that is waited for
        const { done, value } = await reader.read()
        request.hold()
        if (!done) {
          controller.enqueue(value)
          return
        }
        request.done()
        controller.close()
      } catch (error) {
        if (isCancelled) return // nobody reads any more, and nobody needs to know why it broke
        controller.error(await verdict(supervised, error, request, address, own, 'stream')) // I1
      }
    },
    cancel: async (reason) => {
      isCancelled = true
      request.done()
      await reader.cancel(reason)
    },
  })
}

/** The socket breaks a moment before the exit is known: the supervisor's word is waited for, since it has the cause. */
async function verdict(
  supervised: Supervised,
  error: unknown,
  request: InFlightRequest,
  address: string,
  own: AbortSignal | undefined,
  phase: string,
): Promise<Fault> {
  const plain = classify(error, { boundary: 'model', phase, signal: own, address })
  if (own?.aborted === true) {
    request.done()
    return plain
  }
  const early = await within(request.failed, EXIT_MS)
  const told = early ?? (supervised.serving ? undefined : await within(request.failed, VERDICT_MS))
  request.done()
  return told ?? plain
}

async function within<T>(wanted: Promise<T>, ms: number): Promise<T | undefined> {
  const waiting = new AbortController()
  const first = await Promise.race([wanted, pause(systemClock, ms, waiting.signal).then(() => undefined)])
  waiting.abort()
  return first
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

/**
 * Somebody took the port between our look and the child's bind: another run has another port. A port that must be this one
 * may be free again in a moment, unless it belongs to another server that is there to stay.
 */
function portTaken(report: JudgedReport, fixed: boolean): true | undefined {
  const [head] = report.diagnoses
  if (head === undefined || !/port_in_use|eaddrinuse/.test(head.id)) return undefined
  return fixed && head.retry === 'never' ? undefined : true
}
