/** What a turn uses and what that costs, from prices per million tokens. Pure. Unknown is never 0. */
import type { ApiName } from '@breakfall/model'
import { addUsage as sumOf } from '@breakfall/model/internal'
import type { Cost, Usage } from '@breakfall/wire'
import type { ModelFacts } from '@breakfall/wire/internal'

/** As far as events report it. */
export const addUsage = (sum: Usage, more: Usage | undefined): Usage => (more === undefined ? sum : sumOf(sum, more))

/** Per million tokens. Without a price for what a cache read or took, that counts as any other input. */
export type Price = {
  readonly in: number
  readonly out: number
  readonly cacheRead?: number | undefined
  readonly cacheWrite?: number | undefined
}

/** From the configuration. Anthropic's prices for its cache follow from the price of input; other providers' do not. */
export function priceOf(facts: ModelFacts, api: ApiName): Price | undefined {
  const { priceIn, priceOut, priceCacheRead, priceCacheWrite } = facts
  if (priceIn === undefined || priceOut === undefined) return undefined
  const [read, write] = api === 'anthropic-messages' ? [0.1 * priceIn, 1.25 * priceIn] : []
  return { in: priceIn, out: priceOut, cacheRead: priceCacheRead ?? read, cacheWrite: priceCacheWrite ?? write }
}

/** The prices that the configuration gives are in this currency. */
export const CURRENCY = 'USD'

/** The sum so far. `cost` is null until something with a price was used. */
export type CostSum = {
  readonly cost: Cost | null
  /** Something without a price, or without a count, was used. */ readonly isPartial: boolean
}

/** What one attempt used, and what that cost if it has a price. */
export type Used = { readonly usage: Usage; readonly cost?: Cost }

export function usedOf(usage: Usage, price: Price | undefined): Used {
  const cost = costOf(usage, price)
  return cost === undefined ? { usage } : { usage, cost }
}

export const NO_COST: CostSum = { cost: null, isPartial: false }

/** What this usage costs. Undefined without a price. */
export function costOf(usage: Usage, price: Price | undefined): Cost | undefined {
  if (price === undefined) return undefined
  const { inputTokens, outputTokens, cacheReadTokens: read = 0, cacheWriteTokens: written = 0 } = usage
  const [input, output] = [inputTokens.value, outputTokens.value]
  if (input === null || output === null) return { value: null, currency: CURRENCY, quality: 'unknown' }
  const { cacheRead, cacheWrite } = price
  const isPriced = (read === 0 || cacheRead !== undefined) && (written === 0 || cacheWrite !== undefined)
  const isKnown = isPriced && inputTokens.quality === 'known' && outputTokens.quality === 'known'
  const cached = read * (cacheRead ?? price.in) + written * (cacheWrite ?? price.in)
  const fresh = Math.max(0, input - read - written)
  const value = rounded((fresh * price.in + cached + output * price.out) / 1_000_000)
  return { value, currency: CURRENCY, quality: isKnown ? 'known' : 'estimated' }
}

/** Adds what an attempt used and cost. */
export function addCost(sum: CostSum, usage: Usage | undefined, cost: Cost | undefined): CostSum {
  if (cost === undefined) return usage === undefined || isNothing(usage) ? sum : { ...sum, isPartial: true }
  if (sum.cost === null) return { ...sum, cost }
  const [a, b] = [sum.cost.value, cost.value]
  if (a === null && b === null) return sum
  const isKnown = sum.cost.quality === 'known' && cost.quality === 'known'
  const total = { value: rounded((a ?? 0) + (b ?? 0)), currency: cost.currency }
  return { ...sum, cost: { ...total, quality: isKnown ? 'known' : 'estimated' } }
}

/** As the API shows it. A sum that lacks something is an estimate. */
export function totalCost({ cost, isPartial }: CostSum): Cost | undefined {
  if (cost === null) return undefined
  return isPartial && cost.quality === 'known' ? { ...cost, quality: 'estimated' } : cost
}

// ---- details ----

const isNothing = ({ inputTokens, outputTokens }: Usage): boolean => inputTokens.value === 0 && outputTokens.value === 0

/** Cuts off what binary fractions add. */
const rounded = (value: number): number => Number(value.toFixed(12))
