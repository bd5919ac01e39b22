/** What a user knows about the models of a provider: in the configuration, in a request, and in the journal. */
import { z } from 'zod'
import { integer } from './fields.ts'

const PRICE = { error: 'a price for a million tokens' }
const price = z.number(PRICE).min(0, PRICE).optional()

export const modelFactsShape = {
  contextTokens: integer(1_000, 100_000_000).optional(),
  outputTokensMax: integer(1, 100_000_000).optional().describe('the most that one answer may have'),
  priceIn: price,
  priceOut: price,
  priceCacheRead: price,
  priceCacheWrite: price,
  background: z
    .boolean({ error: 'true or false' })
    .optional()
    .describe('openai-responses: the provider keeps generating when a connection breaks; it stores such answers'),
}

const modelFactsSchema = z.object(modelFactsShape)
export type ModelFacts = Readonly<z.infer<typeof modelFactsSchema>>

/** Those that are known. */
export function modelFactsOf(given: ModelFacts): ModelFacts {
  const { contextTokens, outputTokensMax, priceIn, priceOut, priceCacheRead, priceCacheWrite, background } = given
  return {
    ...(contextTokens === undefined ? {} : { contextTokens }),
    ...(outputTokensMax === undefined ? {} : { outputTokensMax }),
    ...(priceIn === undefined ? {} : { priceIn }),
    ...(priceOut === undefined ? {} : { priceOut }),
    ...(priceCacheRead === undefined ? {} : { priceCacheRead }),
    ...(priceCacheWrite === undefined ? {} : { priceCacheWrite }),
    ...(background === undefined ? {} : { background }),
  }
}
