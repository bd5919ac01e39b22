/**
 * Imitates llama-server's replay ring: an answer with an id continues without its connection, `GET /v1/stream` sends its bytes
 * from an offset (400 below the ring), `DELETE` ends it, and a second request with the same id cancels the first.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type LlamaOptions = {
  /** Bytes after which each connection is cut, in order. */
  readonly cuts: readonly number[]
  readonly way?: 'reset' | 'fin' | 'clean' | undefined
  readonly hasRoute?: boolean | undefined
  readonly ringBytes?: number | undefined
  /** The reader of a replay sends nothing. */
  readonly silentReplay?: boolean | undefined
  /** The answer of the nth request. */
  readonly answer: (nth: number) => string
}

export class Llama implements AsyncDisposable {
  readonly calls: string[] = []
  readonly ids: (string | undefined)[] = []
  /** Answers that are still being written. */
  live = new Set<string>()
  readonly #options: LlamaOptions
  readonly #kept = new Map<string, Buffer>()
  #connections = 0
  readonly #server = createServer((req, res) => void this.#serve(req, res))

  constructor(options: LlamaOptions) {
    this.#options = options
  }

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return this
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`
  }

  async #serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(req.url ?? '/', 'http://x')
    this.calls.push(`${req.method} ${pathname}`)
    await req.resume().toArray()
    const id = searchParams.get('conv_id') ?? ''
    if (pathname === '/v1/chat/completions') return this.#complete(req, res)
    if (this.#options.hasRoute === false) return void res.writeHead(404).end('{}')
    if (pathname === '/v1/streams/lookup') return void res.writeHead(200).end('[]')
    if (req.method === 'DELETE') {
      this.live.delete(id)
      return void res.writeHead(204).end()
    }
    const bytes = this.#kept.get(id)
    const from = Number(searchParams.get('from'))
    if (bytes === undefined) return void res.writeHead(404).end('{}')
    if (from < bytes.length - (this.#options.ringBytes ?? Infinity)) return void res.writeHead(400).end('{}')
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    if (this.#options.silentReplay === true) return res.flushHeaders()
    return this.#send(res, bytes.subarray(from))
  }

  #complete(req: IncomingMessage, res: ServerResponse): void {
    const id = req.headers['x-conversation-id']
    this.ids.push(typeof id === 'string' ? id : undefined)
    const bytes = Buffer.from(this.#options.answer(this.ids.length))
    if (typeof id === 'string') {
      this.#kept.set(id, bytes)
      this.live.add(id)
    }
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    this.#send(res, bytes)
  }

  #send(res: ServerResponse, bytes: Buffer): void {
    const cut = this.#options.cuts[this.#connections++]
    if (cut === undefined || cut >= bytes.length) return void res.end(bytes)
    const { way = 'reset' } = this.#options
    if (cut === 0) res.flushHeaders()
    res.write(bytes.subarray(0, cut), () => {
      if (way === 'clean') res.end()
      else if (way === 'fin') res.socket?.destroySoon()
      else setImmediate(() => res.socket?.resetAndDestroy())
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
