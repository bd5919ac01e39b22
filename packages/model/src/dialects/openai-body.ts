/** The body of a streaming chat completion. Pure. */
import type { AnswerRequest } from '../contract/answer.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Profile } from '../contract/profiles.ts'

export function openAiBody(request: AnswerRequest, profile: Profile): JsonObject {
  const { model, messages, tools, maxTokens, temperature, extra } = request
  const body: Record<string, unknown> = { model, messages, stream: true }
  if (profile.usageOption) body['stream_options'] = { include_usage: true }
  if (tools !== undefined && tools.length > 0) body['tools'] = tools
  // OpenAI's reasoning models take only the new name; every other server knows the old one.
  if (maxTokens !== undefined)
    body[profile.name === 'openai' || profile.name === 'azure' ? 'max_completion_tokens' : 'max_tokens'] = maxTokens
  if (temperature !== undefined) body['temperature'] = temperature
  return { ...body, ...extra }
}

/** The same request, asking the server to continue the assistant's unfinished message. */
export function withPrefill(body: JsonObject, profile: Profile, text: string): JsonObject {
  const unfinished = {
    role: 'assistant',
    content: text,
    ...(profile.prefill === 'prefix_flag' ? { prefix: true } : {}),
  }
  const messages: readonly unknown[] = Array.isArray(body['messages']) ? body['messages'] : []
  const flags =
    profile.prefill === 'continue_final_message' ? { continue_final_message: true, add_generation_prompt: false } : {}
  return { ...body, ...flags, messages: [...messages, unfinished] }
}
