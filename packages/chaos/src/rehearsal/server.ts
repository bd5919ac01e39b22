/**
 * The rehearsal model: an OpenAI- and Anthropic-compatible server that plays scripted agent tasks as a pure function of the
 * conversation. It keeps nothing between requests, so that any client that carries on gets the next step.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Dialect, errorJson } from '../dialect.ts'
import { anthropicBody, anthropicEvents } from './anthropic.ts'
import { fromAnthropic, fromOpenAi, turnOf } from './conversation.ts'
import { openAiBody, openAiEvents, openAiModels } from './openai.ts'
import { answerTo, REHEARSAL_MODELS, scriptFor } from './script.ts'

export type RehearsalOptions = {
  readonly host?: string | undefined
  readonly port?: number | undefined
  /** Wait before each event of a stream, so that people can watch. */
  readonly chunkDelayMs?: number | undefined
}

/** One answer that was given, or begun. */
export type RehearsalRequest = {
  readonly path: string
  readonly model: string
  readonly script: string
  readonly isStream: boolean
  /** Tool results in the turn so far. */
  readonly results: number
  /** False where the client left before the end. */
  isWhole: boolean
}

export type RehearsalModel = {
  /** Base URL, with `/v1`. */
  readonly url: string
  readonly port: number
  readonly requests: readonly RehearsalRequest[]
  close(): Promise<void>
}

export async function startRehearsalModel(options: RehearsalOptions = {}): Promise<RehearsalModel> {
  const { host = '127.0.0.1', port = 0, chunkDelayMs = 0 } = options
  const requests: RehearsalRequest[] = []
  const note = (request: RehearsalRequest): RehearsalRequest => {
    requests.push(request)
    if (requests.length > REQUESTS_MAX) requests.shift()
    return request
  }
  // No idle time-out: a closed idle connection would be a fault that nobody asked for.
  const server = createServer({ keepAliveTimeout: 0 }, (req, res) => {
    handle(req, res, chunkDelayMs, note).catch((error: unknown) => {
      if (!res.headersSent) refuse(res, 'openai', 500, String(error))
      else res.destroy()
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, resolve)
  })
  const address = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${address.port}/v1`,
    port: address.port,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

// ---- details ----

const REQUESTS_MAX = 100_000
const BODY_BYTES_MAX = 64 * 1024 * 1024

async function handle(
  req: IncomingMessage,
  res: ServerResponse,
  chunkDelayMs: number,
  note: (request: RehearsalRequest) => RehearsalRequest,
): Promise<void> {
  const path = (req.url ?? '/').split('?')[0] ?? '/'
  const dialect: Dialect = path === '/v1/messages' ? 'anthropic' : 'openai'
  if (path === '/v1/models') return sendJson(res, 200, openAiModels(REHEARSAL_MODELS))
  if (path === '/health') return sendJson(res, 200, '{"status":"ok"}')
  if (path !== '/v1/chat/completions' && path !== '/v1/messages')
    return refuse(res, dialect, 404, `no such path: ${path}`)
  if (req.method !== 'POST') return refuse(res, dialect, 405, `use POST for ${path}`)
  const body = await readJson(req)
  if (typeof body === 'string') return refuse(res, dialect, 400, body)
  const plan = answerFor(body, dialect)
  if ('status' in plan) return refuse(res, dialect, plan.status, plan.message)

  const request = note({ path, isWhole: false, ...plan.request })
  if (plan.request.isStream) await sendEvents(res, plan.events(), chunkDelayMs)
  else sendJson(res, 200, plan.whole())
  request.isWhole = !res.destroyed
}

type Planned = {
  readonly request: Pick<RehearsalRequest, 'model' | 'script' | 'isStream' | 'results'>
  events(): Iterable<string>
  whole(): string
}

function answerFor(
  body: Record<string, unknown>,
  dialect: Dialect,
): Planned | { readonly status: number; readonly message: string } {
  const model = typeof body['model'] === 'string' ? body['model'] : 'rehearsal'
  let conversation
  try {
    const { messages, system } = body
    conversation = dialect === 'anthropic' ? fromAnthropic(messages, system) : fromOpenAi(messages)
  } catch (error) {
    return { status: 400, message: (error as Error).message }
  }
  const turn = turnOf(conversation)
  const script = scriptFor(model, turn.prompt)
  if (script === undefined) return { status: 404, message: `The model ${model} does not exist` }
  const answer = answerTo(script, conversation, toolNames(body['tools']))
  const withUsage = (body['stream_options'] as { include_usage?: unknown } | undefined)?.include_usage === true
  const results = turn.calls.filter((call) => call.result !== null).length
  return {
    request: { model, script: script.name, isStream: body['stream'] === true, results },
    events: () => (dialect === 'anthropic' ? anthropicEvents(answer, model) : openAiEvents(answer, model, withUsage)),
    whole: () => (dialect === 'anthropic' ? anthropicBody(answer, model) : openAiBody(answer, model)),
  }
}

function toolNames(tools: unknown): string[] | null {
  if (!Array.isArray(tools)) return null
  return tools.map((tool: { name?: unknown; function?: { name?: unknown } }) =>
    String(tool.function?.name ?? tool.name),
  )
}

async function sendEvents(res: ServerResponse, events: Iterable<string>, chunkDelayMs: number): Promise<void> {
  res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' })
  if (chunkDelayMs <= 0) {
    res.end([...events].join(''))
    return
  }
  const gone = new AbortController()
  res.once('close', () => gone.abort())
  res.flushHeaders()
  for (const event of events) {
    try {
      await sleep(chunkDelayMs, undefined, { signal: gone.signal })
    } catch {
      return // The client left: there is nobody to talk to.
    }
    res.write(event)
  }
  res.end()
}

async function readJson(req: IncomingMessage): Promise<Record<string, unknown> | string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of req as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > BODY_BYTES_MAX) return `the body is larger than ${BODY_BYTES_MAX} bytes`
    chunks.push(chunk)
  }
  try {
    const value: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'))
    return typeof value === 'object' && value !== null
      ? (value as Record<string, unknown>)
      : 'the body must be an object'
  } catch (error) {
    return `the body is not JSON: ${(error as Error).message}`
  }
}

function sendJson(res: ServerResponse, status: number, body: string): void {
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body)
}

function refuse(res: ServerResponse, dialect: Dialect, status: number, message: string): void {
  sendJson(res, status, errorJson(dialect, status, message))
}
