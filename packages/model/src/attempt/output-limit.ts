/**
 * The most tokens that an answer may have, from a server's refusal of a request that allowed more. Each row: a pattern with the limit, or
 * with the window and what the conversation takes of it, and a message it was seen in. Pure.
 */
import type { Refusal } from './attempt.ts'

export function outputLimitIn(refusal: Refusal | undefined): number | undefined {
  if (refusal?.status !== 400) return undefined
  const text = refusal.body.toString('utf8')
  for (const { pattern } of OUTPUT_LIMITS) {
    const { limit, window, asked } = pattern.exec(text)?.groups ?? {}
    const tokens = limit === undefined ? Number(window) - Number(asked) : Number(limit)
    if (Number.isSafeInteger(tokens) && tokens > 0) return tokens
  }
  return undefined
}

export const OUTPUT_LIMITS: readonly { readonly pattern: RegExp; readonly seen: string }[] = [
  {
    pattern: /max_tokens: \d+ > (?<limit>\d+), which is the maximum allowed number of output tokens/,
    seen: 'max_tokens: 30000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022',
  }, // Anthropic
  {
    pattern: /max_tokens is too large: \d+\. This model supports at most (?<limit>\d+) completion tokens/,
    seen: 'max_tokens is too large: 30000. This model supports at most 16384 completion tokens, whereas you provided 30000.',
  }, // OpenAI, behind a translating proxy
  {
    pattern:
      /is too large: \d+\. This model's maximum context length is (?<window>\d+) tokens and your request has (?<asked>\d+) input tokens/,
    seen: "'max_tokens' or 'max_completion_tokens' is too large: 30000. This model's maximum context length is 8192 tokens and your request has 1234 input tokens (30000 > 8192 - 1234).",
  }, // vLLM
]
