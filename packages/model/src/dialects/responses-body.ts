/** The body of a streaming response, from a conversation in the shape of OpenAI's chat API. Pure. */
import type { AnswerRequest, ChatMessage } from '../contract/answer.ts'
import { oncePerMessage } from '../lib/body-bytes.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Profile } from '../contract/profiles.ts'

/** `store: false`: the conversation is in every request, so the provider need not keep a copy, unless it must to be read on. */
export function responsesBody(request: AnswerRequest, profile: Profile): JsonObject {
  const { model, messages, tools, maxTokens, temperature, background, extra } = request
  const instructions = messages.filter(({ role }) => role === 'system').map(({ content }) => content)
  const body: Record<string, unknown> = {
    model,
    input: messages.flatMap((message) => itemsOf(message)),
    stream: true,
    store: false,
  }
  if (background === true && profile.reattach === 'responses') Object.assign(body, { background: true, store: true })
  if (instructions.length > 0) body['instructions'] = instructions.join('\n\n')
  if (tools !== undefined && tools.length > 0)
    body['tools'] = tools.map(({ function: { name, description, parameters } }) => ({
      type: 'function',
      name,
      ...(description === undefined ? {} : { description }),
      parameters: parameters ?? { type: 'object', properties: {} },
      strict: false, // the schemas of tools are the user's, and strict mode takes only some of JSON Schema
    }))
  if (maxTokens !== undefined) body['max_output_tokens'] = maxTokens
  if (temperature !== undefined) body['temperature'] = temperature
  return { ...body, ...extra }
}

// ---- details ----

const itemsOf = oncePerMessage((message: ChatMessage): readonly JsonObject[] => {
  switch (message.role) {
    case 'system':
      return []
    case 'user':
      return [{ role: 'user', content: message.content }]
    case 'tool':
      return [{ type: 'function_call_output', call_id: message.tool_call_id, output: message.content }]
    case 'assistant': {
      const text = message.content ?? ''
      const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: json } }) => ({
        type: 'function_call',
        call_id: id,
        name,
        arguments: json.trim() === '' ? '{}' : json,
      }))
      return [...(text === '' ? [] : [{ role: 'assistant', content: text }]), ...calls]
    }
  }
})
