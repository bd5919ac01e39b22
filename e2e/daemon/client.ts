/** Raw HTTP, SSE and WebSocket, without any of our clients. */
import assert from 'node:assert/strict'
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { WebSocket } from 'ws'
import { type Json, jsonIn } from '../../test/kit/json.ts'
import { SseReader } from '../../test/kit/sse.ts'
import { WAIT_MS } from '../../test/kit/wait.ts'

export type { Json } from '../../test/kit/json.ts'
export type Event = { seq: number; type: string; turnId: string; sessionId: string; at: string; [key: string]: Json }
export type Reply = { status: number; headers: IncomingHttpHeaders; text: string; json: Json }
export type Asking = { body?: unknown; raw?: string | Buffer; token?: string | null; headers?: Record<string, string> }

export function call(url: string, method: string, path: string, asking: Asking = {}): Promise<Reply> {
  const body = asking.raw ?? (asking.body === undefined ? undefined : JSON.stringify(asking.body))
  const headers: Record<string, string> = {
    ...(typeof asking.token === 'string' && { authorization: `Bearer ${asking.token}` }),
    ...(body !== undefined && {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
    }),
    ...asking.headers,
  }
  return new Promise((resolve, reject) => {
    const req = request(new URL(path, url), { method, headers, agent: false }, (res) => {
      let text = ''
      res.setEncoding('utf8')
      res.on('data', (chunk: string) => (text += chunk))
      res.on('end', () => {
        resolve({ status: res.statusCode ?? 0, headers: res.headers, text, json: jsonIn(text) })
        req.destroy()
      })
      res.on('error', reject)
    })
    req.on('error', reject)
    req.end(body)
  })
}

export type Frame = { id?: string; event?: string; data: Json }

/** One event stream, read frame by frame. */
export class EventStream {
  readonly frames: Frame[] = []
  readonly headers: IncomingHttpHeaders
  readonly closed: Promise<void>
  readonly #res: IncomingMessage
  readonly #watchers = new Set<() => void>()
  readonly #reader = new SseReader()
  #over = false

  static open(url: string, path: string, headers: Record<string, string>): Promise<EventStream> {
    return new Promise((resolve, reject) => {
      const req = request(
        new URL(path, url),
        { headers: { accept: 'text/event-stream', ...headers }, agent: false },
        (res) => {
          if (res.statusCode === 200) resolve(new EventStream(res))
          else reject(new Error(`the event stream was answered with ${res.statusCode}`))
        },
      )
      req.on('error', reject)
      req.end()
    })
  }

  constructor(res: IncomingMessage) {
    this.headers = res.headers
    this.#res = res
    res.setEncoding('utf8')
    res.on('data', (text: string) => this.#take(text))
    this.closed = new Promise((resolve) => {
      const over = (): void => {
        this.#over = true
        resolve()
        this.#tell()
      }
      res.on('close', over).on('error', over)
    })
  }

  get comments(): readonly string[] {
    return this.#reader.comments
  }

  /** The id of the last journalled frame, or of the frame at the given index. */
  cursor(place = -1): string {
    const ids = this.frames.flatMap(({ id }) => id ?? [])
    return present(ids.at(place))
  }

  /** Journalled events only: control frames such as `reset` carry no id. */
  get events(): Event[] {
    return this.frames.filter(({ id }) => id !== undefined).map(({ data }) => data as Event)
  }

  /** True if the server ended the stream properly, false if the connection was cut. */
  get endedInOrder(): boolean {
    return this.#res.complete
  }

  pause(): void {
    this.#res.pause()
  }
  resume(): void {
    this.#res.resume()
  }
  close(): void {
    this.#res.destroy()
  }

  async until(fits: (event: Event) => boolean, withinMs = WAIT_MS): Promise<Event> {
    await this.#when(() => this.events.some(fits) || this.#over, withinMs)
    const found = this.events.find(fits)
    assert.ok(found, `the stream ended before the event came, after: ${this.types().join(' ')}`)
    return found
  }

  /** The first event of this type, or the Nth one. */
  async type(type: string, nth = 1): Promise<Event> {
    const of = (): Event[] => this.events.filter((event) => event.type === type)
    await this.until(() => of().length >= nth)
    return present(of()[nth - 1])
  }

  ended(turnId: string, withinMs?: number): Promise<Event> {
    return this.until((event) => event.turnId === turnId && isTerminal(event), withinMs)
  }

  frame(fits: (frame: Frame) => boolean): Promise<void> {
    return this.#when(() => this.frames.some(fits) || this.#over, WAIT_MS)
  }

  types(): string[] {
    return this.frames.map(({ data, event }) => String(data?.type ?? event))
  }

  #when(met: () => boolean, withinMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#watchers.delete(look)
        const last = JSON.stringify(this.frames.at(-1)?.data)
        reject(new Error(`not within ${withinMs} ms; seen: ${this.types().join(' ')}; last: ${last}`))
      }, withinMs)
      const look = (): void => {
        if (!met()) return
        clearTimeout(timer)
        this.#watchers.delete(look)
        resolve()
      }
      this.#watchers.add(look)
      look()
    })
  }

  #take(text: string): void {
    this.#reader.push(text)
    for (const { id, event, json } of this.#reader.frames.splice(0))
      this.frames.push({ ...(id !== undefined && { id }), ...(event !== undefined && { event }), data: json })
    this.#tell()
  }

  #tell(): void {
    this.#watchers.forEach((look) => look())
  }
}

/** One WebSocket, with numbered calls. */
export class Socket {
  readonly ws: WebSocket
  readonly events: Event[] = []
  readonly messages: Json[] = []
  #id = 0
  #watchers = new Set<() => void>()

  static open(url: string, headers: Record<string, string>, protocols: string[]): Promise<Socket> {
    const ws = new WebSocket(`${url.replace('http', 'ws')}/v1/ws`, protocols, { headers })
    const socket = new Socket(ws)
    return new Promise((resolve, reject) => {
      ws.once('open', () => resolve(socket))
      ws.once('unexpected-response', (_req, res) => {
        reject(Object.assign(new Error(`refused with ${res.statusCode}`), { status: res.statusCode }))
        ws.terminate()
      })
      ws.on('error', reject)
    })
  }

  constructor(ws: WebSocket) {
    this.ws = ws
    ws.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as Json
      this.messages.push(message)
      if (message.event !== undefined) this.events.push(message.event as Event)
      this.#watchers.forEach((look) => look())
    })
  }

  async call(method: string, params: Json): Promise<Json> {
    const id = ++this.#id
    this.ws.send(JSON.stringify({ id, method, params }))
    return this.message((message) => message.id === id)
  }

  message(fits: (message: Json) => boolean, withinMs = WAIT_MS): Promise<Json> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`no such message; seen ${JSON.stringify(this.messages).slice(0, 2_000)}`)),
        withinMs,
      )
      const look = (): void => {
        const found = this.messages.find(fits)
        if (found === undefined) return
        clearTimeout(timer)
        this.#watchers.delete(look)
        resolve(found)
      }
      this.#watchers.add(look)
      look()
    })
  }

  async until(fits: (event: Event) => boolean): Promise<Event> {
    return (await this.message((message) => message.event !== undefined && fits(message.event as Event))).event as Event
  }

  close(): void {
    this.ws.terminate()
  }
}

export function present<T>(value: T | undefined): T {
  assert.ok(value !== undefined, 'it is not there')
  return value
}

export const isTerminal = (event: Event): boolean => event.type === 'turn-end' || event.type === 'turn-error'
