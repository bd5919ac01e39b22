/** What clients of both APIs assemble from an event stream. */
import type { Json } from '../../test/kit/json.ts'
import type { Frame } from '../../test/kit/sse.ts'

/** What an OpenAI client assembles for one choice. */
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

/** What an Anthropic client assembles. */
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
