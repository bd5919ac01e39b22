/** A conversation from any of the APIs, the turn in progress, and what a script says next. Pure. */
import { isObject } from '@breakfall/faults/internal'

export type ToolCall = {
  readonly id: string
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
}

export type Message = {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  readonly text: string
  readonly calls: readonly ToolCall[]
  /** For a tool result: the call it answers. */
  readonly callId: string | null
}

export type Turn = {
  /** How many prompts the conversation had before. */
  readonly earlier: number
  readonly prompt: string
  /** Every tool call of this turn in order, with its result if there is one. */
  readonly calls: readonly (ToolCall & { readonly result: string | null })[]
  /** Text of a trailing assistant message: the answer continues after it. */
  readonly prefill: string
}

/** The script's next answer. Without tool calls the turn is over. */
export type Move = {
  readonly reasoning?: string
  readonly text: string
  readonly calls?: readonly Omit<ToolCall, 'id'>[]
}

/** Messages of OpenAI chat completions. Throws a TypeError with a readable message. */
export function fromOpenAi(messages: unknown): Message[] {
  return asList(messages, 'messages').map((message) => {
    const role = String(message['role'])
    const kind = role === 'developer' ? 'system' : role
    if (kind !== 'system' && kind !== 'user' && kind !== 'assistant' && kind !== 'tool') {
      throw new TypeError(`messages: unknown role ${JSON.stringify(message['role'])}`)
    }
    const calls = asList(message['tool_calls'] ?? [], 'tool_calls').map((call) => {
      const { name, arguments: text } = isObject(call['function']) ? call['function'] : {}
      return { id: String(call['id']), name: String(name), arguments: argumentsFrom(text) }
    })
    return { role: kind, text: textOf(message['content']), calls, callId: idOf(message['tool_call_id']) }
  })
}

/** Messages of Anthropic's API, where tool results are part of user messages. */
export function fromAnthropic(messages: unknown, system: unknown): Message[] {
  const out: Message[] = []
  if (system !== undefined) out.push({ role: 'system', text: textOf(system), calls: [], callId: null })
  for (const message of asList(messages, 'messages')) {
    const role = message['role'] === 'assistant' ? 'assistant' : 'user'
    const blocks = Array.isArray(message['content']) ? asList(message['content'], 'content') : []
    const results = blocks.filter((block) => block['type'] === 'tool_result')
    for (const block of results) {
      out.push({ role: 'tool', text: textOf(block['content']), calls: [], callId: idOf(block['tool_use_id']) })
    }
    if (results.length > 0) continue
    const calls = blocks
      .filter((block) => block['type'] === 'tool_use')
      .map((b) => ({ id: String(b['id']), name: String(b['name']), arguments: argumentsFrom(b['input']) }))
    out.push({ role, text: textOf(message['content']), calls, callId: null })
  }
  return out
}

/** Contents of Gemini's API. Calls have no ids there: a result belongs to the next call of the same name without one. */
export function fromGemini(contents: unknown, system: unknown): Message[] {
  const out: Message[] = []
  const open: { id: string; name: string }[] = []
  if (isObject(system)) out.push({ role: 'system', text: textOf(system['parts']), calls: [], callId: null })
  for (const content of asList(contents, 'contents')) {
    const parts = asList(content['parts'] ?? [], 'parts').filter((part) => part['thought'] !== true)
    const results = parts.flatMap((part) => (isObject(part['functionResponse']) ? [part['functionResponse']] : []))
    for (const { name, response } of results) {
      const [call] = open.splice(
        Math.max(
          0,
          open.findIndex((one) => one.name === name),
        ),
        1,
      )
      out.push({ role: 'tool', text: JSON.stringify(response ?? null), calls: [], callId: call?.id ?? null })
    }
    if (results.length > 0) continue
    const calls = parts
      .flatMap((part) => (isObject(part['functionCall']) ? [part['functionCall']] : []))
      .map((call, i) => ({
        id: `call_${out.length}_${i}`,
        name: String(call['name']),
        arguments: argumentsFrom(call['args']),
      }))
    open.push(...calls)
    out.push({ role: content['role'] === 'model' ? 'assistant' : 'user', text: textOf(parts), calls, callId: null })
  }
  return out
}

/** Input items of the Responses API: text alone, messages, calls and their outputs. Thoughts are not part of it. */
export function fromResponses(input: unknown, instructions: unknown): Message[] {
  const out: Message[] = []
  const add = (role: Message['role'], text: string, callId: string | null = null): void => {
    out.push({ role, text, calls: [], callId })
  }
  if (typeof instructions === 'string') add('system', instructions)
  if (typeof input === 'string') add('user', input)
  for (const item of typeof input === 'string' ? [] : asList(input, 'input')) {
    const { type = 'message', role } = item
    if (type === 'message')
      add(role === 'assistant' ? 'assistant' : role === 'user' ? 'user' : 'system', textOf(item['content']))
    if (type === 'function_call_output' || type === 'custom_tool_call_output')
      add('tool', textOf(item['output']), idOf(item['call_id']))
    if (type !== 'function_call' && type !== 'custom_tool_call') continue
    const args = type === 'function_call' ? argumentsFrom(item['arguments']) : { input: item['input'] }
    const call = { id: String(item['call_id']), name: String(item['name']), arguments: args }
    const last = out.at(-1)
    // A message and the calls after it are one answer.
    if (last?.role === 'assistant') out[out.length - 1] = { ...last, calls: [...last.calls, call] }
    else out.push({ role: 'assistant', text: '', calls: [call], callId: null })
  }
  return out
}

/** A turn starts with the first prompt after the last answer without tool calls; a user message in between does not end it. */
export function turnOf(conversation: readonly Message[]): Turn {
  const last = conversation.at(-1)
  const isPrefilled = last?.role === 'assistant' && last.calls.length === 0
  const messages = isPrefilled ? conversation.slice(0, -1) : conversation
  const answered = messages.findLastIndex((message) => message.role === 'assistant' && message.calls.length === 0)
  const turn = messages.slice(answered + 1)
  const results = new Map(turn.filter((m) => m.role === 'tool').map((m) => [m.callId, m.text]))
  return {
    earlier: messages.slice(0, answered + 1).filter(({ role }) => role === 'user').length,
    prompt: turn.find((message) => message.role === 'user')?.text ?? '',
    calls: turn.flatMap((m) => m.calls.map((call) => ({ ...call, result: results.get(call.id) ?? null }))),
    prefill: isPrefilled ? last.text : '',
  }
}

// ---- details ----

function asList(value: unknown, name: string): Record<string, unknown>[] {
  const objects: unknown[] = Array.isArray(value) ? value : []
  if (!Array.isArray(value) || !objects.every(isObject)) throw new TypeError(`${name} must be a list of objects`)
  return objects
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part: unknown) => (typeof part === 'object' && part !== null && 'text' in part ? String(part.text) : ''))
    .join('')
}

function argumentsFrom(value: unknown): Record<string, unknown> {
  if (isObject(value)) return value
  try {
    const parsed: unknown = JSON.parse(String(value))
    return isObject(parsed) ? parsed : {}
  } catch {
    return {} // a client that sends back cut arguments gets an answer to its tool result, not a refusal
  }
}

const idOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
