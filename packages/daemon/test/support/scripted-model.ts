/** A model server for tests: speaks OpenAI's streaming protocol over TCP and says what a script tells it. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export type ScriptedAnswer = {
  readonly text?: string
  readonly calls?: readonly {
    readonly id?: string
    readonly tool: string
    readonly arguments: Record<string, unknown>
  }[]
  /** Pause before each piece of text. */
  readonly pauseMs?: number
  /** Characters per piece. */
  readonly pieceChars?: number
  /** Breaks the connection after that many pieces. */
  readonly cutAfter?: number
  /** Refuses instead. */
  readonly status?: number
  readonly headers?: Record<string, string>
  readonly body?: unknown
  /** Holds the answer back until it resolves. */
  readonly until?: Promise<unknown>
}

export type ModelMessage = {
  role: string
  content: string | null
  tool_calls?: { id: string }[]
  tool_call_id?: string
}
export type Asked = {
  readonly messages: ModelMessage[]
  readonly model: string
  readonly authorization: string | undefined
  readonly tools?: unknown
}

/** Called with the conversation and the number of the request; the same conversation should get the same answer. */
export type Script = (asked: Asked, request: number) => ScriptedAnswer

/** Answers by how many answers the current turn already has: a restart then finds the same script at the same place. */
export function inOrder(...answers: readonly ScriptedAnswer[]): Script {
  return ({ messages }) => {
    const from = messages.findLastIndex((message) => message.role === 'user')
    const done = messages.slice(from).filter((message) => message.role === 'assistant').length
    return answers[Math.min(done, answers.length - 1)] ?? { text: 'nothing' }
  }
}

export type ScriptedModel = {
  readonly baseUrl: string
  readonly port: number
  readonly asked: Asked[]
  close(): Promise<void>
}

export async function startScriptedModel(script: Script, port = 0): Promise<ScriptedModel> {
  const asked: Asked[] = []
  const server = createServer((req, res) => {
    answer(req, res, script, asked).catch(() => res.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  const bound = (server.address() as AddressInfo).port
  return {
    baseUrl: `http://127.0.0.1:${bound}/v1`,
    port: bound,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function answer(req: IncomingMessage, res: ServerResponse, script: Script, asked: Asked[]): Promise<void> {
  let text = ''
  for await (const chunk of req) text += String(chunk)
  if (req.url === '/health') return void res.writeHead(200).end('{}')
  const request = { ...(JSON.parse(text) as Asked), authorization: req.headers.authorization }
  asked.push(request)
  const given = script(request, asked.length)
  await given.until
  if (given.status !== undefined) {
    res.writeHead(given.status, { 'content-type': 'application/json', ...given.headers })
    return void res.end(JSON.stringify(given.body ?? { error: { message: 'refused' } }))
  }
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  res.flushHeaders()
  const chunk = (choice: object, more: object = {}): boolean =>
    res.write(
      `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: request.model, choices: [{ index: 0, ...choice }], ...more })}\n\n`,
    )
  chunk({ delta: { role: 'assistant', content: '' }, finish_reason: null })
  let sent = 0
  for (const piece of pieces(given.text ?? '', given.pieceChars ?? 8)) {
    if (given.cutAfter !== undefined && sent >= given.cutAfter) return void res.destroy()
    if (given.pauseMs !== undefined) await sleep(given.pauseMs)
    if (res.destroyed) return
    chunk({ delta: { content: piece }, finish_reason: null })
    sent += 1
  }
  if (given.cutAfter !== undefined) return void res.destroy()
  for (const [index, { id, tool, arguments: args }] of (given.calls ?? []).entries()) {
    const name = { name: tool, arguments: '' }
    chunk({
      delta: { tool_calls: [{ index, id: id ?? `call_${asked.length}_${index}`, type: 'function', function: name }] },
      finish_reason: null,
    })
    chunk({ delta: { tool_calls: [{ index, function: { arguments: JSON.stringify(args) } }] }, finish_reason: null })
  }
  chunk({ delta: {}, finish_reason: (given.calls?.length ?? 0) > 0 ? 'tool_calls' : 'stop' })
  res.write(
    `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: request.model, choices: [], usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } })}\n\n`,
  )
  res.end('data: [DONE]\n\n')
}

function pieces(text: string, chars: number): string[] {
  return Array.from({ length: Math.ceil(text.length / chars) }, (_, n) => text.slice(n * chars, (n + 1) * chars))
}
