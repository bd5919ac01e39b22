/** Numbers and times for people. */

/** Milliseconds below 1 s, then 8.2 s, 1:12, 2 h 04. */
export function length(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`
  const seconds = Math.round(ms / 1_000)
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}:${two(seconds % 60)}`
  const hours = Math.floor(seconds / 3_600)
  if (hours < 48) return `${hours} h ${two(Math.floor((seconds % 3_600) / 60))}`
  return `${Math.round(hours / 24)} days`
}

/** 0:07 … 0:01, then "now…". Never negative. */
export function countdown(ms: number): string {
  const seconds = Math.ceil(ms / 1_000)
  if (seconds <= 0) return 'now…'
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}:${two(seconds % 60)}`
  return `${Math.floor(seconds / 3_600)}:${two(Math.floor((seconds % 3_600) / 60))}:${two(seconds % 60)}`
}

/** "; 0:07 is left", or nothing if nothing is. */
export const leftOf = (ms: number): string => (ms > 0 ? `; ${countdown(ms)} is left` : '')

/** "just now", "2 min ago", "3 h ago", "5 days ago". */
export function ago(ms: number): string {
  if (ms < 10_000) return 'just now'
  if (ms < 60_000) return `${Math.floor(ms / 1_000)} s ago`
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ago`
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h ago`
  const days = Math.floor(ms / 86_400_000)
  return days === 1 ? 'yesterday' : `${days} days ago`
}

/** 2026-11-16 08:45:06.447 +01:00, or in UTC. */
export function exactTime(ms: number, isUtc: boolean): string {
  const date = new Date(ms)
  if (!Number.isFinite(ms)) return 'an unknown time'
  if (isUtc) return date.toISOString().replace('T', ' ').replace('Z', ' UTC')
  const offset = -date.getTimezoneOffset()
  const sign = offset < 0 ? '-' : '+'
  const zone = `${sign}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  return `${day} ${clockTime(ms, false)}.${String(date.getMilliseconds()).padStart(3, '0')} ${zone}`
}

/** 08:45:06 */
export function clockTime(ms: number, isUtc: boolean): string {
  const date = new Date(ms)
  return isUtc
    ? date.toISOString().slice(11, 19)
    : `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
}

export function bytes(n: number): string {
  if (n < 1_000) return `${n} B`
  if (n < 1_000_000) return `${(n / 1_000).toFixed(1)} kB`
  if (n < 1_000_000_000) return `${(n / 1_000_000).toFixed(1)} MB`
  return `${(n / 1_000_000_000).toFixed(1)} GB`
}

export const number = (n: number): string => n.toLocaleString('en-US')

export const counted = (n: number, one: string, many = `${one}s`): string => `${number(n)} ${n === 1 ? one : many}`

const two = (n: number): string => String(n).padStart(2, '0')
