/** Which failures are the same one: equal but for numbers, ids, addresses and paths. Pure; runs in a browser. */
import type { FaultReport } from './report.ts'

type Fingerprinted = Pick<FaultReport, 'category' | 'phase' | 'errorRaw'> & {
  readonly diagnostics: readonly { readonly id: string; readonly rank: string }[]
}

/** 16 hexadecimal digits. The same in every version: groups of faults are stored under it. */
export function fingerprint({ category, phase = '', errorRaw, diagnostics }: Fingerprinted): string {
  const cause = diagnostics.find(({ rank }) => rank === 'cause')?.id ?? ''
  return hashOf([category, phase, cause, blanked(errorRaw)].join('\n'))
}

/** The first line of a message without what differs from one occurrence to the next. */
export function blanked(errorRaw: string): string {
  const line =
    errorRaw
      .slice(0, LINE_CHARS_MAX * 2)
      .trimStart()
      .split('\n', 1)[0] ?? ''
  return BLANKS.reduce((text, [pattern, mark]) => text.replaceAll(pattern, mark), line)
    .trim()
    .slice(0, LINE_CHARS_MAX)
}

// ---- details ----

const LINE_CHARS_MAX = 400

/** In this order: a frame of an answer contains the model's words, an address names, a path numbers, and an id both. */
const BLANKS: readonly (readonly [RegExp, string])[] = [
  [/\{"(?:id|object|choices|type":"(?![a-z_]{0,60}error)[a-z_.]{1,60})".*$/g, '<frame>'],
  [/\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s"'<>()]+/gi, '<url>'],
  [/\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi, '<id>'],
  [/(?<![\w.])(?:~|\.{0,2})\/[^\s"'<>():,;]+/g, '<path>'],
  [/\b[A-Za-z]:\\[^\s"'<>(),;]+/g, '<path>'],
  [/\[?(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{1,4}\]?(?::\d+)?/gi, '<host>'],
  [/\b(?:localhost|(?:\d{1,3}\.){3}\d{1,3}|(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24})(?::\d+)?\b(?![(=])/gi, '<host>'],
  [/\b[a-z]{2,12}[-_](?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{8,}\b/g, '<id>'],
  [/\b(?:0x)?(?=[0-9a-f]*\d)[0-9a-f]{6,}\b/gi, '<id>'],
  [/\d+(?:[.,]\d+)*/g, '#'],
  [/# ([a-z]{2,30})s\b/g, '# $1'], // one part, two parts
]

/** Two FNV-1a hashes with different starts. Not for secrets: a browser has no synchronous digest. */
function hashOf(text: string): string {
  return [0x811c9dc5, 0x9747b28c].map((start) => fnv(text, start).toString(16).padStart(8, '0')).join('')
}

function fnv(text: string, start: number): number {
  let hash = start
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193)
  // FNV's last bytes change its high bits only a little.
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  return (hash ^ (hash >>> 13)) >>> 0
}
