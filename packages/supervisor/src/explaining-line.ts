/**
 * The line that explains why a program ended, if no known message does: the missing file, the unknown flag, the limit. Pure.
 *
 * I1  Among the last lines, the first of the most telling kind: causes are printed before what follows from them.
 * I2  A line that only points to another line explains nothing, and neither does a known consequence.
 */
import { stripLogPrefix } from './log-prefix.ts'
import { matchSignature } from './signature-table.ts'

export const UNREADABLE_FILE =
  /no such file|does not exist|file not found|(?:cannot|can't|failed to|unable to|could not) open|permission denied|is a directory/i

export const REJECTED_OPTION =
  /(?:invalid|unknown|unrecogni[sz]ed|unexpected|unsupported|missing|ambiguous) (?:\w+ )?(?:argument|option|flag|parameter|value|choice)|while handling argument|requires? (?:an|a) (?:argument|value)/i

export function explainingLine(lines: readonly string[]): string | undefined {
  const last = lines
    .filter((line) => line.trim() !== '')
    .slice(-LINES_MAX)
    .map(stripLogPrefix)
    .filter(({ text, level }) => !HARMLESS.has(level ?? '') && !POINTS_ELSEWHERE.test(text))
    .map(({ text }) => text)
    .filter((text) => matchSignature(text) === undefined) // I2
  for (const kind of KINDS) {
    const found = last.find((text) => kind.test(text)) // I1
    if (found !== undefined) return found
  }
  return undefined
}

// ---- details ----

const LINES_MAX = 16 // a program that cannot start says why, then what that means for each of its layers

const HARMLESS = new Set(['trace', 'debug', 'info', 'notice', 'warn', 'warning', 'i', 'd', 'w'])

const POINTS_ELSEWHERE =
  /\bsee (?:the )?(?:root cause|error|log|output|lines?|stack|trace|details?)\b.{0,40}\b(?:above|below)\b/i // I2

/** The most telling kind first. */
const KINDS: readonly RegExp[] = [
  UNREADABLE_FILE,
  REJECTED_OPTION,
  /exceed|out of memory|not enough|too (?:large|small|long|many|few)|\blimit\b|no space left|cannot allocate|larger than|must be (?:at least|at most|less|greater|between)/i,
  /^(?:\w+[.:])*\w*(?:Error|Exception)\b: \S/,
  /\b(?:error|fatal|panic(?:ked)?)\b/i,
  /\b(?:failed|cannot|could not|couldn't|unable)\b/i,
]
