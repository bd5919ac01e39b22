/** The body of a streaming chat completion. Pure. */
import type { AnswerRequest } from './answer.ts'
import type { Profile } from './profiles.ts'

export function openAiBody(request: AnswerRequest, profile: Profile, kept: string): Record<string, unknown> {
  const { model, messages, tools, maxTokens, temperature, extra } = request
  const body: Record<string, unknown> = { model, messages, stream: true }
  if (profile.usageOption) body['stream_options'] = { include_usage: true }
  if (tools !== undefined && tools.length > 0) body['tools'] = tools
  // OpenAI's reasoning models take only the new name; everybody else knows the old one.
  if (maxTokens !== undefined) body[profile.name === 'openai' ? 'max_completion_tokens' : 'max_tokens'] = maxTokens
  if (temperature !== undefined) body['temperature'] = temperature
  const full = { ...body, ...extra }
  return kept === '' ? full : withPrefill(full, profile, kept)
}

/** The same request, asking to go on inside the assistant's unfinished message. */
export function withPrefill(
  body: Readonly<Record<string, unknown>>,
  profile: Profile,
  kept: string,
): Record<string, unknown> {
  const unfinished = {
    role: 'assistant',
    content: kept,
    ...(profile.prefill === 'prefix_flag' ? { prefix: true } : {}),
  }
  const messages = Array.isArray(body['messages']) ? (body['messages'] as unknown[]) : []
  const flags =
    profile.prefill === 'continue_final_message' ? { continue_final_message: true, add_generation_prompt: false } : {}
  return { ...body, ...flags, messages: [...messages, unfinished] }
}
