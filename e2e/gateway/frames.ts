/** Frames as model servers send them, in both dialects, and a reader of them that knows only the SSE specification. */

// oxlint-disable-next-line typescript/no-explicit-any -- JSON from outside, read field by field by the tests.
export type Json = any

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

// ---- OpenAI chat completions ----

export const DONE = 'data: [DONE]\n\n'
export const CHAT = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'upstream-model' }

export function choice(delta: unknown, more: Readonly<Record<string, unknown>> = {}, top: object = {}): string {
  return data({ ...CHAT, choices: [{ index: 0, delta, finish_reason: null, ...more }], ...top })
}
export const role = (top: object = {}): string => choice({ role: 'assistant', content: '' }, {}, top)
export const text = (content: string, top: object = {}): string => choice({ content }, {}, top)
export const finish = (reason = 'stop', top: object = {}): string => choice({}, { finish_reason: reason }, top)
export const usage = (prompt = 3, completion = 5): string =>
  data({
    ...CHAT,
    choices: [],
    usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
  })
export const callStart = (index: number, id: string, name: string, args = ''): string =>
  choice({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: args } }] })
export const callMore = (index: number, args: string): string =>
  choice({ tool_calls: [{ index, function: { arguments: args } }] })
export const errorFrame = (error: object): string => data({ error })
/** A whole answer of these pieces. */
export const answer = (...pieces: readonly string[]): string[] => [
  role(),
  ...pieces.map((piece) => text(piece)),
  finish(),
  DONE,
]

// ---- Anthropic messages ----

export function event(value: { readonly type: string; readonly [field: string]: unknown }): string {
  return `event: ${value.type}\n${data(value)}`
}
export const messageStart = (id = 'msg_1', model = 'claude-up'): string =>
  event({
    type: 'message_start',
    message: {
      id,
      type: 'message',
      role: 'assistant',
      model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 3, output_tokens: 1 },
    },
  })
export const ping = event({ type: 'ping' })
export const blockStart = (index: number, block: object): string =>
  event({ type: 'content_block_start', index, content_block: block })
export const blockDelta = (index: number, delta: object): string => event({ type: 'content_block_delta', index, delta })
export const blockStop = (index: number): string => event({ type: 'content_block_stop', index })
export const messageDelta = (stop_reason = 'end_turn'): string =>
  event({ type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 7 } })
export const messageStop = event({ type: 'message_stop' })
export const textBlock = (index: number, ...pieces: readonly string[]): string[] => [
  blockStart(index, { type: 'text', text: '' }),
  ...pieces.map((piece) => blockDelta(index, { type: 'text_delta', text: piece })),
  blockStop(index),
]
export const toolBlock = (index: number, id: string, name: string, ...pieces: readonly string[]): string[] => [
  blockStart(index, { type: 'tool_use', id, name, input: {} }),
  ...pieces.map((partial_json) => blockDelta(index, { type: 'input_json_delta', partial_json })),
  blockStop(index),
]
/** A whole message of these blocks. */
export const message = (...blocks: readonly (readonly string[])[]): string[] => [
  messageStart(),
  ping,
  ...blocks.flat(),
  messageDelta(),
  messageStop,
]

// ---- reading ----

export type Frame = { readonly event: string | undefined; readonly data: string; readonly json: Json }

/** The frames and the comments of an event stream. A last block without its blank line is not a frame. */
export function framesIn(stream: string): { frames: Frame[]; comments: string[] } {
  const frames: Frame[] = []
  const comments: string[] = []
  let name: string | undefined
  let lines: string[] = []
  for (const line of stream.split(/\r\n|\n|\r/)) {
    if (line === '') {
      if (lines.length > 0) frames.push(frameOf(name, lines.join('\n')))
      name = undefined
      lines = []
    } else if (line.startsWith(':')) comments.push(line)
    else if (line.startsWith('data:')) lines.push(line.slice(5).replace(/^ /, ''))
    else if (line.startsWith('event:')) name = line.slice(6).trim()
  }
  return { frames, comments }
}

/** What an OpenAI client puts together of one choice. */
export function assembledChat(frames: readonly Frame[], index = 0): Json {
  const whole = {
    content: '',
    reasoning: '',
    roles: 0,
    finish: null as string | null,
    calls: [] as { id: string; name: string; arguments: string }[],
  }
  for (const { json } of frames)
    for (const one of json?.choices ?? []) {
      if (one.index !== index) continue
      if (one.delta?.role !== undefined) whole.roles++
      whole.content += one.delta?.content ?? ''
      whole.reasoning += one.delta?.reasoning_content ?? ''
      for (const call of one.delta?.tool_calls ?? []) {
        const held = (whole.calls[call.index] ??= { id: '', name: '', arguments: '' })
        held.id += call.id ?? ''
        held.name += call.function?.name ?? ''
        held.arguments += call.function?.arguments ?? ''
      }
      whole.finish = one.finish_reason ?? whole.finish
    }
  return whole
}

/** What an Anthropic client puts together. */
export function assembledMessage(frames: readonly Frame[]): Json[] {
  const blocks: Json[] = []
  for (const { json } of frames) {
    if (json?.type === 'content_block_start') blocks[json.index] = { ...json.content_block, json: '' }
    const block = blocks[json?.index]
    if (json?.type === 'content_block_delta' && block !== undefined) {
      if (json.delta.type === 'text_delta') block.text += json.delta.text
      if (json.delta.type === 'thinking_delta') block.thinking += json.delta.thinking
      if (json.delta.type === 'signature_delta') block.signature = (block.signature ?? '') + json.delta.signature
      if (json.delta.type === 'input_json_delta') block.json += json.delta.partial_json
    }
    if (json?.type === 'content_block_stop' && block !== undefined) block.stopped = true
  }
  return blocks
}

function frameOf(name: string | undefined, payload: string): Frame {
  let json: Json
  try {
    json = JSON.parse(payload)
  } catch {
    json = undefined // `[DONE]`, or a frame that is broken on purpose
  }
  return { event: name, data: payload, json }
}
