/** What the fault proxy must know about the model APIs: what ends an answer, where tool arguments are, how errors look. */
import { isObject } from '@breakfall/faults/internal'

export type Dialect = 'openai' | 'responses' | 'anthropic' | 'gemini'

export function dialectOf(path: string): Dialect {
  if (/\/messages(?:[/?]|$)/.test(path)) return 'anthropic'
  if (/\/responses(?:[/?]|$)/.test(path)) return 'responses'
  return /:(?:streamGenerateContent|generateContent)(?:\?|$)/.test(path) ? 'gemini' : 'openai'
}

export function parseJson(text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined || !text.startsWith('{')) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined // not JSON: passed on unchanged
  }
}

/** True for an event that tells a client that the answer is complete. */
export function provesCompletion(data: string | undefined): boolean {
  if (data === '[DONE]') return true
  const json = parseJson(data)
  if (json === undefined) return false
  if (json['type'] === 'message_stop') return true
  if (typeof json['type'] === 'string' && RESPONSE_ENDS.has(json['type'])) return true
  if (json['type'] === 'message_delta') return read(json, 'delta', 'stop_reason') != null
  if (list(json['candidates']).some((candidate) => read(candidate, 'finishReason') != null)) return true
  return list(json['choices']).some((choice) => read(choice, 'finish_reason') != null)
}

/** A field of an event with (part of) a tool call's arguments, which can be overwritten. */
export type ArgumentField = {
  readonly text: string
  /** It repeats what earlier events brought in parts. */
  readonly isRepeat: boolean
  write(text: string): void
}

export function argumentFields(json: Record<string, unknown>): ArgumentField[] {
  const fields: ArgumentField[] = []
  const add = (holder: unknown, key: string, isRepeat = false): void => {
    if (!isObject(holder)) return
    const text = holder[key]
    if (typeof text !== 'string') return
    fields.push({
      text,
      isRepeat,
      write: (next) => {
        holder[key] = next
      },
    })
  }
  for (const choice of list(json['choices'])) {
    for (const call of [...list(read(choice, 'delta', 'tool_calls')), ...list(read(choice, 'message', 'tool_calls'))]) {
      add(read(call, 'function'), 'arguments')
    }
  }
  if (read(json, 'delta', 'type') === 'input_json_delta') add(json['delta'], 'partial_json')
  if (typeof json['type'] === 'string' && CALL_EVENTS.has(json['type'])) {
    for (const key of ['delta', 'arguments', 'input']) add(json, key, key !== 'delta')
  }
  // The Responses API repeats the arguments in the finished item and in the final object.
  const isEvent = json['output'] === undefined
  for (const item of [json['item'], ...list(read(json, 'response', 'output')), ...list(json['output'])]) {
    if (read(item, 'type') === 'function_call') add(item, 'arguments', isEvent)
    if (read(item, 'type') === 'custom_tool_call') add(item, 'input', isEvent)
  }
  return fields
}

export function dropFinishReason(json: Record<string, unknown>): void {
  for (const choice of list(json['choices'])) {
    if (isObject(choice) && choice['finish_reason'] != null) choice['finish_reason'] = null
  }
}

const RESPONSE_ENDS: ReadonlySet<string> = new Set([
  'response.completed',
  'response.incomplete',
  'response.failed',
  'response.done',
])

const CALL_EVENTS: ReadonlySet<string> = new Set([
  'response.function_call_arguments.delta',
  'response.function_call_arguments.done',
  'response.custom_tool_call_input.delta',
  'response.custom_tool_call_input.done',
])

export const IN_BAND_ERRORS = ['overloaded', 'server_error', 'rate_limit'] as const
export type InBandError = (typeof IN_BAND_ERRORS)[number]

/** From a plan, which names one of them. */
export const inBandErrorOf = (name: unknown): InBandError =>
  IN_BAND_ERRORS.find((error) => error === name) ?? 'overloaded'

/** An error as that API sends it, as a body or as the data of an event. */
export function errorJson(dialect: Dialect, error: InBandError | number, message: string): string {
  const [openaiType, anthropicType] = typeof error === 'number' ? typesOf(error) : ERROR_TYPES[error]
  if (dialect === 'anthropic') return JSON.stringify({ type: 'error', error: { type: anthropicType, message } })
  if (dialect === 'gemini') {
    const [code, status] = typeof error === 'number' ? geminiStatus(error) : GEMINI_ERRORS[error]
    return JSON.stringify({ error: { code, message, status } })
  }
  const code = error === 'rate_limit' || error === 429 ? 'rate_limit_exceeded' : null
  return JSON.stringify({ error: { message, type: openaiType, param: null, code } })
}

export function errorEvent(dialect: Dialect, error: InBandError): Buffer {
  const data = errorJson(dialect, error, IN_BAND_MESSAGES[error])
  if (dialect === 'responses') return Buffer.from(responsesError(error, IN_BAND_MESSAGES[error]))
  return Buffer.from(dialect === 'anthropic' ? `event: error\ndata: ${data}\n\n` : `data: ${data}\n\n`)
}

/** A keep-alive without content. */
export function pingEvent(dialect: Dialect): Buffer {
  return Buffer.from(dialect === 'anthropic' ? 'event: ping\ndata: {"type": "ping"}\n\n' : ': ping\n\n')
}

// ---- details ----

/** Twice, as OpenAI does: an error event, then the failed response. */
function responsesError(error: InBandError, message: string): string {
  const code = error === 'rate_limit' ? 'rate_limit_exceeded' : error === 'overloaded' ? 'server_is_overloaded' : error
  const event = (json: { readonly type: string } & Record<string, unknown>): string =>
    `event: ${json.type}\ndata: ${JSON.stringify(json)}\n\n`
  return (
    event({ type: 'error', error: { type: code, code, message, param: null } }) +
    event({ type: 'response.failed', response: { object: 'response', status: 'failed', error: { code, message } } })
  )
}

const ERROR_TYPES = {
  overloaded: ['overloaded_error', 'overloaded_error'],
  server_error: ['server_error', 'api_error'],
  rate_limit: ['rate_limit_error', 'rate_limit_error'],
} as const

const GEMINI_ERRORS = {
  overloaded: [503, 'UNAVAILABLE'],
  server_error: [500, 'INTERNAL'],
  rate_limit: [429, 'RESOURCE_EXHAUSTED'],
} as const

const geminiStatus = (status: number): readonly [number, string] =>
  Object.values(GEMINI_ERRORS).find(([code]) => code === status) ?? [
    status,
    status < 500 ? 'INVALID_ARGUMENT' : 'INTERNAL',
  ]

const IN_BAND_MESSAGES = {
  overloaded: 'Overloaded',
  server_error: 'The server had an error while processing your request',
  rate_limit: 'Rate limit reached',
} as const

function typesOf(status: number): readonly [string, string] {
  if (status === 429) return ERROR_TYPES.rate_limit
  if (status === 529 || status === 503) return ERROR_TYPES.overloaded
  return status >= 500 ? ERROR_TYPES.server_error : ['invalid_request_error', 'invalid_request_error']
}

function read(value: unknown, ...path: readonly string[]): unknown {
  let at = value
  for (const key of path) {
    if (!isObject(at)) return undefined
    at = at[key]
  }
  return at
}

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
