/** An answer that came as one JSON document, although a stream was asked for. */
import { Fault, redactStart } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'

export function wholeJson(body: Buffer, contentType: string): object {
  const text = body.toString('utf8')
  try {
    const json: unknown = JSON.parse(text)
    if (typeof json === 'object' && json !== null) return json
  } catch (cause) {
    throw notAnAnswer(text, contentType, cause)
  }
  throw notAnAnswer(text, contentType, undefined)
}

/** A chat completion as the frames of a stream. */
export function chatFrames(json: object): readonly SseFrame[] {
  const { id, created, model, choices, usage } = json as ChatCompletion
  const base = { id, object: 'chat.completion.chunk', created, model }
  const deltas = objectsIn(choices).map(({ index = 0, message, finish_reason }) => {
    const calls = message?.tool_calls
    const tool_calls = Array.isArray(calls)
      ? objectsIn(calls as object[]).map((call, at) => ({ index: at, ...call }))
      : undefined
    const delta = { ...message, ...(tool_calls === undefined ? {} : { tool_calls }) }
    return { ...base, choices: [{ index, delta, finish_reason: finish_reason ?? 'stop' }] }
  })
  const frames: object[] = [...deltas, ...(usage == null ? [] : [{ ...base, choices: [], usage }])]
  return [...frames.map((frame) => ({ data: JSON.stringify(frame) })), { data: '[DONE]' }]
}

/** A message as the events of a stream. */
export function messageFrames(json: object): readonly SseFrame[] {
  const { content, stop_reason, stop_sequence = null, usage, ...message } = json as Message
  const blocks = objectsIn(content).flatMap((block, index) => [
    { type: 'content_block_start', index, content_block: emptyBlock(block) },
    ...(blockDelta(block) === undefined ? [] : [{ type: 'content_block_delta', index, delta: blockDelta(block) }]),
    { type: 'content_block_stop', index },
  ])
  const events = [
    { type: 'message_start', message: { ...message, content: [], stop_reason: null, stop_sequence: null, usage } },
    ...blocks,
    { type: 'message_delta', delta: { stop_reason: stop_reason ?? 'end_turn', stop_sequence }, usage },
    { type: 'message_stop' },
  ]
  return events.map((event) => ({ event: event.type, data: JSON.stringify(event) }))
}

// ---- details ----

type ChatCompletion = {
  id?: unknown
  created?: unknown
  model?: unknown
  usage?: unknown
  choices?: { index?: number; message?: { tool_calls?: unknown }; finish_reason?: unknown }[]
}
type ContentBlock = { type?: unknown; text?: unknown; thinking?: unknown; input?: unknown }
type Message = { content?: ContentBlock[]; stop_reason?: unknown; stop_sequence?: unknown; usage?: unknown }

/** What a server sends as a list may have anything in it. */
function objectsIn<T extends object>(list: readonly T[] | undefined): readonly T[] {
  return Array.isArray(list)
    ? (list as unknown[]).filter((entry): entry is T => typeof entry === 'object' && entry !== null)
    : []
}

function emptyBlock(block: ContentBlock): object {
  if (block.type === 'text') return { ...block, text: '' }
  if (block.type === 'thinking') return { ...block, thinking: '' }
  return block.type === 'tool_use' ? { ...block, input: {} } : block
}

function blockDelta(block: ContentBlock): object | undefined {
  if (block.type === 'text') return { type: 'text_delta', text: block.text }
  if (block.type === 'thinking') return { type: 'thinking_delta', thinking: block.thinking }
  return block.type === 'tool_use'
    ? { type: 'input_json_delta', partial_json: JSON.stringify(block.input ?? {}) }
    : undefined
}

/** Cut JSON is a broken answer; anything else is somebody who is no model: a proxy's page, a captive portal. */
function notAnAnswer(text: string, contentType: string, cause: unknown): Fault {
  const isCut = contentType.includes('json')
  return new Fault(isCut ? 'model_stream_interrupted' : 'model_server_error', {
    phase: 'stream',
    facts: { detail: isCut ? undefined : `it answered ${contentType || 'something'} instead of an event stream` },
    errorRaw: `${contentType}: ${redactStart(text, 500)}`,
    cause,
  })
}
