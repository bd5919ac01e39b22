/** A daemon started as the contract says, and raw HTTP, SSE and WebSocket to talk to it: no client of ours. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { dirname, join } from 'node:path'
import { WebSocket } from 'ws'
import { Place, type Running } from './breakfall.ts'
import { type Answer, type ScriptedModel, startScriptedModel } from './wire-daemon-model.ts'

export const LIMIT = { timeout: 60_000 }
export const API_KEY = 'sk-wire-9f8e7d6c5b4a39281706f5e4d3c2b1a0'

// Loose on purpose: the tests check every field that they use.
// oxlint-disable-next-line typescript/no-explicit-any
export type Json = any
export type Event = { seq: number; type: string; turnId: string; sessionId: string; at: string; [key: string]: Json }
export type Reply = { status: number; headers: IncomingHttpHeaders; text: string; json: Json }
export type Asking = { body?: unknown; raw?: string | Buffer; token?: string | null; headers?: Record<string, string> }

const sandbox = (process.env['PATH'] ?? '').split(':').some((folder) => existsSync(join(folder, 'bwrap')))
export const isolation: readonly string[] = sandbox ? [] : ['--allow-isolation', 'process']

/** A place with a scripted model and, while `up` has been called and not undone, one daemon. */
export class Rig implements AsyncDisposable {
  readonly place = new Place()
  readonly model: ScriptedModel
  readonly stateDir: string
  listening: Json
  #running: Running | undefined
  #streams: { close(): void }[] = []
  #names = 0

  static async start(
    options: { up?: boolean; args?: readonly string[]; env?: Record<string, string> } = {},
  ): Promise<Rig> {
    const rig = new Rig(await startScriptedModel())
    if (options.up !== false) await rig.up(options.args, options.env)
    return rig
  }

  constructor(model: ScriptedModel) {
    this.model = model
    this.stateDir = join(this.place.home, 'daemon state')
  }

  get url(): string {
    return this.listening.url as string
  }
  get pid(): number {
    return this.listening.pid as number
  }
  get token(): string {
    return (
      readFileSync(this.listening.tokenFile as string, 'utf8')
        .trim()
        .split(/\s/)[0] ?? ''
    )
  }
  get stderr(): Promise<string> {
    return this.#running?.ended.then(({ stderr }) => stderr) ?? Promise.resolve('')
  }

  config(toml: string): void {
    const file = join(this.place.home, 'config', 'breakfall', 'config.toml')
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, toml)
  }

  async up(
    args: readonly string[] = [],
    env: Record<string, string> = {},
    without: readonly string[] = [],
  ): Promise<void> {
    const all = ['up', '--port', '0', '--json', '--state-dir', this.stateDir, '--allow-workspace', this.place.folder]
    const set = {
      BREAKFALL_MODEL_BASE_URL: this.model.url,
      BREAKFALL_MODEL_API_KEY_ENV: 'OPENAI_API_KEY',
      OPENAI_API_KEY: API_KEY,
      ...env,
    }
    const kept = Object.fromEntries(Object.entries(set).filter(([name]) => !without.includes(name)))
    this.#running = this.place.start([...all, '--model', 'any', ...isolation, ...args], kept)
    this.listening = await this.#running.seen((line) => line['event'] === 'listening')
  }

  async kill9(): Promise<void> {
    process.kill(this.pid, 'SIGKILL')
    await this.#running?.ended
  }

  /** SIGTERM, and the wait for the end. */
  async stop(): Promise<string> {
    process.kill(this.pid, 'SIGTERM')
    return (await this.#running?.ended)?.stderr ?? ''
  }

  call(method: string, path: string, asking: Asking = {}): Promise<Reply> {
    return call(this.url, method, path, { token: this.token, ...asking })
  }

  /** A session with a model name of its own that answers by the script. */
  async session(answers: readonly Answer[], more: Json = {}): Promise<{ id: string; model: string; record: Json }> {
    const model = `m${++this.#names}`
    this.model.script(model, answers)
    const made = await this.call('POST', '/v1/sessions', {
      body: { model, ...more, policy: { backoffMs: 1, ...more.policy } },
    })
    assert.equal(made.status, 201, made.text)
    return { id: made.json.id, model, record: made.json }
  }

  prompt(sessionId: string, prompt: string, more: Json = {}, headers: Record<string, string> = {}): Promise<Reply> {
    return this.call('POST', `/v1/sessions/${sessionId}/turns`, { body: { prompt, ...more }, headers })
  }

  /** Starts a turn and follows its session's events from the start. */
  async turn(sessionId: string, prompt = 'go'): Promise<{ turnId: string; seq: number; events: EventStream }> {
    const receipt = await this.prompt(sessionId, prompt)
    assert.equal(receipt.status, 202, receipt.text)
    return { ...receipt.json, events: await this.events(sessionId, '?after=0') }
  }

  /** A turn to its terminal event. */
  async wholeTurn(
    sessionId: string,
    prompt = 'go',
  ): Promise<{ turnId: string; events: readonly Event[]; last: Event }> {
    const { turnId, events } = await this.turn(sessionId, prompt)
    const last = await events.ended(turnId)
    events.close()
    return { turnId, events: events.events, last }
  }

  async events(sessionId: string, query = '', headers: Record<string, string> = {}): Promise<EventStream> {
    const stream = await EventStream.open(this.url, `/v1/sessions/${sessionId}/events${query}`, {
      authorization: `Bearer ${this.token}`,
      ...headers,
    })
    this.#streams.push(stream)
    return stream
  }

  async socket(how: { headers?: Record<string, string>; protocols?: string[] } = {}): Promise<Socket> {
    const socket = await Socket.open(
      this.url,
      how.headers ?? (how.protocols === undefined ? { authorization: `Bearer ${this.token}` } : {}),
      how.protocols ?? [],
    )
    this.#streams.push(socket)
    return socket
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stream of this.#streams) stream.close()
    await this.place[Symbol.asyncDispose]()
    this.model.close()
  }
}

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
        resolve({ status: res.statusCode ?? 0, headers: res.headers, text, json: parsed(text) })
        req.destroy()
      })
      res.on('error', reject)
    })
    req.on('error', reject)
    req.end(body)
  })
}

export type Frame = { id?: string; event?: string; data: Json }

/** One SSE stream, taken apart by hand. */
export class EventStream {
  readonly frames: Frame[] = []
  readonly comments: string[] = []
  readonly headers: IncomingHttpHeaders
  readonly closed: Promise<void>
  readonly #res: IncomingMessage
  readonly #watchers = new Set<() => void>()
  #rest = ''
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

  /** The id of the last journalled frame, or of the one at the given place. */
  cursor(place = -1): string {
    const ids = this.frames.flatMap(({ id }) => id ?? [])
    return present(ids.at(place))
  }

  /** Journalled events only: control frames such as `reset` carry no id. */
  get events(): Event[] {
    return this.frames.filter(({ id }) => id !== undefined).map(({ data }) => data as Event)
  }

  /** True where the server ended the stream in order, false where the connection was cut. */
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

  async until(fits: (event: Event) => boolean, withinMs = 25_000): Promise<Event> {
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
    return this.#when(() => this.frames.some(fits) || this.#over, 25_000)
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
    this.#rest += text
    const blocks = this.#rest.split('\n\n')
    this.#rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const frame: Frame = { data: undefined }
      let data = ''
      for (const line of block.split('\n')) {
        if (line.startsWith(':')) this.comments.push(line)
        else if (line.startsWith('id:')) frame.id = line.slice(3).trim()
        else if (line.startsWith('event:')) frame.event = line.slice(6).trim()
        else if (line.startsWith('data:')) data += line.slice(5).trimStart()
      }
      if (data === '' && frame.event === undefined) continue
      frame.data = parsed(data)
      this.frames.push(frame)
    }
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

  message(fits: (message: Json) => boolean, withinMs = 25_000): Promise<Json> {
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

/** What a consumer holds that appends deltas and drops discarded parts, by step. */
export function assembled(events: readonly Event[], turnId: string): Map<number, string> {
  const parts = new Map<string, { step: number; text: string }>()
  for (const event of events) {
    if (event.turnId !== turnId) continue
    const key = `${event['step']}/${event['attempt']}/${event['part']}`
    if (event.type === 'text-delta')
      parts.set(key, { step: event['step'], text: (parts.get(key)?.text ?? '') + event['text'] })
    if (event.type === 'part-discarded') parts.delete(key)
  }
  const steps = new Map<number, string>()
  for (const { step, text } of parts.values()) steps.set(step, (steps.get(step) ?? '') + text)
  return steps
}

/** Waits until the question is answered with yes, asking again while it is not. */
export async function eventually(
  what: string,
  met: () => boolean | Promise<boolean>,
  withinMs = 15_000,
): Promise<void> {
  for (let waited = 0; waited < withinMs; waited += 50) {
    if (await met()) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  assert.fail(`not within ${withinMs} ms: ${what}`)
}

/** Whether a `sleep` of this odd number of seconds runs on the machine, in a box or out of it. */
export function sleeps(seconds: string): boolean {
  return readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8') === `sleep\0${seconds}\0`
    } catch {
      return false // ended while we looked
    }
  })
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // not JSON; the caller looks at the text
  }
}
