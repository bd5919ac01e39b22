/** A model server of the tests' own: real HTTP over TCP, one script per model name, every request kept. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Asked = {
  readonly headers: IncomingHttpHeaders
  readonly body: { model: string; messages: { role: string; content?: unknown }[]; [key: string]: unknown }
  readonly raw: string
}

export type Answer = (res: ServerResponse, asked: Asked) => void | Promise<void>

export type ScriptedModel = {
  readonly url: string
  /** Answers requests for this model name one after another; past the end it says "(script over)". */
  script(name: string, answers: readonly Answer[]): void
  asked(name: string): readonly Asked[]
  close(): void
}

export async function startScriptedModel(port = 0): Promise<ScriptedModel> {
  const scripts = new Map<string, readonly Answer[]>()
  const asked = new Map<string, Asked[]>()
  const server = createServer((req, res) => {
    let raw = ''
    req.on('data', (chunk: Buffer) => (raw += chunk.toString()))
    res.on('error', () => {
      // The daemon hung up on us, as a cancel makes it do.
    })
    req.on('end', () => {
      if (req.method !== 'POST') {
        res.writeHead(404).end()
        return
      }
      const body = JSON.parse(raw) as Asked['body']
      const before = asked.get(body.model) ?? []
      const one = { headers: req.headers, body, raw }
      asked.set(body.model, [...before, one])
      const answer = (scripts.get(body.model) ?? [])[before.length] ?? say('(script over)')
      void answer(res, one)
    })
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    script: (name, answers) => void scripts.set(name, answers),
    asked: (name) => asked.get(name) ?? [],
    close: () => server.close().closeAllConnections(),
  }
}

export type Call = { readonly tool: string; readonly arguments: Readonly<Record<string, unknown>> }

/** For scripts that must not care how often they are asked: the Nth answer while N tool results are in the request. */
export function byProgress(answers: readonly Answer[]): readonly Answer[] {
  const answer: Answer = (res, asked) => {
    const done = asked.body.messages.filter(({ role }) => role === 'tool').length
    return (answers[done] ?? say('(script over)'))(res, asked)
  }
  return Array.from({ length: 200 }, () => answer)
}

/** A whole answer of text, in pieces, with usage, proven by finish_reason and [DONE]. */
export function say(...pieces: readonly string[]): Answer {
  return (res) => {
    open(res)
    for (const content of pieces) res.write(chunk({ content }))
    res.write(chunk({}, 'stop'))
    res.write(usage())
    res.end('data: [DONE]\n\n')
  }
}

/** A whole answer that asks for tools, with some text before them where given. */
export function ask(calls: readonly Call[], text = ''): Answer {
  return (res) => {
    open(res)
    if (text !== '') res.write(chunk({ content: text }))
    for (const [index, call] of calls.entries()) res.write(toolChunk(index, call, JSON.stringify(call.arguments)))
    res.write(chunk({}, 'tool_calls'))
    res.write(usage())
    res.end('data: [DONE]\n\n')
  }
}

export const bash = (command: string): Call => ({ tool: 'bash', arguments: { command } })

/** Some text, then the connection is reset in the middle of the stream. */
export function cutAfter(...pieces: readonly string[]): Answer {
  return async (res) => {
    open(res)
    for (const content of pieces) await written(res, chunk({ content }))
    res.socket?.resetAndDestroy()
  }
}

/** Half of a tool call's arguments, then a clean end without proof. */
export function cutInTool(call: Call): Answer {
  return async (res) => {
    open(res)
    const text = JSON.stringify(call.arguments)
    await written(res, toolChunk(0, call, text.slice(0, Math.ceil(text.length / 2))))
    res.end()
  }
}

/** Text, then a clean end of the body without finish_reason and without [DONE]. */
export function endUnproven(...pieces: readonly string[]): Answer {
  return (res) => {
    open(res)
    for (const content of pieces) res.write(chunk({ content }))
    res.end()
  }
}

/** Some text, then silence while the connection stays open. */
export function stallAfter(...pieces: readonly string[]): Answer {
  return (res) => {
    open(res)
    for (const content of pieces) res.write(chunk({ content }))
  }
}

/** Text whose end waits for the given promise. */
export function sayWhen(gate: Promise<unknown>, before: string, after: string): Answer {
  return async (res) => {
    open(res)
    res.write(chunk({ content: before }))
    await gate
    if (res.destroyed) return
    res.write(chunk({ content: after }))
    res.write(chunk({}, 'stop'))
    res.end('data: [DONE]\n\n')
  }
}

export function refuse(
  status: number,
  error: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return (res) => {
    res.writeHead(status, { 'content-type': 'application/json', ...headers })
    res.end(JSON.stringify({ error }))
  }
}

/** A 200 whose stream carries an error object after some text. */
export function inBandError(error: Readonly<Record<string, unknown>>, ...pieces: readonly string[]): Answer {
  return (res) => {
    open(res)
    for (const content of pieces) res.write(chunk({ content }))
    res.end(`data: ${JSON.stringify({ error })}\n\n`)
  }
}

export const OVERFLOW = refuse(400, {
  message: "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
  type: 'invalid_request_error',
  param: 'messages',
  code: 'context_length_exceeded',
})

// ---- frames ----

function open(res: ServerResponse): void {
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  res.write(chunk({ role: 'assistant', content: '' }))
}

function chunk(delta: object, finish: string | null = null): string {
  return frame({ choices: [{ index: 0, delta, finish_reason: finish }] })
}

function toolChunk(index: number, call: Call, text: string): string {
  return chunk({
    tool_calls: [{ index, id: `call_${index + 1}`, type: 'function', function: { name: call.tool, arguments: text } }],
  })
}

const usage = (): string =>
  frame({ choices: [], usage: { prompt_tokens: 120, completion_tokens: 80, total_tokens: 200 } })

const frame = (value: object): string =>
  `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'any', ...value })}\n\n`

const written = (res: ServerResponse, text: string): Promise<void> =>
  new Promise((resolve) => res.write(text, () => resolve()))
