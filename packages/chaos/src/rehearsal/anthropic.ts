/** The rehearsal model's answers as Anthropic messages, complete or streamed. Pure. */
import { encodeSse } from '@breakfall/wire'
import { chunksOf } from './chunks.ts'
import type { Answer } from './script.ts'

export function anthropicBody(answer: Answer, model: string): string {
  return JSON.stringify({
    ...messageJson(answer, model),
    content: blocksOf(answer).map((block) => block.whole),
    stop_reason: stopReason(answer),
    usage: { input_tokens: answer.usage.inputTokens, output_tokens: answer.usage.outputTokens },
  })
}

export function* anthropicEvents(answer: Answer, model: string): Iterable<string> {
  const usage = { input_tokens: answer.usage.inputTokens, output_tokens: 1 }
  yield event({ type: 'message_start', message: { ...messageJson(answer, model), usage } })
  yield event({ type: 'ping' })
  for (const [index, block] of blocksOf(answer).entries()) {
    yield event({ type: 'content_block_start', index, content_block: block.empty })
    for (const delta of block.deltas) yield event({ type: 'content_block_delta', index, delta })
    yield event({ type: 'content_block_stop', index })
  }
  yield event({
    type: 'message_delta',
    delta: { stop_reason: stopReason(answer), stop_sequence: null },
    usage: { output_tokens: answer.usage.outputTokens },
  })
  yield event({ type: 'message_stop' })
}

// ---- details ----

type Block = { readonly whole: unknown; readonly empty: unknown; readonly deltas: readonly unknown[] }

const SIGNATURE = 'cmVoZWFyc2Fs' // Anthropic signs its thinking; clients send the signature back unread

const event = (json: { readonly type: string } & Record<string, unknown>): string =>
  encodeSse({ event: json.type, data: JSON.stringify(json) })

const stopReason = (answer: Answer): string => (answer.calls.length > 0 ? 'tool_use' : 'end_turn')

function messageJson(answer: Answer, model: string): Record<string, unknown> {
  return {
    id: `msg_${answer.id}`,
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
  }
}

function blocksOf(answer: Answer): Block[] {
  const blocks: Block[] = []
  if (answer.reasoning !== '') {
    blocks.push({
      whole: { type: 'thinking', thinking: answer.reasoning, signature: SIGNATURE },
      empty: { type: 'thinking', thinking: '', signature: '' },
      deltas: [
        ...Array.from(chunksOf(answer.reasoning), (thinking) => ({ type: 'thinking_delta', thinking })),
        { type: 'signature_delta', signature: SIGNATURE },
      ],
    })
  }
  if (answer.text !== '') {
    blocks.push({
      whole: { type: 'text', text: answer.text },
      empty: { type: 'text', text: '' },
      deltas: Array.from(chunksOf(answer.text), (text) => ({ type: 'text_delta', text })),
    })
  }
  for (const { id, name, arguments: input } of answer.calls) {
    const shown = { type: 'tool_use', id: id.replace('call_', 'toolu_'), name }
    blocks.push({
      whole: { ...shown, input },
      empty: { ...shown, input: {} },
      deltas: Array.from(chunksOf(JSON.stringify(input)), (text) => ({ type: 'input_json_delta', partial_json: text })),
    })
  }
  return blocks
}
