/** How long the other side asked us to wait. Never shortened here: `decide` handles waits that are too long to sleep through. */

export type HeaderSource =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>

/** Longer than any real wait, short enough to add to a date. */
const WAIT_MS_MAX = 1_000_000_000_000

/** From `retry-after-ms` (OpenAI, Azure), `retry-after` in seconds or as a date. Nonsense is undefined, the past is 0. */
export function retryAfterMs(headers: HeaderSource | undefined, now: number): number | undefined {
  if (headers === undefined) return undefined
  const exact = positive(headerOf(headers, 'retry-after-ms'))
  if (exact !== undefined) return bounded(exact)
  const value = headerOf(headers, 'retry-after')
  const seconds = positive(value)
  if (seconds !== undefined) return bounded(seconds * 1000)
  // Only HTTP and ISO dates: Date.parse alone reads "try 5" as a day in May 2001.
  if (value === undefined || !/^\s*(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? |\d{4}-\d\d-\d\dT)/i.test(value))
    return undefined
  const date = Date.parse(value)
  return Number.isNaN(date) ? undefined : bounded(date - now)
}

/** By name, ignoring case. */
export function headerOf(headers: HeaderSource, name: string): string | undefined {
  try {
    if (hasGet(headers)) return headers.get(name) ?? undefined
    const key = Object.hasOwn(headers, name) ? name : Object.keys(headers).find((key) => key.toLowerCase() === name)
    const value = key === undefined ? undefined : headers[key]
    return typeof value === 'string' ? value : value?.[0]
  } catch {
    return undefined // a foreign headers object that throws has no such header
  }
}

const hasGet = (headers: HeaderSource): headers is { get(name: string): string | null } =>
  typeof headers.get === 'function'

const bounded = (ms: number): number => Math.min(WAIT_MS_MAX, Math.max(0, Math.ceil(ms)))

function positive(value: string | undefined): number | undefined {
  return value !== undefined && /^\s*\d+(?:\.\d+)?\s*$/.test(value) ? Number(value) : undefined
}
