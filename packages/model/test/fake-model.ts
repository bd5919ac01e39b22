/**
 * A model server that misbehaves on request: real HTTP over real sockets, written byte by byte, so that every way in
 * which a stream can end is one that a client meets in the field. Each request is answered by the next play of the
 * script; the last play is repeated.
 */
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'

export type FakeRequest = {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  readonly body: Record<string, unknown>
}

/** One thing that the server does on the connection. */
export type Act = (socket: Socket) => void | Promise<void>
export type Play = readonly Act[]
export type Script = readonly Play[] | ((request: FakeRequest, index: number) => Play)

export type FakeModel = {
  readonly url: string
  readonly port: number
  readonly requests: FakeRequest[]
  /** Connections that the client closed while the server was still playing. */
  readonly abandoned: () => number
  /** When the client has let go of that many connections. */
  readonly untilAbandoned: (count: number) => Promise<void>
  readonly close: () => Promise<void>
}

export async function startFakeModel(script: Script): Promise<FakeModel> {
  const requests: FakeRequest[] = []
  const sockets = new Set<Socket>()
  let abandoned = 0
  const waiting: { count: number; resolve: () => void }[] = []
  const server = createServer((socket) => {
    sockets.add(socket)
    let isPlaying = false
    socket.setNoDelay(true)
    socket.on('error', () => socket.destroy()) // the client's reset is part of the play
    socket.on('close', () => {
      sockets.delete(socket)
      if (!isPlaying) return
      abandoned++
      for (const { count, resolve } of waiting) if (abandoned >= count) resolve()
    })
    readRequests(socket, (request) => {
      requests.push(request)
      const index = requests.length - 1
      const play =
        typeof script === 'function' ? script(request, index) : (script[Math.min(index, script.length - 1)] ?? [])
      isPlaying = true
      void (async () => {
        for (const act of play) {
          if (socket.destroyed) return
          await act(socket)
        }
        isPlaying = false
      })()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1`,
    port,
    requests,
    abandoned: () => abandoned,
    untilAbandoned: (count) =>
      abandoned >= count ? Promise.resolve() : new Promise((resolve) => waiting.push({ count, resolve })),
    close: async () => {
      for (const socket of sockets) socket.destroy()
      if (!server.listening) return
      server.close()
      await once(server, 'close')
    },
  }
}

// ---- acts ----

export const head =
  (status = 200, headers: Readonly<Record<string, string>> = {}): Act =>
  (socket) => {
    const all = { 'content-type': 'text/event-stream', 'transfer-encoding': 'chunked', ...headers }
    const lines = Object.entries(all).flatMap(([name, value]) => (value === '' ? [] : [`${name}: ${value}\r\n`]))
    socket.write(`HTTP/1.1 ${status} X\r\n${lines.join('')}\r\n`)
  }

/** One chunk of the body, as it is. */
export const raw =
  (text: string): Act =>
  (socket) => {
    socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`)
  }

/** Bytes on the connection, with no framing at all. */
export const bytes =
  (text: string): Act =>
  (socket) => {
    socket.write(text)
  }

export const frame = (data: unknown, event?: string): Act =>
  raw(
    `${event === undefined ? '' : `event: ${event}\n`}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`,
  )

/** The proper end of a chunked body. It proves nothing. */
export const lastChunk: Act = bytes('0\r\n\r\n')

/** A reset, after what was written has had time to leave. */
export const rst: Act = async (socket) => {
  await flushed(socket)
  socket.resetAndDestroy()
}

/** The connection is closed without the last chunk. */
export const fin: Act = (socket) => {
  socket.end()
}

export const pause =
  (ms: number): Act =>
  () =>
    new Promise((resolve) => setTimeout(resolve, ms))

/** Silence until the client gives up. */
export const silence: Act = (socket) => new Promise((resolve) => socket.once('close', () => resolve()))

/** Something again and again until the client gives up. */
export const forever =
  (act: Act, everyMs: number): Act =>
  (socket) =>
    new Promise((resolve) => {
      const timer = setInterval(() => void act(socket), everyMs)
      socket.once('close', () => {
        clearInterval(timer)
        resolve()
      })
    })

/** A whole answer that is not a stream. */
export const json = (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Play => {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return [
    head(status, {
      'content-type': 'application/json',
      'transfer-encoding': '',
      'content-length': String(Buffer.byteLength(text)),
      ...headers,
    }),
    bytes(text),
  ]
}

// ---- OpenAI's chat frames ----

const chunk = (delta: unknown, finish: string | null = null): unknown => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'fake-1',
  choices: [{ index: 0, delta, finish_reason: finish }],
})

export const role: Act = frame(chunk({ role: 'assistant', content: null }))
export const text = (content: string): Act => frame(chunk({ content }))
export const thought = (reasoning_content: string): Act => frame(chunk({ reasoning_content }))
export const callStart = (id: string, name: string, args = '', index = 0): Act =>
  frame(chunk({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: args } }] }))
export const callMore = (args: string, index = 0): Act =>
  frame(chunk({ tool_calls: [{ index, function: { arguments: args } }] }))
export const finish = (reason: string): Act => frame(chunk({}, reason))
export const usage = (prompt_tokens: number, completion_tokens: number): Act =>
  frame({ id: 'chatcmpl-1', object: 'chat.completion.chunk', choices: [], usage: { prompt_tokens, completion_tokens } })
export const done: Act = frame('[DONE]')

/** A proper answer in as many pieces as there are texts. */
export const answer = (...texts: string[]): Play => [
  head(),
  role,
  ...texts.map(text),
  finish('stop'),
  usage(12, 7),
  done,
  lastChunk,
]

export const toolAnswer = (name: string, args: string, before: readonly Act[] = []): Play => [
  head(),
  role,
  ...before,
  callStart('call_1', name),
  ...(args.match(/.{1,5}/gs)?.map((piece) => callMore(piece)) ?? []),
  finish('tool_calls'),
  usage(12, 7),
  done,
  lastChunk,
]

// ---- Anthropic's events ----

const event = (type: string, more: object = {}): Act => frame({ type, ...more }, type)

export const messageStart: Act = event('message_start', {
  message: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-fake',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 12, output_tokens: 1 },
  },
})
export const blockStart = (index: number, content_block: object): Act =>
  event('content_block_start', { index, content_block })
export const textBlock = (index: number): Act => blockStart(index, { type: 'text', text: '' })
export const blockText = (index: number, value: string): Act =>
  event('content_block_delta', { index, delta: { type: 'text_delta', text: value } })
export const blockThought = (index: number, thinking: string): Act =>
  event('content_block_delta', { index, delta: { type: 'thinking_delta', thinking } })
export const blockJson = (index: number, partial_json: string): Act =>
  event('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json } })
export const blockStop = (index: number): Act => event('content_block_stop', { index })
export const messageDelta = (stop_reason: string): Act =>
  event('message_delta', { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 7 } })
export const messageStop: Act = event('message_stop')
export const ping: Act = event('ping')
export const errorEvent = (type: string, message: string): Act => event('error', { error: { type, message } })

export const message = (...texts: string[]): Play => [
  head(),
  messageStart,
  textBlock(0),
  ...texts.map((value) => blockText(0, value)),
  blockStop(0),
  messageDelta('end_turn'),
  messageStop,
  lastChunk,
]

export const toolMessage = (name: string, args: string, before: readonly Act[] = []): Play => [
  head(),
  messageStart,
  ...before,
  blockStart(before.length === 0 ? 0 : 1, { type: 'tool_use', id: 'toolu_1', name, input: {} }),
  ...(args.match(/.{1,5}/gs)?.map((piece) => blockJson(before.length === 0 ? 0 : 1, piece)) ?? []),
  blockStop(before.length === 0 ? 0 : 1),
  messageDelta('tool_use'),
  messageStop,
  lastChunk,
]

// ---- details ----

function readRequests(socket: Socket, onRequest: (request: FakeRequest) => void): void {
  let buffer = Buffer.alloc(0)
  socket.on('data', (data: Buffer) => {
    buffer = Buffer.concat([buffer, data])
    for (;;) {
      const split = buffer.indexOf('\r\n\r\n')
      if (split === -1) return
      const [line = '', ...fields] = buffer.subarray(0, split).toString('latin1').split('\r\n')
      const headers = Object.fromEntries(
        fields.map((field) => [
          field.slice(0, field.indexOf(':')).toLowerCase(),
          field.slice(field.indexOf(':') + 1).trim(),
        ]),
      )
      const length = Number(headers['content-length'] ?? 0)
      if (buffer.length < split + 4 + length) return
      const content = buffer.subarray(split + 4, split + 4 + length).toString('utf8')
      buffer = buffer.subarray(split + 4 + length)
      const [method = '', path = ''] = line.split(' ')
      onRequest({ method, path, headers, text: content, body: parsed(content) })
    }
  })
}

function parsed(content: string): Record<string, unknown> {
  try {
    return JSON.parse(content) as Record<string, unknown>
  } catch {
    return {} // not every request has a body, and some tests send nonsense
  }
}

function flushed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.writableLength === 0) setTimeout(resolve, 10)
    else socket.once('drain', () => setTimeout(resolve, 10))
  })
}
