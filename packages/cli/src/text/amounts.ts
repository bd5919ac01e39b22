/** Counts, sizes, times, tokens and money as text. Pure. What is not known is called unknown, never 0. */
import type { Cost, Usage } from '@breakfall/wire'

/** `42 s`, `12 min`, `3 h`, `5 d`: how long ago that was. */
export function age(at: string, now: number): string {
  const seconds = Math.max(0, Math.floor((now - Date.parse(at)) / 1000))
  if (seconds < 120) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 120) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`
}

/** `1,204 tokens in, about 80 out`. */
export const tokens = ({ inputTokens, outputTokens }: Usage): string =>
  `${tokenCount(inputTokens)} tokens in, ${tokenCount(outputTokens)} out`

/** `$0.0123`, `about $1.20`, `cost unknown`. Undefined without prices. */
export function money(cost: Cost | undefined): string | undefined {
  if (cost === undefined) return undefined
  if (cost.value === null) return 'cost unknown'
  const digits = cost.value === 0 || cost.value >= 1 ? 2 : 4
  const value = cost.value > 0 && cost.value < 0.0001 ? 'less than 0.0001' : cost.value.toFixed(digits)
  const amount = cost.currency === 'USD' ? value.replace(/(?=[\d])/, '$') : `${value} ${cost.currency}`
  return cost.quality === 'known' ? amount : `about ${amount}`
}

/** The sum over several turns. A sum that lacks something is an estimate; a sum of nothing known is unknown. */
export function sumOf<T extends { readonly value: number | null; readonly quality: Quality }>(
  amounts: readonly T[],
): T | undefined {
  const [first] = amounts
  if (first === undefined) return undefined
  const known = amounts.flatMap(({ value }) => (value === null ? [] : [value]))
  if (known.length === 0) return first
  const isExact = known.length === amounts.length && amounts.every(({ quality }) => quality === 'known')
  const value = Number(known.reduce((total, amount) => total + amount, 0).toFixed(12))
  return { ...first, value, quality: isExact ? 'known' : 'estimated' }
}

/** `1 request`, `2 requests`. */
export const counted = (count: number, noun: string, plural = `${noun}s`): string =>
  `${count} ${count === 1 ? noun : plural}`

/** A size for people: `512 B`, `20 KiB`, `1.4 GiB`. */
export function bytesText(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit < 2 || value >= 100 ? Math.round(value) : Number(value.toFixed(1))} ${UNITS[unit]}`
}

/** `2026-11-15 22:40:36 UTC`. */
export const utcTime = (at: string): string => `${at.slice(0, 19).replace('T', ' ')} UTC`

// ---- details, in the order they are used above ----

type Quality = Cost['quality']

function tokenCount({ value, quality }: Usage['inputTokens']): string {
  if (value === null) return 'unknown'
  return `${quality === 'known' ? '' : 'about '}${value.toLocaleString('en-US')}`
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const
