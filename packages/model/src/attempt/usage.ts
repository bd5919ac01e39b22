/** Token counts that say how well they are known. Unknown is never 0. */
import type { AttemptRecord, Usage } from '../contract/answer.ts'
import type { ReadAnswer } from '../dialects/read-answer.ts'

type Tokens = Usage['inputTokens']

/** Nothing was processed: the request never reached a model. */
export const NO_USAGE: Usage = {
  inputTokens: { value: 0, quality: 'known' },
  outputTokens: { value: 0, quality: 'known' },
}

/** What an attempt that reached a model used. */
export function usageOf(answer: ReadAnswer): Usage {
  const { input, output, cacheRead, cacheWrite } = answer.usage
  return {
    inputTokens: input === undefined ? UNKNOWN : { value: input, quality: 'known' },
    outputTokens: outputOf(answer, output),
    ...(cacheRead === undefined ? {} : { cacheReadTokens: cacheRead }),
    ...(cacheWrite === undefined ? {} : { cacheWriteTokens: cacheWrite }),
  }
}

/** All attempts together. If one attempt's input was not counted, the count of another with the same prompt is used. */
export function totalUsage(ledger: readonly AttemptRecord[]): Usage {
  const counted = ledger.map(({ usage }) => usage.inputTokens).findLast(({ value }) => (value ?? 0) > 0)
  const guess: Tokens = counted?.value == null ? UNKNOWN : { value: counted.value, quality: 'estimated' }
  return {
    inputTokens: sum(ledger.map(({ usage }) => (usage.inputTokens.value === null ? guess : usage.inputTokens))),
    outputTokens: sum(ledger.map(({ usage }) => usage.outputTokens)),
    ...cacheOf(ledger.map(({ usage }) => usage)),
  }
}

/** The sum of two counts. A sum with an unknown in it is an estimate, or unknown itself. */
export function addUsage(a: Usage, b: Usage): Usage {
  return {
    inputTokens: sum([a.inputTokens, b.inputTokens]),
    outputTokens: sum([a.outputTokens, b.outputTokens]),
    ...cacheOf([a, b]),
  }
}

// ---- details ----

const UNKNOWN: Tokens = { value: null, quality: 'unknown' }
const CHARS_PER_TOKEN = 4 // English and code, over the usual tokenizers; the result is marked as an estimate

/** Some servers count as they go: of an answer that broke off, that is less than it used. */
function outputOf(answer: ReadAnswer, counted: number | undefined): Tokens {
  if (counted !== undefined && (answer.finish !== null || answer.ended)) return { value: counted, quality: 'known' }
  const { value } = estimated(answer)
  const most = Math.max(counted ?? 0, value ?? 0)
  return most === 0 ? UNKNOWN : { value: most, quality: 'estimated' }
}

function estimated(answer: ReadAnswer): Tokens {
  let chars = 0
  for (const part of answer.parts) chars += part.kind === 'tool' ? part.arguments.length : part.chars
  return chars === 0 ? UNKNOWN : { value: Math.ceil(chars / CHARS_PER_TOKEN), quality: 'estimated' }
}

/** What servers said about their caches. Those that said nothing count as nothing. */
function cacheOf(usages: readonly Usage[]): Pick<Usage, 'cacheReadTokens' | 'cacheWriteTokens'> {
  const read = usages.flatMap(({ cacheReadTokens }) => cacheReadTokens ?? [])
  const written = usages.flatMap(({ cacheWriteTokens }) => cacheWriteTokens ?? [])
  const total = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0)
  return {
    ...(read.length === 0 ? {} : { cacheReadTokens: total(read) }),
    ...(written.length === 0 ? {} : { cacheWriteTokens: total(written) }),
  }
}

function sum(counts: readonly Tokens[]): Tokens {
  if (counts.some(({ value }) => value === null)) {
    const known = counts.reduce((total, { value }) => total + (value ?? 0), 0)
    return known === 0 ? UNKNOWN : { value: known, quality: 'estimated' }
  }
  const value = counts.reduce((total, count) => total + (count.value ?? 0), 0)
  return { value, quality: counts.every(({ quality }) => quality === 'known') ? 'known' : 'estimated' }
}
