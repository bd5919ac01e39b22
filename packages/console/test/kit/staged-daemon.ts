/**
 * A daemon on a stage: the real page under the real headers, and an API whose every answer the test decides. For states that are
 * rare, hostile or many. What the page does with a real daemon is proven in `system/`.
 *
 * I1  Every answer, change and event is checked against the schemas of the wire; at the end, whatever did not fit fails the test.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { type WebSocket, WebSocketServer } from 'ws'
import { Fault, type FaultCategory, toProblem } from '@breakfall/faults'
import { CONSOLE_HEADERS } from '../../../daemon/src/api/console-page.ts'
import { buildConsole } from '../../build.mjs'
import { answerDrift, changeDrift, eventDrift, snapshotDrift } from './contract.ts'
import { completeSession, completeSystem, turnsIn } from './complete.ts'
import type { Event } from './journal.ts'

export const TOKEN = 'staged-token-0123456789abcdef'

type Json = Readonly<Record<string, unknown>>
type Answer = { readonly status?: number; readonly json?: unknown; readonly text?: string; readonly type?: string }
export type Handler = (request: {
  readonly method: string
  readonly url: URL
  readonly body: string
  readonly headers: IncomingMessage['headers']
}) => Answer | undefined

export class StagedDaemon implements AsyncDisposable {
  readonly sessions = new Map<string, Json>()
  readonly journals = new Map<string, Event[]>()
  readonly requests: {
    readonly method: string
    readonly path: string
    readonly body: string
    readonly key: string | undefined
  }[] = []
  /** Where pages continued, in the order they subscribed. */
  readonly subscribed: string[] = []
  /** Asked first; what it leaves alone gets the usual answer. */
  handle: Handler = () => undefined
  system: Json = {}
  counts: Json = {}
  bootId: string = randomUUID()
  journal = 'j1'
  /** The one token that it accepts. */
  token = TOKEN
  beats = true
  /** True: this stage sends events that no daemon would send. */
  isWild = false
  readonly #drift = new Set<string>()
  /** True: every connection is cut, and new ones are refused. */
  isAway = false
  readonly #server: Server
  readonly #sockets = new WebSocketServer({ noServer: true, handleProtocols: () => 'breakfall.v1' })
  readonly #subscribed = new Map<WebSocket, Set<string>>()
  readonly #timer: ReturnType<typeof setInterval>
  #folder = ''

  private constructor() {
    this.#server = createServer((req, res) => void this.#serve(req, res))
    this.#server.on('upgrade', (req, socket, head) => {
      if (this.isAway) return void socket.destroy()
      if (!(req.headers['sec-websocket-protocol'] ?? '').includes(this.token)) {
        socket.end('HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n')
        return
      }
      this.#sockets.handleUpgrade(req, socket, head, (ws) => this.#talk(ws))
    })
    this.#timer = setInterval(() => this.beats && this.send({ watch: { at: new Date().toISOString() } }), 5_000)
  }

  static async start(): Promise<StagedDaemon> {
    const staged = new StagedDaemon()
    staged.#folder = await buildConsole()
    await new Promise<void>((resolve) => staged.#server.listen(0, '127.0.0.1', resolve))
    return staged
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** The address with the token, as `breakfall open` would give one. */
  open(hash = '/'): string {
    return `${this.url}/#token=${TOKEN}&to=${encodeURIComponent(hash)}`
  }

  /** What the session lacks is filled in. */
  put(session: Json & { readonly id: string }, events: readonly Event[] = []): void {
    this.sessions.set(session.id, completeSession(session, events))
    this.journals.set(session.id, [...events])
  }

  /** To every page. */
  send(frame: { readonly watch: Json }): void {
    this.#note(changeDrift(frame.watch))
    for (const ws of this.#sockets.clients) ws.send(JSON.stringify(frame))
  }

  /** A live event. */
  push(sessionId: string, ...events: readonly Event[]): void {
    this.journals.get(sessionId)?.push(...events)
    this.#check(events)
    for (const [ws, ids] of this.#subscribed)
      if (ids.has(sessionId)) for (const event of events) ws.send(JSON.stringify({ event }))
  }

  change(session: Json & { readonly id: string }): void {
    const whole = completeSession(session, this.journals.get(session.id))
    this.sessions.set(session.id, whole)
    this.send({ watch: { session: whole } })
  }

  goAway(): void {
    this.isAway = true
    for (const ws of this.#sockets.clients) ws.terminate()
  }

  drop(code = 1001): void {
    for (const ws of this.#sockets.clients) ws.close(code)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    for (const ws of this.#sockets.clients) ws.terminate()
    this.#server.closeAllConnections()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
    assert.deepEqual([...this.#drift], [], 'the stage says what no daemon would say') // I1
  }

  // ---- details ----

  #note(drift: string | undefined): void {
    if (drift !== undefined) this.#drift.add(drift)
  }

  #check(events: readonly Event[]): void {
    if (!this.isWild) for (const event of events) this.#note(eventDrift(event))
  }

  #talk(ws: WebSocket): void {
    const subscribed = new Set<string>()
    this.#subscribed.set(ws, subscribed)
    ws.on('close', () => this.#subscribed.delete(ws))
    ws.on('message', (data: Buffer) => {
      const {
        id,
        method,
        params = {},
      } = JSON.parse(data.toString('utf8')) as { id: number; method: string; params?: Record<string, unknown> }
      const answer = (result: unknown): void => ws.send(JSON.stringify({ id, result }))
      const sessionId = String(params['sessionId'])
      if (method === 'watch') {
        const snapshot = {
          bootId: this.bootId,
          at: new Date().toISOString(),
          counts: this.counts,
          system: this.#system,
          sessions: [...this.sessions.values()],
        }
        this.#note(snapshotDrift(snapshot))
        return answer(snapshot)
      }
      if (method === 'unsubscribe') {
        subscribed.delete(sessionId)
        return answer({ sessionId })
      }
      const events = this.journals.get(sessionId)
      if (method !== 'subscribe' || events === undefined)
        return ws.send(JSON.stringify({ id, error: { category: 'not_found', error: 'No such session.' } }))
      const [, journal, seq = '0'] =
        /^(?:(.+)-)?(\d+)$/.exec(`${(params['after'] as string | number | undefined) ?? 0}`) ?? []
      this.subscribed.push(`${(params['after'] as string | number | undefined) ?? 0}`)
      const isReset = (journal !== undefined && journal !== this.journal) || Number(seq) > events.length
      answer({
        sessionId,
        journal: this.journal,
        lastSeq: events.at(-1)?.seq ?? 0,
        reset: isReset ? 'another_journal' : null,
      })
      if (isReset) ws.send(JSON.stringify({ reset: { sessionId, reason: 'another_journal' } }))
      subscribed.add(sessionId)
      this.#check(events)
      for (const event of events) if (isReset || event.seq > Number(seq)) ws.send(JSON.stringify({ event }))
    })
  }

  async #serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (this.isAway) return void req.socket.destroy()
    let body = ''
    for await (const chunk of req) body += String(chunk)
    const url = new URL(req.url ?? '/', this.url)
    const method = req.method ?? 'GET'
    const { pathname } = url
    if (pathname === '/' || pathname.startsWith('/assets/')) return this.#file(res, pathname)
    const key = req.headers['idempotency-key']
    this.requests.push({ method, path: pathname + url.search, body, key: typeof key === 'string' ? key : undefined })
    const isOpen = pathname === '/v1/health' || pathname === '/v1/console/tokens'
    if (!isOpen && req.headers.authorization !== `Bearer ${this.token}`)
      return reply(res, { status: 401, json: { category: 'unauthorized', error: 'No.' } })
    const answer = this.handle({ method, url, body, headers: req.headers }) ?? this.#usual(method, pathname, url)
    if (answer.text === undefined) this.#note(answerDrift(method, pathname, answer.status ?? 200, answer.json))
    reply(res, answer)
  }

  #usual(method: string, path: string, url: URL): Answer {
    const [, sessionId, rest] = /^\/v1\/sessions\/([^/]+)(?:\/(.+))?$/.exec(path) ?? []
    if (path === '/v1/health') return { json: { status: 'ok', version: '0', api: 1 } }
    if (path === '/v1/system') return { json: this.#system }
    if (path === '/v1/sessions' && method === 'GET')
      return { json: { sessions: this.#selected(url), counts: this.counts } }
    if (sessionId !== undefined && rest === 'turns' && method === 'GET')
      return { json: { turns: turnsIn(sessionId, this.journals.get(sessionId) ?? []) } }
    if (sessionId !== undefined && rest === 'export') {
      const lines = [
        { event: 'bundle', version: 1, session: this.sessions.get(sessionId) },
        ...(this.journals.get(sessionId) ?? []),
      ]
      return { text: lines.map((line) => JSON.stringify(line)).join('\n'), type: 'application/x-ndjson' }
    }
    if (sessionId !== undefined && rest === undefined && this.sessions.has(sessionId))
      return { json: this.sessions.get(sessionId) }
    return { status: 404, json: { category: 'not_found', error: 'Not on this stage.' } }
  }

  get #system(): Json {
    return completeSystem({ bootId: this.bootId, ...this.system })
  }

  #selected(url: URL): readonly Json[] {
    const states = url.searchParams.get('state')?.split(',')
    const q = url.searchParams.get('q')?.toLowerCase()
    return [...this.sessions.values()].filter((session) => {
      const state = (session['turn'] as Json | null)?.['state']
      if (states !== undefined && !states.includes(String(state))) return false
      return q === undefined || String(session['title']).toLowerCase().includes(q)
    })
  }

  #file(res: ServerResponse, path: string): void {
    const file = path === '/' ? 'index.html' : path.slice(1)
    try {
      const bytes = readFileSync(join(this.#folder, file))
      res
        .writeHead(200, { ...CONSOLE_HEADERS, 'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream' })
        .end(bytes)
    } catch {
      res.writeHead(404).end()
    }
  }
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
}

function reply(res: ServerResponse, { status = 200, json, text, type = 'application/json' }: Answer): void {
  const body = status >= 400 ? problem(json) : json
  res.writeHead(status, { 'Content-Type': type }).end(text ?? JSON.stringify(body ?? {}))
}

/** As a daemon reports a fault: the client believes no other error body. */
function problem(json: unknown): Json {
  const { category, error } = json as { readonly category: FaultCategory; readonly error: string }
  return { ...toProblem(new Fault(category, { error, errorRaw: error })) }
}
