/**
 * The one fake model server: HTTP over real TCP, written byte by byte, so it can fail in every way a real server can.
 *
 * What it answers is a script: a list of plays (one per request, the last one repeats) or a function. Tests that share a server
 * give each request its own list by model name (`script`) or by a word `play-N` anywhere in the request (`plays`).
 */
import type { Socket } from 'node:net'
import { Exchange, readRequests } from './exchange.ts'
import { json, perform, type Play } from './plays.ts'
import { startTcpServer, type TcpServer } from './tcp-server.ts'

export type Script = readonly Play[] | ((exchange: Exchange, index: number) => Play)

export type ModelServerOptions = {
  readonly port?: number
  /** Answers as soon as the head of a request is complete. */
  readonly early?: boolean
  /** Answers a request beyond the end of a named list. The default is a 418, which no client retries. */
  readonly beyond?: Play
}

export async function startModelServer(script: Script = [], options: ModelServerOptions = {}): Promise<ModelServer> {
  const server = new ModelServer(script, options)
  await server.listen()
  return server
}

export class ModelServer implements AsyncDisposable {
  /** Every request so far. */
  readonly requests: Exchange[] = []
  readonly #script: Script
  readonly #options: ModelServerOptions
  readonly #lists = new Map<string, readonly Play[]>()
  readonly #received = new Map<string, Exchange[]>()
  readonly #waiting = new Set<() => void>()
  #tcp: TcpServer | undefined
  #abandoned = 0
  #names = 0

  constructor(script: Script, options: ModelServerOptions) {
    this.#script = script
    this.#options = options
  }

  async listen(): Promise<void> {
    this.#tcp = await startTcpServer((socket) => this.#serve(socket), this.#options.port)
  }

  get port(): number {
    return this.#tcp?.port ?? 0
  }
  get url(): string {
    return `http://127.0.0.1:${this.port}/v1`
  }
  get connections(): number {
    return this.#tcp?.connections ?? 0
  }
  /** Connections that are open now. */
  get open(): number {
    return this.#tcp?.sockets.size ?? 0
  }
  /** Connections that closed while the server was still answering. */
  get abandoned(): number {
    return this.#abandoned
  }

  /** Answers requests for this model name, or with this name in them, in order. */
  script(name: string, plays: readonly Play[]): void {
    this.#lists.set(name, plays)
  }

  /** A new name that answers with these plays, in order. */
  plays(...plays: readonly Play[]): string {
    const name = `play-${++this.#names}`
    this.script(name, plays)
    return name
  }

  received(name: string): readonly Exchange[] {
    return this.#received.get(name) ?? []
  }

  /** The nth request (from 1) of that name, as soon as it arrives. */
  async arrived(name: string, nth = 1): Promise<Exchange> {
    await this.#when(() => this.received(name).length >= nth)
    const found = this.received(name)[nth - 1]
    if (found === undefined) throw new Error(`request ${nth} of ${name} is missing`)
    return found
  }

  untilRequests(count: number): Promise<void> {
    return this.#when(() => this.requests.length >= count)
  }
  untilAbandoned(count: number): Promise<void> {
    return this.#when(() => this.#abandoned >= count)
  }

  async close(): Promise<void> {
    await this.#tcp?.close()
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #serve(socket: Socket): void {
    let isAnswering = false
    const gone = new Promise<void>((resolve) => {
      const leave = (): void => {
        if (isAnswering) this.#abandoned++
        isAnswering = false
        resolve()
        this.#changed()
      }
      socket.once('end', leave)
      socket.once('close', leave)
    })
    let previous = Promise.resolve()
    readRequests(socket, this.#options.early === true, (request) => {
      const exchange = new Exchange(request, socket, gone)
      previous = previous.then(async () => {
        isAnswering = true
        await perform(this.#play(exchange), exchange)
        isAnswering = false
      })
      previous.catch((error: Error) => socket.destroy(error))
    })
  }

  #play(exchange: Exchange): Play {
    if (/^\/v1\/streams?(?:\/lookup)?(?:\?|$)/.test(exchange.path)) return json(404, {}) // llama.cpp's, which this server is not
    const index = this.requests.push(exchange) - 1
    const name = this.#nameIn(exchange)
    if (name === undefined) {
      this.#changed()
      if (typeof this.#script === 'function') return this.#script(exchange, index)
      return this.#script[Math.min(index, this.#script.length - 1)] ?? this.#beyond('this server')
    }
    const nth = this.received(name).length
    this.#received.set(name, [...this.received(name), exchange])
    this.#changed()
    return this.#lists.get(name)?.[nth] ?? this.#beyond(name)
  }

  /** The name whose list answers this request; undefined for a server with one script for all. */
  #nameIn(exchange: Exchange): string | undefined {
    if (typeof this.#script === 'function' || this.#script.length > 0) return undefined
    const start = exchange.rawHead + exchange.bytes.subarray(0, 4096).toString('latin1')
    const model: unknown = exchange.body.model
    return /play-\d+/.exec(start)?.[0] ?? (typeof model === 'string' ? model : 'unnamed')
  }

  #beyond(name: string): Play {
    return this.#options.beyond ?? json(418, { error: { message: `${name} has no more plays` } })
  }

  #when(met: () => boolean): Promise<void> {
    if (met()) return Promise.resolve()
    return new Promise((resolve) => {
      const look = (): void => {
        if (!met()) return
        this.#waiting.delete(look)
        resolve()
      }
      this.#waiting.add(look)
    })
  }

  #changed(): void {
    for (const look of this.#waiting) look()
  }
}
