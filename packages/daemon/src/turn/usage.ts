/** Adds up tokens. Unknown is never 0: a sum with an unknown in it is only estimated. */
import { type Usage, usageSchema } from '@breakfall/wire'

type Tokens = Usage['inputTokens']

export function addUsage(sum: Usage, more: unknown): Usage {
  const parsed = usageSchema.safeParse(more)
  if (!parsed.success) return sum
  return {
    inputTokens: addTokens(sum.inputTokens, parsed.data.inputTokens),
    outputTokens: addTokens(sum.outputTokens, parsed.data.outputTokens),
  }
}

function addTokens(a: Tokens, b: Tokens): Tokens {
  if (a.value === null) return b
  if (b.value === null) return { value: a.value, quality: 'estimated' }
  const quality = a.quality === 'known' && b.quality === 'known' ? 'known' : 'estimated'
  return { value: a.value + b.value, quality }
}
