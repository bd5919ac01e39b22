/** The sizes that an overflow error names. Each row: a pattern with the limit and the size of the request, and a message it was seen in. */
import type { FaultReport } from './report.ts'

export type ContextSize = {
  /** Tokens that the model can read. */
  readonly limitTokens: number | null
  /** Tokens of the request that was too long. */
  readonly requestTokens: number | null
}

export function contextSizeIn({ errorRaw }: Pick<FaultReport, 'errorRaw'>): ContextSize {
  for (const { pattern } of CONTEXT_SIZES) {
    const groups = pattern.exec(errorRaw)?.groups
    if (groups !== undefined) return { limitTokens: count(groups['limit']), requestTokens: count(groups['asked']) }
  }
  return { limitTokens: null, requestTokens: null }
}

export const CONTEXT_SIZES: readonly { readonly pattern: RegExp; readonly seen: string }[] = [
  {
    pattern:
      /maximum context length is (?<limit>\d+) tokens(?:[^\d]*?(?:requested|resulted in|has) (?<asked>\d+)[^\d]*?tokens)?/,
    seen: "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
  }, // OpenAI, vLLM
  {
    pattern: /prompt is too long: (?<asked>\d+) tokens > (?<limit>\d+) maximum/,
    seen: 'prompt is too long: 213462 tokens > 200000 maximum',
  }, // Anthropic
  {
    pattern: /request \((?<asked>\d+) tokens\) exceeds the available context size \((?<limit>\d+) tokens\)/,
    seen: 'request (9234 tokens) exceeds the available context size (8192 tokens), try increasing it',
  }, // llama.cpp
  {
    pattern: /exceed context limit: (?<asked>\d+) \+ \d+ > (?<limit>\d+)/,
    seen: 'input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000',
  }, // Anthropic
]

// ---- details ----

function count(digits: string | undefined): number | null {
  const value = Number(digits)
  return digits === undefined || !Number.isSafeInteger(value) || value <= 0 ? null : value
}
