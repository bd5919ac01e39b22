/** A gateway started as the contract describes, with a scripted upstream, and raw requests to it. */
import type { Program } from '../../test/kit/program.ts'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { Place } from '../breakfall.ts'
import { type Json } from '../../test/kit/json.ts'
import { ModelServer, startModelServer } from '../../test/kit/model-server.ts'
import { type Play } from '../../test/kit/plays.ts'
import { type Frame, framesIn } from '../../test/kit/sse.ts'

export const KEY = 'sk-wire-0a1b2c3d4e5f60718293a4b5c6d7e8f9'

export type Reply = {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly json: Json
  readonly frames: readonly Frame[]
  readonly comments: readonly string[]
  /** Whether the answer ended properly by HTTP's rules. False means a cut connection. */
  readonly whole: boolean
}

export type Asking = {
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

export class Gateway implements AsyncDisposable {
  readonly place = new Place()
  readonly running: Program
  url = ''
  listening: Json
  #stderr = ''
  #reports = 0

  /** Starts the command with a short backoff. `upstreams` are servers or plain URLs. */
  constructor(
    upstreams: readonly (ModelServer | string)[],
    flags: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ) {
    const named = upstreams.flatMap((one) => ['--upstream', typeof one === 'string' ? one : one.url])
    this.running = this.place.start(['gateway', ...named, '--port', '0', '--json', '--backoff-ms', '1', ...flags], env)
    this.running.child.stderr?.on('data', (bytes: Buffer) => (this.#stderr += bytes.toString()))
  }

  static start(upstreams: ModelServer | readonly (ModelServer | string)[], ...flags: string[]): Promise<Gateway> {
    return new Gateway(upstreams instanceof ModelServer ? [upstreams] : upstreams, flags).#listen()
  }

  /** One whose memory can be measured. */
  static startMeasured(upstream: ModelServer, ...flags: string[]): Promise<Gateway> {
    const reporter = new URL('../../test/kit/memory-reporter.mjs', import.meta.url).href
    return new Gateway([upstream], flags, { NODE_OPTIONS: `--expose-gc --import ${reporter}` }).#listen()
  }

  /** What a measured gateway uses after a garbage collection: the same on every machine. */
  async usedMib(): Promise<number> {
    const report = ++this.#reports
    this.running.child.kill('SIGUSR2')
    const line = await this.running.seen((line) => line['event'] === 'memory' && line['report'] === report)
    return Number(line['bytes']) / 1024 / 1024
  }

  async #listen(): Promise<this> {
    this.listening = await this.running.seen((line) => line['event'] === 'listening')
    this.url = this.listening.url
    return this
  }

  get port(): number {
    return Number(new URL(this.url).port)
  }
  get pid(): number {
    return this.running.child.pid as number
  }
  get stderr(): string {
    return this.#stderr
  }

  /** A request without an SDK. `path` is sent unchanged. */
  async open(path: string, asking: Asking = {}): Promise<IncomingMessage> {
    const body =
      asking.body === undefined || typeof asking.body === 'string' ? asking.body : JSON.stringify(asking.body)
    const sent = request({
      host: '127.0.0.1',
      port: this.port,
      path,
      method: asking.method ?? (body === undefined ? 'GET' : 'POST'),
      agent: false,
      headers: {
        authorization: `Bearer ${KEY}`,
        ...(body === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body as string)) }),
        ...asking.headers,
      },
      ...(asking.signal === undefined ? {} : { signal: asking.signal }),
    })
    sent.end(body)
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    return response
  }

  async ask(path: string, asking: Asking = {}): Promise<Reply> {
    return read(await this.open(path, asking))
  }

  /** A streamed chat completion of that name. */
  chat(name: string, more: object = {}, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    return this.ask('/v1/chat/completions', { body: chatBody(name, more), headers })
  }

  /** A streamed message of that name. */
  messages(name: string, more: object = {}, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    return this.ask('/v1/messages', {
      body: { model: name, stream: true, max_tokens: 100, messages: [{ role: 'user', content: 'go' }], ...more },
      headers: { 'anthropic-version': '2023-06-01', ...headers },
    })
  }

  /** Sends bytes on a new socket and returns everything that comes back. */
  async raw(bytes: string | Buffer): Promise<string> {
    const socket = await this.socket()
    socket.write(bytes)
    const pieces: Buffer[] = []
    try {
      for await (const piece of socket) pieces.push(piece as Buffer)
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, 'ECONNRESET')
    }
    return Buffer.concat(pieces).toString('latin1')
  }

  async socket(): Promise<Socket> {
    const socket = connect(this.port, '127.0.0.1')
    await once(socket, 'connect')
    return socket
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.place[Symbol.asyncDispose]()
  }
}

/** An upstream and a gateway in front of it. */
export class Rig implements AsyncDisposable {
  readonly upstream: ModelServer
  readonly gateway: Gateway

  constructor(upstream: ModelServer, gateway: Gateway) {
    this.upstream = upstream
    this.gateway = gateway
  }

  static start(...flags: string[]): Promise<Rig> {
    return Rig.#with((upstream) => Gateway.start(upstream, ...flags))
  }

  static startMeasured(...flags: string[]): Promise<Rig> {
    return Rig.#with((upstream) => Gateway.startMeasured(upstream, ...flags))
  }

  static async #with(start: (upstream: ModelServer) => Promise<Gateway>): Promise<Rig> {
    const upstream = await startModelServer()
    try {
      return new Rig(upstream, await start(upstream))
    } catch (error) {
      await upstream[Symbol.asyncDispose]() // no test owns it yet, and an open server would keep the test process alive
      throw error
    }
  }

  /** A streamed chat completion answered by these plays, and how many of them were used. */
  async chat(plays: readonly Play[], more: object = {}): Promise<Reply & { tries: number }> {
    const name = this.upstream.plays(...plays)
    const reply = await this.gateway.chat(name, more)
    return { ...reply, tries: this.upstream.received(name).length }
  }

  async messages(plays: readonly Play[], more: object = {}): Promise<Reply & { tries: number }> {
    const name = this.upstream.plays(...plays)
    const reply = await this.gateway.messages(name, more)
    return { ...reply, tries: this.upstream.received(name).length }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.gateway[Symbol.asyncDispose]()
    await this.upstream[Symbol.asyncDispose]()
  }
}

export function chatBody(name: string, more: object = {}): object {
  return { model: name, stream: true, messages: [{ role: 'user', content: 'go' }], ...more }
}

/** The end of an answer that cannot be repaired: a closed connection, with the reason in a comment before it. */
export function isCutOff({ whole, comments }: Reply): boolean {
  return !whole && /^: ?breakfall ended (?:model|tool)_[a-z_]+: ./.test(comments.at(-1) ?? '')
}

export async function read(response: IncomingMessage): Promise<Reply> {
  const pieces: Buffer[] = []
  let whole = true
  try {
    for await (const piece of response) pieces.push(piece as Buffer)
  } catch (error) {
    whole = false
    assert.equal((error as NodeJS.ErrnoException).code, 'ECONNRESET', String(error))
  }
  const text = Buffer.concat(pieces).toString()
  const { frames, comments } = framesIn(text)
  let json: Json
  try {
    json = JSON.parse(text)
  } catch {
    json = undefined // an event stream, or not JSON on purpose
  }
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text,
    json,
    frames,
    comments,
    whole: whole && response.complete,
  }
}

/** Reads a stream piece by piece, as far as a test needs. */
export class Reading {
  text = ''
  readonly #pieces: AsyncIterator<Buffer>
  constructor(response: IncomingMessage) {
    this.#pieces = response[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  }
  async until(met: (text: string) => boolean): Promise<string> {
    while (!met(this.text)) {
      const { done, value } = await this.#pieces.next()
      assert.ok(done !== true, `the stream ended before that: ${this.text}`)
      this.text += value.toString()
    }
    return this.text
  }
}
