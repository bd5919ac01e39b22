/** The rehearsal model's answers as OpenAI Responses, complete or streamed. Pure. */
import { encodeSse } from '@breakfall/wire'
import { chunksOf } from './chunks.ts'
import type { Answer } from './script.ts'

export function responsesBody(answer: Answer, model: string): string {
  return JSON.stringify(responseJson(answer, model))
}

export function* responsesEvents(answer: Answer, model: string): Iterable<string> {
  let number = 0
  const event = (json: { readonly type: string } & Record<string, unknown>): string =>
    encodeSse({ event: json.type, data: JSON.stringify({ ...json, sequence_number: number++ }) })
  const response = responseJson(answer, model)
  const begun = { ...response, status: 'in_progress', output: [], usage: null }
  yield event({ type: 'response.created', response: begun })
  yield event({ type: 'response.in_progress', response: begun })
  for (const [output_index, { item, empty, inside }] of itemsOf(answer).entries()) {
    yield event({ type: 'response.output_item.added', output_index, item: empty })
    for (const json of inside) yield event({ ...json, item_id: item.id, output_index })
    yield event({ type: 'response.output_item.done', output_index, item })
  }
  yield event({ type: 'response.completed', response })
}

// ---- details ----

const CREATED = 1_700_000_000 // fixed, because the same conversation gets the same answer, byte for byte
const ENCRYPTED = 'cmVoZWFyc2Fs' // clients send it back unread

type Event = { readonly type: string } & Record<string, unknown>
type Item = {
  readonly item: { readonly id: string } & Record<string, unknown>
  readonly empty: Record<string, unknown>
  readonly inside: readonly Event[]
}

function responseJson(answer: Answer, model: string): Record<string, unknown> {
  const { inputTokens, outputTokens } = answer.usage
  return {
    id: `resp_${answer.id}`,
    object: 'response',
    created_at: CREATED,
    status: 'completed',
    error: null,
    incomplete_details: null,
    instructions: null,
    model,
    output: itemsOf(answer).map(({ item }) => item),
    parallel_tool_calls: true,
    tool_choice: 'auto',
    tools: [],
    usage: {
      input_tokens: inputTokens,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: outputTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: inputTokens + outputTokens,
    },
  }
}

function itemsOf(answer: Answer): Item[] {
  const items: Item[] = []
  if (answer.reasoning !== '') items.push(reasoningItem(answer))
  if (answer.text !== '') items.push(messageItem(answer))
  for (const { id, name, arguments: input } of answer.calls) {
    const text = JSON.stringify(input)
    const item = {
      id: id.replace('call_', 'fc_'),
      type: 'function_call',
      call_id: id,
      name,
      arguments: text,
      status: 'completed',
    }
    items.push({
      item,
      empty: { ...item, arguments: '', status: 'in_progress' },
      inside: [
        ...Array.from(chunksOf(text), (delta) => ({ type: 'response.function_call_arguments.delta', delta })),
        { type: 'response.function_call_arguments.done', name, arguments: text },
      ],
    })
  }
  return items
}

function reasoningItem({ id, reasoning }: Answer): Item {
  const part = { type: 'summary_text', text: reasoning }
  const item = { id: `rs_${id}`, type: 'reasoning', summary: [part], encrypted_content: ENCRYPTED }
  const at = { summary_index: 0 }
  return {
    item,
    empty: { ...item, summary: [], encrypted_content: '' },
    inside: [
      { type: 'response.reasoning_summary_part.added', ...at, part: { ...part, text: '' } },
      ...Array.from(chunksOf(reasoning), (delta) => ({ type: 'response.reasoning_summary_text.delta', ...at, delta })),
      { type: 'response.reasoning_summary_text.done', ...at, text: reasoning },
      { type: 'response.reasoning_summary_part.done', ...at, part },
    ],
  }
}

function messageItem({ id, text }: Answer): Item {
  const part = { type: 'output_text', text, annotations: [], logprobs: [] }
  const item = { id: `msg_${id}`, type: 'message', role: 'assistant', status: 'completed', content: [part] }
  const at = { content_index: 0 }
  return {
    item,
    empty: { ...item, status: 'in_progress', content: [] },
    inside: [
      { type: 'response.content_part.added', ...at, part: { ...part, text: '' } },
      ...Array.from(chunksOf(text), (delta) => ({ type: 'response.output_text.delta', ...at, delta, logprobs: [] })),
      { type: 'response.output_text.done', ...at, text, logprobs: [] },
      { type: 'response.content_part.done', ...at, part },
    ],
  }
}
