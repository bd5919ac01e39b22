/** What a fault proxy must know of the model APIs: what ends an answer, where tool arguments are, how errors look. */

export type Dialect = 'openai' | 'anthropic'

export const dialectOf = (path: string): Dialect => (/\/messages(?:[/?]|$)/.test(path) ? 'anthropic' : 'openai')

export function parseJson(text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined || !text.startsWith('{')) return undefined
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return undefined // Not ours to judge: what is no JSON is passed on as it came.
  }
}

/** True for an event from which a client could conclude that the answer is whole. */
export function provesCompletion(data: string | undefined): boolean {
  if (data === '[DONE]') return true
  const json = parseJson(data)
  if (json === undefined) return false
  if (json['type'] === 'message_stop' || json['type'] === 'response.completed') return true
  if (json['type'] === 'message_delta') return read(json, 'delta', 'stop_reason') != null
  return list(json['choices']).some((choice) => read(choice, 'finish_reason') != null)
}

/** A place in an event that holds (a piece of) a tool call's arguments, and that can be written. */
export type ArgumentsPlace = { readonly text: string; write(text: string): void }

export function argumentPlaces(json: Record<string, unknown>): ArgumentsPlace[] {
  const places: ArgumentsPlace[] = []
  const add = (holder: unknown, key: string): void => {
    const text = read(holder, key)
    if (typeof text !== 'string') return
    places.push({ text, write: (next) => ((holder as Record<string, unknown>)[key] = next) })
  }
  for (const choice of list(json['choices'])) {
    for (const call of [...list(read(choice, 'delta', 'tool_calls')), ...list(read(choice, 'message', 'tool_calls'))]) {
      add(read(call, 'function'), 'arguments')
    }
  }
  if (read(json, 'delta', 'type') === 'input_json_delta') add(json['delta'], 'partial_json')
  return places
}

export function dropFinishReason(json: Record<string, unknown>): void {
  for (const choice of list(json['choices'])) {
    if (read(choice, 'finish_reason') != null) (choice as Record<string, unknown>)['finish_reason'] = null
  }
}

export type InBandError = 'overloaded' | 'server_error' | 'rate_limit'

/** An error as that API sends it, in a body or as an event's data. */
export function errorJson(dialect: Dialect, error: InBandError | number, message: string): string {
  const [openaiType, anthropicType] = typeof error === 'number' ? typesOf(error) : ERROR_TYPES[error]
  if (dialect === 'anthropic') return JSON.stringify({ type: 'error', error: { type: anthropicType, message } })
  const code = error === 'rate_limit' || error === 429 ? 'rate_limit_exceeded' : null
  return JSON.stringify({ error: { message, type: openaiType, param: null, code } })
}

export function errorEvent(dialect: Dialect, error: InBandError): Buffer {
  const data = errorJson(dialect, error, IN_BAND_MESSAGES[error])
  return Buffer.from(dialect === 'anthropic' ? `event: error\ndata: ${data}\n\n` : `data: ${data}\n\n`)
}

/** A sign of life without content. */
export function pingEvent(dialect: Dialect): Buffer {
  return Buffer.from(dialect === 'anthropic' ? 'event: ping\ndata: {"type": "ping"}\n\n' : ': ping\n\n')
}

// ---- details ----

const ERROR_TYPES = {
  overloaded: ['overloaded_error', 'overloaded_error'],
  server_error: ['server_error', 'api_error'],
  rate_limit: ['rate_limit_error', 'rate_limit_error'],
} as const

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
    if (typeof at !== 'object' || at === null) return undefined
    at = (at as Record<string, unknown>)[key]
  }
  return at
}

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as unknown[]) : [])
