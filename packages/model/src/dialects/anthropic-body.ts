/** The body of a streaming message, from a conversation in the shape of OpenAI's chat API. Pure. */
import type { AnswerRequest, ChatMessage } from '../answer.ts'
import { oncePerMessage } from '../body-bytes.ts'
import type { JsonObject } from '../json.ts'

const MAX_TOKENS_DEFAULT = 8192 // the API requires a number; every model since 2024 can write that much

export function anthropicBody(request: AnswerRequest): JsonObject {
  const { model, messages, tools, maxTokens, temperature, extra } = request
  const system = messages.filter(({ role }) => role === 'system').map(({ content }) => content)
  const body: Record<string, unknown> = {
    model,
    max_tokens: maxTokens ?? MAX_TOKENS_DEFAULT,
    messages: turns(messages),
    stream: true,
  }
  if (system.length > 0) body['system'] = system.join('\n\n')
  if (tools !== undefined && tools.length > 0)
    body['tools'] = tools.map(({ function: { name, description, parameters } }) => ({
      name,
      ...(description === undefined ? {} : { description }),
      input_schema: parameters ?? { type: 'object', properties: {} },
    }))
  if (temperature !== undefined) body['temperature'] = temperature
  return { ...body, ...extra }
}

// ---- details ----

type Block = Record<string, unknown>
type Turn = { role: 'user' | 'assistant'; content: string | Block[] }

/** Tool results are part of the user's message here, those of one step together in one message. */
function turns(messages: readonly ChatMessage[]): readonly Turn[] {
  const out: Turn[] = []
  for (const message of messages) add(out, message.role === 'assistant' ? 'assistant' : 'user', blocksOf(message))
  return out
}

const blocksOf = oncePerMessage((message: ChatMessage): readonly Block[] => {
  switch (message.role) {
    case 'system':
      return []
    case 'user':
      return [{ type: 'text', text: message.content }]
    case 'tool':
      return [{ type: 'tool_result', tool_use_id: message.tool_call_id, content: message.content }]
    case 'assistant':
      return assistantBlocks(message)
  }
})

function add(out: Turn[], role: Turn['role'], blocks: readonly Block[]): void {
  if (blocks.length === 0) return // the API refuses an empty message
  const last = out.at(-1)
  if (last?.role === role && Array.isArray(last.content)) last.content.push(...blocks)
  else out.push({ role, content: [...blocks] })
}

function assistantBlocks(message: Extract<ChatMessage, { role: 'assistant' }>): Block[] {
  const text = message.content ?? ''
  const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: json } }) => ({
    type: 'tool_use',
    id,
    name,
    input: objectIn(json),
  }))
  return [...(text.trim() === '' ? [] : [{ type: 'text', text }]), ...calls]
}

function objectIn(json: string): unknown {
  try {
    return json.trim() === '' ? {} : JSON.parse(json)
  } catch {
    return { _unparsed: json } // another client wrote this history; the model sees what was there
  }
}
