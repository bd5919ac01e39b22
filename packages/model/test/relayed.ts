/** A client of the relay: sends a request through it and holds what any client of that API would hold. */
import assert from 'node:assert/strict'
import { type Frame, framesIn } from '../../../test/kit/sse.ts'
import { type RelayApiName } from '../src/index.ts'
import {
  type JsonBody,
  receiveBody,
  relayAnswer,
  type RelayEvent,
  type RelayOptions,
  type RelayOutcome,
  type RelayTarget,
  type ReturnedHeaders,
} from '../src/internal.ts'
import { unboundedShare } from '@breakfall/wire/node'
import { QUICK, TOOLS } from './collect.ts'
import { type Exchange } from '../../../test/kit/exchange.ts'
import { type Script, startModelServer } from '../../../test/kit/model-server.ts'

export type Relayed = {
  readonly status: number
  readonly headers: ReturnedHeaders
  readonly body: string
  readonly frames: readonly Frame[]
  readonly comments: readonly string[]
  /** Text as a client appends it. */
  readonly text: string
  /** Tool arguments as a client appends them, by call. */
  readonly calls: readonly string[]
  readonly error: { readonly message: string; readonly code?: string; readonly type?: string } | undefined
  readonly isEnded: boolean
  /** The connection was cut. */
  readonly isCut: boolean
  readonly outcome: RelayOutcome
  readonly requests: readonly Exchange[]
  readonly events: readonly RelayEvent[]
}

export type RelayedOptions = RelayOptions & {
  readonly api?: RelayApiName
  readonly body?: Record<string, unknown>
  readonly profile?: RelayTarget['profile']
  readonly fallback?: readonly RelayTarget[]
  /** The server closes only after this. */
  readonly keepOpen?: Promise<void>
  /** The client can tell a cut connection from a proper end. */
  readonly canCut?: boolean
  readonly onWrite?: (chunk: string) => void
}

export async function relayed(script: Script, options: RelayedOptions = {}): Promise<Relayed> {
  const model = await startModelServer(script)
  const api = options.api ?? 'openai-chat'
  const tools = toolsFor(api)
  const json = { model: 'fake-1', messages: [{ role: 'user', content: 'hi' }], tools, stream: true, ...options.body }
  let status = 0
  let headers: ReturnedHeaders = {}
  let body = ''
  let isEnded = false
  let isCut = false
  const events: RelayEvent[] = []
  const outcome = await relayAnswer(
    {
      api,
      ...(api === 'gemini' ? { place: { path: '/v1beta/models/fake-1:streamGenerateContent' }, stream: true } : {}),
      search: '',
      headers: { 'content-type': 'application/json', authorization: 'Bearer client-key' },
      ...(await bodyOf(json)),
    },
    [{ baseUrl: model.url, profile: options.profile }, ...(options.fallback ?? [])],
    {
      head: (code, fields) => {
        status = code
        headers = fields
      },
      write: (chunk) => {
        body += chunk.toString()
        options.onWrite?.(chunk.toString())
        return true
      },
      drained: () => Promise.resolve(),
      end: () => {
        isEnded = true
      },
      ...(options.canCut === true
        ? {
            cut: () => {
              isCut = true
            },
          }
        : {}),
    },
    { ...options, policy: { ...QUICK, ...options.policy }, onEvent: (event) => events.push(event) },
  )
  await options.keepOpen
  await model.close()
  return { status, headers, body, ...held(api, body), isEnded, isCut, outcome, requests: model.requests, events }
}

/** A request's body as the gateway receives it. */
export async function bodyOf(json: object): Promise<Pick<JsonBody, 'body' | 'json'>> {
  const memory = unboundedShare()
  const options = { headers: {}, bytesMax: 1024 * 1024 * 1024, memory, look: 'fields' } as const
  const { read } = await receiveBody([Buffer.from(JSON.stringify(json))], options)
  assert.ok(read !== undefined)
  return { body: read.body, json: read.json }
}

function toolsFor(api: RelayApiName): readonly object[] {
  switch (api) {
    case 'openai-chat':
    case 'ollama':
      return TOOLS
    case 'openai-responses':
      return TOOLS.map(({ type, function: { name, parameters } }) => ({ type, name, parameters }))
    case 'anthropic-messages':
    case 'bedrock-messages':
      return TOOLS.map(({ function: { name, parameters } }) => ({ name, input_schema: parameters }))
    case 'gemini':
      return [{ functionDeclarations: TOOLS.map(({ function: { name } }) => ({ name })) }]
  }
}

function held(api: RelayApiName, body: string): Pick<Relayed, 'frames' | 'comments' | 'text' | 'calls' | 'error'> {
  const { frames, comments } = framesIn(body)
  let text = ''
  const calls: string[] = []
  let error: Relayed['error']
  for (const { data } of frames) {
    if (data === '[DONE]') continue
    const json = JSON.parse(data) as OpenAiFrame & AnthropicFrame & GeminiFrame
    error ??= json.error
    if (api === 'openai-chat') {
      const delta = json.choices?.[0]?.delta
      text += delta?.content ?? ''
      for (const call of delta?.tool_calls ?? [])
        calls[call.index] = (calls[call.index] ?? '') + call.function.arguments
      if (delta?.function_call !== undefined) calls[0] = (calls[0] ?? '') + delta.function_call.arguments
    } else if (api === 'gemini') {
      for (const part of json.candidates?.[0]?.content?.parts ?? []) {
        if (part.thought !== true) text += part.text ?? ''
        if (part.functionCall !== undefined) calls.push(JSON.stringify(part.functionCall.args))
      }
    } else if (api === 'openai-responses') {
      const event = JSON.parse(data) as ResponsesFrame
      if (event.type === 'error') error ??= event
      if (event.type === 'response.output_text.delta') text += event.delta
      if (event.item?.call_id !== undefined && event.type === 'response.output_item.added') calls.push('')
      if (/arguments\.delta|input\.delta/.test(event.type)) calls.push((calls.pop() ?? '') + event.delta)
    } else {
      text += json.delta?.text ?? json.content_block?.text ?? ''
      if (json.content_block?.type === 'tool_use') calls.push('')
      if (json.delta?.partial_json !== undefined) calls.push((calls.pop() ?? '') + json.delta.partial_json)
    }
  }
  return { frames, comments: comments.map((line) => line.replace(/^: ?/, '')), text, calls, error }
}

type OpenAiFrame = {
  error?: { message: string; code?: string; type?: string }
  choices?: {
    delta?: {
      content?: string | null
      tool_calls?: { index: number; function: { arguments: string } }[]
      function_call?: { arguments: string }
    }
  }[]
}
type GeminiFrame = { candidates?: { content?: { parts?: GeminiPart[] } }[] }
type GeminiPart = { text?: string; thought?: boolean; functionCall?: { args: object } }
type ResponsesFrame = {
  type: string
  message: string
  code?: string
  delta?: string
  item?: { call_id?: string }
}
type AnthropicFrame = {
  content_block?: { type?: string; text?: string }
  delta?: { text?: string; partial_json?: string }
}
