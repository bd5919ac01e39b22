/** A response that came as one document, as the events of a stream: all of them, or the rest after those already read. Pure. */
import type { SseFrame } from '@breakfall/wire'
import { type JsonObject, objectsIn, stringOr } from '../lib/json.ts'

/** What a stream had said about an item before it broke. */
export type SeenItem = {
  readonly id: string
  readonly index: unknown
  readonly isDone: boolean
  /** How much of the text, by content part. */
  readonly chars: readonly (number | undefined)[]
  readonly arguments: string
}

export function responseFrames(response: JsonObject): readonly SseFrame[] {
  const begun = { ...response, status: 'in_progress', output: [] }
  return [
    eventFrame({ type: 'response.created', response: begun }),
    eventFrame({ type: 'response.in_progress', response: begun }),
    ...restFrames(response, []),
  ]
}

/** The events that follow those of which `seen` is known. */
export function restFrames(response: JsonObject, seen: readonly SeenItem[]): readonly SseFrame[] {
  const items = objectsIn(response['output']).flatMap((item, index) => {
    const known = seen.find((one) => (one.id === '' ? one.index === index : one.id === item['id']))
    return known?.isDone === true ? [] : itemEvents(item, index, known)
  })
  const { status } = response
  const type = status === 'incomplete' || status === 'failed' ? `response.${status}` : 'response.completed'
  return [...items, { type, response }].map(eventFrame)
}

// ---- details ----

const eventFrame = (event: JsonObject): SseFrame => ({
  event: stringOr(event['type']),
  data: JSON.stringify(event),
})

function itemEvents(item: JsonObject, output_index: number, known: SeenItem | undefined): readonly JsonObject[] {
  const { type } = item
  const at = { item_id: item['id'], output_index }
  const added = { type: 'response.output_item.added', output_index, item: emptied(item) }
  const inside = (): readonly JsonObject[] => {
    switch (type) {
      case 'message':
        return objectsIn(item['content']).flatMap((part, index) =>
          partEvents(part, { ...at, content_index: index }, known, index),
        )
      case 'function_call':
        return argumentEvents(item, at, known?.arguments ?? '')
      case 'custom_tool_call':
        return inputEvents(item, at, known)
      case 'reasoning':
        return known === undefined ? [] : summaryEvents(item, at, known)
      default:
        return []
    }
  }
  return [
    ...(known === undefined ? [added] : []),
    ...inside(),
    { type: 'response.output_item.done', output_index, item },
  ]
}

function emptied(item: JsonObject): JsonObject {
  const begun = { ...item, status: 'in_progress' }
  if (item['type'] === 'message') return { ...begun, content: [] }
  return item['type'] === 'function_call' ? { ...begun, arguments: '' } : begun
}

function partEvents(
  part: JsonObject,
  at: JsonObject,
  known: SeenItem | undefined,
  index: number,
): readonly JsonObject[] {
  const isRefusal = part['type'] === 'refusal'
  const key = isRefusal ? 'refusal' : 'text'
  const name = isRefusal ? 'response.refusal' : 'response.output_text'
  const text = stringOr(part[key])
  const said = known?.chars[index]
  const delta = text.slice(said ?? 0)
  const logprobs = isRefusal ? {} : { logprobs: [] }
  return [
    ...(said === undefined ? [{ type: 'response.content_part.added', ...at, part: { ...part, [key]: '' } }] : []),
    ...(delta === '' ? [] : [{ type: `${name}.delta`, ...at, delta, ...logprobs }]),
    { type: `${name}.done`, ...at, [key]: text, ...logprobs },
    { type: 'response.content_part.done', ...at, part },
  ]
}

/** A summary whose beginning was streamed is streamed to its end. */
function summaryEvents(item: JsonObject, at: JsonObject, { chars }: SeenItem): readonly JsonObject[] {
  const name = 'response.reasoning_summary'
  return objectsIn(item['summary']).flatMap((part, summary_index) => {
    const of = { ...at, summary_index }
    const text = stringOr(part['text'])
    const delta = text.slice(chars[summary_index] ?? 0)
    return [
      ...(chars[summary_index] === undefined
        ? [{ type: `${name}_part.added`, ...of, part: { ...part, text: '' } }]
        : []),
      ...(delta === '' ? [] : [{ type: `${name}_text.delta`, ...of, delta }]),
      { type: `${name}_text.done`, ...of, text },
      { type: `${name}_part.done`, ...of, part },
    ]
  })
}

/** A whole one needs no events besides its beginning and its end. */
function inputEvents(item: JsonObject, at: JsonObject, known: SeenItem | undefined): readonly JsonObject[] {
  if (known === undefined) return []
  const input = stringOr(item['input'])
  const delta = input.slice(known.arguments.length)
  return [
    ...(delta === '' ? [] : [{ type: 'response.custom_tool_call_input.delta', ...at, delta }]),
    { type: 'response.custom_tool_call_input.done', ...at, input },
  ]
}

function argumentEvents(item: JsonObject, at: JsonObject, said: string): readonly JsonObject[] {
  const text = stringOr(item['arguments'])
  const delta = text.slice(said.length)
  return [
    ...(delta === '' ? [] : [{ type: 'response.function_call_arguments.delta', ...at, delta }]),
    { type: 'response.function_call_arguments.done', ...at, name: item['name'], arguments: text },
  ]
}
