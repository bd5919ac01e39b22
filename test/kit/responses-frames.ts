/** Events of an OpenAI Responses stream, as strings, and answers made of them. */
import { head, lastChunk, type Play } from './plays.ts'

export type ResponseEvent = { readonly type: string; readonly [field: string]: unknown }

/** One item: the events that it is made of, and the item when it is complete. */
export type Item = (index: number) => { readonly events: readonly ResponseEvent[]; readonly item: object }

export const responseEvent = (event: ResponseEvent): string =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

export const messageItem =
  (texts: readonly string[], id = 'msg_1'): Item =>
  (output_index) => {
    const at = { item_id: id, output_index, content_index: 0 }
    const text = texts.join('')
    const part = { type: 'output_text', text, annotations: [] }
    const item = { id, type: 'message', role: 'assistant', status: 'completed', content: [part] }
    const events = [
      added(output_index, { ...item, status: 'in_progress', content: [] }),
      { type: 'response.content_part.added', ...at, part: { ...part, text: '' } },
      ...texts.map((delta) => ({ type: 'response.output_text.delta', ...at, delta, logprobs: [] })),
      { type: 'response.output_text.done', ...at, text, logprobs: [] },
      { type: 'response.content_part.done', ...at, part },
      done(output_index, item),
    ]
    return { events, item }
  }

export const reasoningItem =
  (texts: readonly string[], id = 'rs_1', encrypted_content = `secret of ${id}`): Item =>
  (output_index) => {
    const at = { item_id: id, output_index, summary_index: 0 }
    const text = texts.join('')
    const item = { id, type: 'reasoning', summary: [{ type: 'summary_text', text }], encrypted_content }
    const events = [
      added(output_index, { id, type: 'reasoning', summary: [] }),
      { type: 'response.reasoning_summary_part.added', ...at, part: { type: 'summary_text', text: '' } },
      ...texts.map((delta) => ({ type: 'response.reasoning_summary_text.delta', ...at, delta })),
      { type: 'response.reasoning_summary_text.done', ...at, text },
      { type: 'response.reasoning_summary_part.done', ...at, part: { type: 'summary_text', text } },
      done(output_index, item),
    ]
    return { events, item }
  }

export const callItem =
  (name: string, args: string, call_id = 'call_1', id = `fc_${call_id}`): Item =>
  (output_index) => {
    const at = { item_id: id, output_index }
    const item = { id, type: 'function_call', status: 'completed', call_id, name, arguments: args }
    const events = [
      added(output_index, { ...item, status: 'in_progress', arguments: '' }),
      ...(args.match(/.{1,5}/gs) ?? []).map((delta) => ({
        type: 'response.function_call_arguments.delta',
        ...at,
        delta,
      })),
      { type: 'response.function_call_arguments.done', ...at, name, arguments: args },
      done(output_index, item),
    ]
    return { events, item }
  }

export const customItem =
  (name: string, input: string, call_id = 'call_1', id = 'ctc_1'): Item =>
  (output_index) => {
    const at = { item_id: id, output_index }
    const item = { id, type: 'custom_tool_call', status: 'completed', call_id, name, input }
    const events = [
      added(output_index, { ...item, status: 'in_progress', input: '' }),
      ...(input.match(/.{1,5}/gs) ?? []).map((delta) => ({
        type: 'response.custom_tool_call_input.delta',
        ...at,
        delta,
      })),
      { type: 'response.custom_tool_call_input.done', ...at, input },
      done(output_index, item),
    ]
    return { events, item }
  }

/** An item of any type, with the events between its beginning and its end. */
export const otherItem =
  (
    item: { readonly id: string; readonly type: string; readonly [field: string]: unknown },
    inside: readonly string[] = [],
  ): Item =>
  (output_index) => ({
    events: [
      added(output_index, { ...item, status: 'in_progress' }),
      ...inside.map((type) => ({ type, item_id: item.id, output_index })),
      done(output_index, item),
    ],
    item,
  })

export type ResponseOptions = {
  readonly id?: string
  readonly status?: string
  /** The event that ends it; by default the event that fits the status. */
  readonly end?: string
  readonly more?: object
}

/** The numbered events of a whole response. */
export function responseFrames(items: readonly Item[], options: ResponseOptions = {}): string[] {
  const { id = 'resp_1', status = 'completed', more = {} } = options
  const played = items.map((item, index) => item(index))
  const response = {
    id,
    object: 'response',
    created_at: 1,
    model: 'fake-1',
    status,
    error: null,
    incomplete_details: null,
    output: played.map(({ item }) => item),
    usage: { input_tokens: 12, output_tokens: 7, total_tokens: 19 },
    ...more,
  }
  const begun = { ...response, status: 'in_progress', output: [], usage: null }
  const events: ResponseEvent[] = [
    { type: 'response.created', response: begun },
    { type: 'response.in_progress', response: begun },
    ...played.flatMap(({ events: own }) => own),
    { type: options.end ?? `response.${status}`, response },
  ]
  return events.map((event, sequence_number) => responseEvent({ ...event, sequence_number }))
}

/** The frames up to and including the nth delta (from 1). */
export function upToDelta(frames: readonly string[], nth: number): string[] {
  let seen = 0
  const last = frames.findIndex((frame) => frame.includes('.delta"') && ++seen === nth)
  return frames.slice(0, last + 1)
}

/** A whole streamed response of these items. */
export const responding = (items: readonly Item[], options?: ResponseOptions): readonly Play[] => [
  head(),
  ...responseFrames(items, options),
  lastChunk,
]

/** A whole streamed response with these pieces of text. */
export const responded = (...texts: readonly string[]): readonly Play[] => responding([messageItem(texts)])

/** The same events as llama.cpp sends them: without numbers and indexes. */
export function unnumbered(frames: readonly string[]): string[] {
  return frames.map((frame) =>
    frame.replace(/^data: (.*)$/m, (_, data: string) => {
      const { sequence_number: _number, output_index: _output, content_index: _content, ...rest } = JSON.parse(data)
      return `data: ${JSON.stringify(rest)}`
    }),
  )
}

export const failedEvent = (code: string, message = 'x'): string =>
  responseEvent({
    type: 'response.failed',
    sequence_number: 9,
    response: { id: 'resp_1', status: 'failed', error: { code, message } },
  })
export const flatError = (code: string, message = 'x'): string =>
  responseEvent({ type: 'error', sequence_number: 9, code, message, param: null })
export const nestedError = (code: string, message = 'x'): string =>
  responseEvent({ type: 'error', sequence_number: 9, error: { type: code, code, message, param: null } })

/** A response in one piece. */
export const wholeResponse = (items: readonly Item[], more: object = {}): object => ({
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  model: 'fake-1',
  status: 'completed',
  error: null,
  incomplete_details: null,
  output: items.map((item, index) => item(index).item),
  usage: { input_tokens: 12, output_tokens: 7, total_tokens: 19 },
  ...more,
})

// ---- details ----

const added = (output_index: number, item: object): ResponseEvent => ({
  type: 'response.output_item.added',
  output_index,
  item,
})
const done = (output_index: number, item: object): ResponseEvent => ({
  type: 'response.output_item.done',
  output_index,
  item,
})
