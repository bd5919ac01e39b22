/** An answer that came as one JSON document, although a stream was asked for. */
import { Fault, redactStart } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { isObject, type JsonObject, objectOr, objectsIn } from '../lib/json.ts'
import { parsedBytes } from '../lib/json-fields.ts'
import { type MemoryShare, taking, unboundedShare } from '@breakfall/wire/node'
import { objectArguments } from './read-answer.ts'

/** Refuses what there is no room to parse. The room is free again afterwards, for the next answer. */
export function wholeJson(body: Buffer, contentType: string, memory: MemoryShare = unboundedShare()): JsonObject {
  const room = memory.part()
  try {
    taking(room)(2 * body.length) // joined, and as text
    const text = body.toString('utf8')
    taking(room)(parsedBytes(text))
    const json = parsed(text, contentType)
    if (!isObject(json)) throw notAnAnswer(text, contentType, undefined)
    return json
  } finally {
    room.close()
  }
}

/** A chat completion as the frames of a stream. */
export function chatFrames({ id, created, model, choices, usage }: JsonObject): readonly SseFrame[] {
  const base = { id, object: 'chat.completion.chunk', created, model }
  const deltas = objectsIn(choices).map(({ index = 0, message, finish_reason }) => {
    const { tool_calls: calls, ...rest } = objectOr(message)
    // Its place in the list: some servers give each call the index 0.
    const tool_calls = Array.isArray(calls) ? objectsIn(calls).map((call, index) => ({ ...call, index })) : calls
    const delta = tool_calls === undefined ? rest : { ...rest, tool_calls }
    return { ...base, choices: [{ index, delta, finish_reason: finish_reason ?? 'stop' }] }
  })
  const frames: object[] = [...deltas, ...(usage == null ? [] : [{ ...base, choices: [], usage }])]
  return [...frames.map((frame) => ({ data: JSON.stringify(frame) })), { data: '[DONE]' }]
}

/** A message as the events of a stream. */
export function messageFrames(json: JsonObject): readonly SseFrame[] {
  const { content, stop_reason, stop_sequence = null, usage, ...message } = json
  const blocks = objectsIn(content).flatMap((block, index) => {
    return [
      { type: 'content_block_start', index, content_block: emptyBlock(block) },
      ...blockDeltas(block).map((delta) => ({ type: 'content_block_delta', index, delta })),
      { type: 'content_block_stop', index },
    ]
  })
  const events = [
    { type: 'message_start', message: { ...message, content: [], stop_reason: null, stop_sequence: null, usage } },
    ...blocks,
    { type: 'message_delta', delta: { stop_reason: stop_reason ?? 'end_turn', stop_sequence }, usage },
    { type: 'message_stop' },
  ]
  return events.map((event) => ({ event: event.type, data: JSON.stringify(event) }))
}

// ---- details ----

function parsed(text: string, contentType: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw notAnAnswer(text, contentType, cause)
  }
}

function emptyBlock(block: JsonObject): JsonObject {
  const { type, citations } = block
  if (type === 'text') return { ...block, text: '', ...(citations == null ? {} : { citations: [] }) }
  if (type === 'thinking') return { ...block, thinking: '', signature: '' }
  return type === 'tool_use' ? { ...block, input: {} } : block
}

function blockDeltas({ type, text, thinking, signature, citations, input }: JsonObject): readonly JsonObject[] {
  switch (type) {
    case 'text':
      return [
        ...objectsIn(citations).map((citation) => ({ type: 'citations_delta', citation })),
        { type: 'text_delta', text },
      ]
    case 'thinking':
      return [
        { type: 'thinking_delta', thinking },
        ...(typeof signature === 'string' ? [{ type: 'signature_delta', signature }] : []),
      ]
    case 'tool_use':
      return [{ type: 'input_json_delta', partial_json: objectArguments(input) }]
    default:
      return []
  }
}

/** Cut JSON is a broken answer. Anything else does not come from a model: a proxy's page, a captive portal. */
function notAnAnswer(text: string, contentType: string, cause: unknown): Fault {
  const isCut = contentType.includes('json')
  return new Fault(isCut ? 'model_stream_interrupted' : 'model_server_error', {
    phase: 'stream',
    facts: { detail: isCut ? undefined : `it answered ${contentType || 'something'} instead of an event stream` },
    errorRaw: `${contentType}: ${redactStart(text, 500)}`,
    cause,
  })
}
