/**
 * The rehearsal model: a server that speaks OpenAI's, Anthropic's and Gemini's API, and performs scripted agent tasks as a pure function of
 * the conversation. It stores nothing between requests, so any client that continues gets the next step.
 * With `play` a program answers instead of the scripts.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { isObject, messageOf } from '@breakfall/faults/internal'
import { sleep } from '@breakfall/faults'
import { type Dialect, errorJson } from '../dialect.ts'
import { portOf } from '../port.ts'
import { type Api, apiFor, type OfferedTool } from './apis.ts'
import { type Message, turnOf } from './conversation.ts'
import { openAiModels } from './openai.ts'
import { scriptForClient } from './client-script.ts'
import { type Answer, answerTo, REHEARSAL_MODELS } from './script.ts'

export type RehearsalOptions = {
  readonly host?: string | undefined
  readonly port?: number | undefined
  /** Delay before each streamed event, so people can watch. */
  readonly chunkDelayMs?: number | undefined
  /** Answers every request, whatever model it names. */
  readonly play?: Play | undefined
}

export type Play = (asked: {
  readonly api: Api['name']
  readonly conversation: readonly Message[]
  readonly tools: readonly OfferedTool[]
}) => Answer

/** One answer, complete or not. */
export type RehearsalRequest = {
  readonly path: string
  readonly model: string
  readonly script: string
  readonly isStream: boolean
  /** Tool results in the turn so far. */
  readonly results: number
  /** False if the client disconnected before the end. */
  isComplete: boolean
}

export type RehearsalModel = {
  /** Base URL, with `/v1`. */
  readonly url: string
  readonly port: number
  readonly requests: readonly RehearsalRequest[]
  close(): Promise<void>
}

export async function startRehearsalModel(options: RehearsalOptions = {}): Promise<RehearsalModel> {
  const { host = '127.0.0.1', port = 0, chunkDelayMs = 0, play } = options
  const requests: RehearsalRequest[] = []
  const note = (request: RehearsalRequest): RehearsalRequest => {
    requests.push(request)
    if (requests.length > REQUESTS_MAX) requests.shift()
    return request
  }
  // No idle timeout: a closed idle connection would be a fault that no plan asked for.
  const server = createServer({ keepAliveTimeout: 0 }, (req, res) => {
    handle(req, res, { chunkDelayMs, play, note }).catch((error: unknown) => {
      if (!res.headersSent) refuse(res, 'openai', 500, String(error))
      else res.destroy()
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, resolve)
  })
  const listening = portOf(server)
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${listening}/v1`,
    port: listening,
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

type Serving = {
  readonly chunkDelayMs: number
  readonly play: Play | undefined
  readonly note: (request: RehearsalRequest) => RehearsalRequest
}

async function handle(req: IncomingMessage, res: ServerResponse, { chunkDelayMs, play, note }: Serving): Promise<void> {
  const path = (req.url ?? '/').split('?')[0] ?? '/'
  if (path === '/v1/models') return sendJson(res, 200, openAiModels(REHEARSAL_MODELS))
  if (path === '/health') return sendJson(res, 200, '{"status":"ok"}')
  const api = apiFor(path)
  const dialect: Dialect = api?.dialect ?? 'openai'
  if (api === undefined) return refuse(res, dialect, 404, `no such path: ${path}`)
  if (req.method !== 'POST') return refuse(res, dialect, 405, `use POST for ${path}`)
  const body = await readJson(req)
  if (typeof body === 'string') return refuse(res, dialect, 400, body)
  const plan = answerFor(body, path, api, play)
  if ('status' in plan) return refuse(res, dialect, plan.status, plan.message)

  const request = note({ path, isComplete: false, ...plan.request })
  if (plan.request.isStream) await sendEvents(res, plan.events(), chunkDelayMs)
  else sendJson(res, 200, plan.body())
  request.isComplete = !res.destroyed
}

type Planned = {
  readonly request: Pick<RehearsalRequest, 'model' | 'script' | 'isStream' | 'results'>
  events(): Iterable<string>
  body(): string
}

function answerFor(
  body: Record<string, unknown>,
  path: string,
  api: Api,
  play: Play | undefined,
): Planned | { readonly status: number; readonly message: string } {
  const model = api.model(body, path)
  let conversation
  try {
    conversation = api.conversation(body)
  } catch (error) {
    return { status: 400, message: messageOf(error) }
  }
  const turn = turnOf(conversation)
  const tools = api.tools(body)
  const played = play?.({ api: api.name, conversation, tools: tools ?? [] })
  const script = played === undefined ? scriptForClient(model, turn.prompt, tools) : undefined
  const answer = played ?? (script && answerTo(script, conversation, tools?.map((tool) => tool.name) ?? null))
  if (answer === undefined) return { status: 404, message: `The model ${model} does not exist` }
  const results = turn.calls.filter((call) => call.result !== null).length
  return {
    request: { model, script: script?.name ?? 'play', isStream: api.isStream(body, path), results },
    events: () => api.events(answer, model, body),
    body: () => api.body(answer, model),
  }
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
    await sleep(chunkDelayMs, gone.signal)
    if (gone.signal.aborted) return // the client disconnected
    res.write(event)
  }
  res.end()
}

async function readJson(req: IncomingMessage): Promise<Record<string, unknown> | string> {
  const chunks: Buffer[] = []
  let bytes = 0
  const body: AsyncIterable<Buffer> = req
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > BODY_BYTES_MAX) return `the body is larger than ${BODY_BYTES_MAX} bytes`
    chunks.push(chunk)
  }
  try {
    const value: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'))
    return isObject(value) ? value : 'the body must be a JSON object'
  } catch (error) {
    return `the body is not JSON: ${messageOf(error)}`
  }
}

function sendJson(res: ServerResponse, status: number, body: string): void {
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body)
}

function refuse(res: ServerResponse, dialect: Dialect, status: number, message: string): void {
  sendJson(res, status, errorJson(dialect, status, message))
}
