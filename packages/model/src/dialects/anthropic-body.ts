/** The body of a streaming message, from a conversation in the shape of OpenAI's chat API. Pure. */
import type { AnswerRequest, ChatMessage } from '../contract/answer.ts'
import { oncePerMessage } from '../lib/body-bytes.ts'
import type { JsonObject } from '../lib/json.ts'

/**
 * With `promptCache`, up to four marks say where the cache may begin: after the tools, after the system prompt, at the end of the
 * conversation, and where the last request ended. The provider finds the last request there, however many blocks came since.
 */
export function anthropicBody(request: AnswerRequest): JsonObject {
  const { model, messages, tools, maxTokens, temperature, promptCache = false, extra } = request
  const system = messages.flatMap(({ role, content }) => (role === 'system' ? [content ?? ''] : [])).join('\n\n')
  const body: Record<string, unknown> = {
    model,
    max_tokens: maxTokens ?? outputTokensMax(model),
    messages: promptCache ? withMarks(turns(messages)) : turns(messages),
    stream: true,
  }
  if (system !== '') body['system'] = promptCache ? [marked({ type: 'text', text: system })] : system
  if (tools !== undefined && tools.length > 0) {
    const specs = tools.map(({ function: { name, description, parameters } }) => ({
      name,
      ...(description === undefined ? {} : { description }),
      input_schema: parameters ?? { type: 'object', properties: {} },
    }))
    body['tools'] = promptCache ? specs.map((spec, at) => (at === specs.length - 1 ? marked(spec) : spec)) : specs
  }
  if (temperature !== undefined) body['temperature'] = temperature
  return { ...body, ...extra }
}

// ---- details ----

/** The API requires a number, and refuses a number above the model's own limit. */
function outputTokensMax(model: string): number {
  const name = model.toLowerCase().replaceAll('.', '-')
  return OUTPUT_LIMITS.find(([pattern]) => pattern.test(name))?.[1] ?? OUTPUT_TOKENS_MAX
}

/** Every model since Claude 3.7 can write this much. More would leave less of the window to the conversation. */
const OUTPUT_TOKENS_MAX = 30_000
const OUTPUT_LIMITS: readonly (readonly [RegExp, number])[] = [
  [/claude-(?:2|instant|3-(?:opus|sonnet|haiku))/, 4_096],
  [/claude-3-5/, 8_192],
]

const marked = (block: Block): Block => ({ ...block, cache_control: { type: 'ephemeral' } })

/** The last request ended with the user's message before the last one. */
function withMarks(messages: readonly Turn[]): readonly Turn[] {
  const ends = messages.flatMap(({ role }, at) => (role === 'user' ? [at] : [])).slice(-2)
  return messages.map((message, at) => (ends.includes(at) ? withMark(message) : message))
}

function withMark({ role, content }: Turn): Turn {
  const last = content.at(-1)
  if (last === undefined || last['text'] === '') return { role, content } // the API refuses to mark an empty text
  return { role, content: content.with(-1, Object.freeze(marked(last))) }
}

type Block = Readonly<Record<string, unknown>>
type Turn = { readonly role: 'user' | 'assistant'; readonly content: Block[] }

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
  if (last?.role === role) last.content.push(...blocks)
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
