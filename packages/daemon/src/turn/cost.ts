/** What a turn costs, from prices per million tokens. Pure. Unknown is never 0. */
import type { Cost, Usage } from '@breakfall/wire'

/** Per million tokens. */
export type Price = { readonly in: number; readonly out: number }

/** The prices that the configuration gives are in this currency. */
export const CURRENCY = 'USD'

/** The sum so far. `cost` is null until something with a price was used. */
export type CostSum = {
  readonly cost: Cost | null
  /** Something without a price, or without a count, was used. */ readonly isPartial: boolean
}

export const NO_COST: CostSum = { cost: null, isPartial: false }

/** What this usage costs. Undefined without a price. */
export function costOf({ inputTokens, outputTokens }: Usage, price: Price | undefined): Cost | undefined {
  if (price === undefined) return undefined
  const [input, output] = [inputTokens.value, outputTokens.value]
  if (input === null || output === null) return { value: null, currency: CURRENCY, quality: 'unknown' }
  const isKnown = inputTokens.quality === 'known' && outputTokens.quality === 'known'
  const value = rounded((input * price.in + output * price.out) / 1_000_000)
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
