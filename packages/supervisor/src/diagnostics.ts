/**
 * Recognises failures in the output of a program. Best effort: it never says that a program failed, only what its output
 * may mean if it did.
 *
 * I1  Bounded, whatever the volume: one entry per signature, with a few lines of evidence each.
 * I2  The first match of the highest rank is the headline. Consequences and hints never hide a cause.
 * I3  A line that the program logged as information never ends a living process.
 */
import type { Diagnostic } from '@breakfall/faults'
import { cutEnd, cutStart } from '@breakfall/faults/internal'
import { LineSplitter } from './lines.ts'
import { stripLogPrefix, withoutColours } from './log-prefix.ts'
import { keyBlockFilter, makeRedactor, type Redactor } from './redactor.ts'
import { matchSignature } from './signature-table.ts'
import type { RetryVerdict, Signature } from './signatures/row.ts'

/** A diagnostic, plus what only the supervisor needs. */
export type Diagnosis = Diagnostic & {
  readonly retry: RetryVerdict
  /** The program is useless after this, even if it stays alive. */
  readonly fatal: boolean
  /** On the collector's clock. */
  readonly firstSeenMs: number
  readonly lastSeenMs: number
}

export type CollectorOptions = {
  readonly redactor?: Redactor
  /** Any monotonic clock, for `firstSeenMs`. */
  readonly now?: () => number
  /** Called at the first match of each signature, before the lines that follow it are known. */
  readonly onDiagnosis?: (diagnosis: Diagnosis) => void
}

export type DiagnosticCollector = {
  /** Raw bytes, split anywhere. */
  readonly push: (chunk: Uint8Array) => void
  /** One complete line. */
  readonly line: (text: string) => void
  /** The stream is over: an unfinished line counts. */
  readonly end: () => void
  /** Checks the unfinished line, for a program that hangs in the middle of a line. */
  readonly peek: (unfinished?: string) => void
  /** Causes first, then consequences, then hints; within a rank in order of appearance. Redacted. */
  readonly diagnoses: () => readonly Diagnosis[]
}

export function collectDiagnostics(options: CollectorOptions = {}): DiagnosticCollector {
  return new Collector(options)
}

/** The failures in a whole text, such as a log file, causes first. */
export function diagnose(text: string): readonly Diagnostic[] {
  const collector = new Collector({})
  for (const line of text.split(/\r\n|\n|\r/)) collector.line(line)
  return collector.diagnoses().map(toDiagnostic)
}

/** Only the fields that leave the process. */
export function toDiagnostic(diagnosis: Diagnosis): Diagnostic {
  const { id, rank, message, advice, retry, evidence, count } = diagnosis
  return { id, rank, message, advice, retry, evidence, count }
}

const RANKS: Readonly<Record<Diagnostic['rank'], number>> = { cause: 0, consequence: 1, hint: 2 }

export function byRank(a: Diagnosis, b: Diagnosis): number {
  return RANKS[a.rank] - RANKS[b.rank] || a.firstSeenMs - b.firstSeenMs
}

// ---- details, in the order they are used above ----

const LINES_BEFORE = 2
const LINES_AFTER = 4
const EVIDENCE_CHARS_MAX = 500
const MAY_WRAP = /\[METAL\]|\bCommand buffer\b|execution failed:$/ // Metal errors are wrapped over several lines
const INFORMATION = new Set(['trace', 'debug', 'info', 'notice', 'i', 'd'])

type Entry = {
  readonly row: Signature
  readonly message: string
  readonly fatal: boolean
  readonly order: number
  readonly firstSeenMs: number
  readonly evidence: string[]
  lastSeenMs: number
  lastLine: number
  count: number
  linesWanted: number // after the match
}

class Collector implements DiagnosticCollector {
  readonly #redactor: Redactor
  readonly #now: () => number
  readonly #onDiagnosis: ((diagnosis: Diagnosis) => void) | undefined
  readonly #splitter = new LineSplitter((line) => this.line(line.text))
  readonly #withoutKeys = keyBlockFilter()
  readonly #entries = new Map<string, Entry>() // I1
  #open: Entry[] = []
  #before: string[] = []
  #previous = ''
  #lineNumber = 0
  #peeked: string | undefined

  constructor(options: CollectorOptions) {
    this.#redactor = options.redactor ?? makeRedactor()
    this.#now = options.now ?? (() => 0)
    this.#onDiagnosis = options.onDiagnosis
  }

  push(chunk: Uint8Array): void {
    this.#splitter.push(chunk)
  }

  end(): void {
    this.#splitter.end()
  }

  peek(unfinished: string | undefined = this.#splitter.peek()?.text): void {
    if (unfinished === undefined) return
    const { text, level } = stripLogPrefix(unfinished)
    const row = matchSignature(text)
    if (row?.fatal !== true || this.#entries.has(row.id)) return
    this.#lineNumber += 1
    this.#record(row, text, level, unfinished)
    this.#peeked = row.id
  }

  line(given: string): void {
    const raw = this.#withoutKeys(given)
    this.#lineNumber += 1
    const { text, level } = stripLogPrefix(raw)
    const row = matchSignature(text) ?? this.#wrapped(text)
    if (this.#open.length > 0 && text !== '') this.#follow(raw, row) // an empty line is not evidence
    if (row !== undefined) this.#record(row, text, level, raw)
    if (text !== '') {
      this.#before.push(cutStart(raw, EVIDENCE_CHARS_MAX * 2))
      if (this.#before.length > LINES_BEFORE) this.#before.shift()
      this.#previous = text
    }
  }

  diagnoses(): readonly Diagnosis[] {
    return [...this.#entries.values()]
      .toSorted((a, b) => RANKS[a.row.rank] - RANKS[b.row.rank] || a.order - b.order) // I2: the first of the highest rank
      .map((entry) => this.#diagnosis(entry))
  }

  #wrapped(text: string): Signature | undefined {
    if (text === '' || !MAY_WRAP.test(this.#previous)) return undefined
    return matchSignature(`${this.#previous} ${text}`)
  }

  #record(row: Signature, text: string, level: string | undefined, raw: string): void {
    const known = this.#entries.get(row.id)
    if (known !== undefined) {
      // The second line of a wrapped message, or the rest of a line that was checked unfinished, is not a second failure.
      const again = this.#peeked === row.id || (text.startsWith('(') && known.lastLine === this.#lineNumber - 1)
      if (!again) known.count += 1
      this.#peeked = undefined
      known.lastSeenMs = this.#now()
      known.lastLine = this.#lineNumber
      return
    }
    const entry = this.#newEntry(row, text, level, raw)
    this.#entries.set(row.id, entry)
    this.#open.push(entry)
    this.#onDiagnosis?.(this.#diagnosis(entry))
  }

  #newEntry(row: Signature, text: string, level: string | undefined, raw: string): Entry {
    const match = row.detail === undefined ? null : row.pattern.exec(text)
    const detail = match === null ? undefined : row.detail?.(match)
    const now = this.#now()
    return {
      row,
      message: detail === undefined ? row.message : `${row.message} (${detail})`,
      fatal: row.fatal === true && !INFORMATION.has(level ?? ''), // I3: information ends nothing
      order: this.#entries.size,
      firstSeenMs: now,
      lastSeenMs: now,
      lastLine: this.#lineNumber,
      evidence: [...this.#before, raw],
      count: 1,
      linesWanted: LINES_AFTER,
    }
  }

  /** Adds a line to the matches that still want one. Repeats of the same message are counted, not added. */
  #follow(raw: string, row: Signature | undefined): void {
    for (const entry of this.#open) {
      if (row?.id === entry.row.id && entry.evidence.length > 0 && masked(entry.evidence.at(-1)) === masked(raw))
        continue
      entry.evidence.push(cutStart(raw, EVIDENCE_CHARS_MAX * 2))
      entry.linesWanted -= 1
    }
    this.#open = this.#open.filter((entry) => entry.linesWanted > 0)
  }

  #diagnosis(entry: Entry): Diagnosis {
    const { row } = entry
    return {
      id: row.id,
      rank: row.rank,
      message: this.#redactor(entry.message),
      advice: row.advice,
      retry: row.retry,
      evidence: entry.evidence.map((line) => shown(this.#redactor(line))),
      count: entry.count,
      fatal: entry.fatal,
      firstSeenMs: entry.firstSeenMs,
      lastSeenMs: entry.lastSeenMs,
    }
  }
}

/** The match may come after a flood on the same line, so a long line shows both ends. */
function shown(line: string): string {
  const text = withoutColours(line).trim()
  if (text.length <= EVIDENCE_CHARS_MAX) return text
  const half = EVIDENCE_CHARS_MAX / 2 - 2
  return `${cutStart(text, half)} … ${cutEnd(text, half)}`
}

const masked = (line: string | undefined): string => (line ?? '').slice(0, EVIDENCE_CHARS_MAX).replace(/\d+/g, '#')
