/** How long the other side asked us to wait. Never shortened here; what is too long to sleep through is for `decide`. */

export type HeaderSource =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>

/** From `retry-after-ms` (OpenAI, Azure), `retry-after` in seconds or as a date. Nonsense is undefined, the past is 0. */
export function retryAfterMs(headers: HeaderSource | undefined, now: number): number | undefined {
  if (headers === undefined) return undefined
  const exact = positive(headerOf(headers, 'retry-after-ms'))
  if (exact !== undefined) return Math.ceil(exact)
  const value = headerOf(headers, 'retry-after')
  const seconds = positive(value)
  if (seconds !== undefined) return Math.ceil(seconds * 1000)
  if (value === undefined || !/[a-z]{3}/i.test(value)) return undefined
  const date = Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}

export function headerOf(headers: HeaderSource, name: string): string | undefined {
  if (typeof headers.get === 'function') return (headers as { get(name: string): string | null }).get(name) ?? undefined
  const value = (headers as Record<string, string | readonly string[] | undefined>)[name]
  return typeof value === 'string' ? value : value?.[0]
}

function positive(value: string | undefined): number | undefined {
  if (value === undefined || !/^\s*\d+(?:\.\d+)?\s*$/.test(value)) return undefined
  const number = Number(value)
  return Number.isFinite(number) ? number : undefined
}
