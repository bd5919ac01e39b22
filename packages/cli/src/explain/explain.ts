/**
 * Explains an error text, a log, an exit code, a category or a fault report. Pure: text in, one fault report out. Text that
 * nothing matches is `other` without diagnostics: a guess would be worse than none.
 */
import {
  type Boundary,
  classify,
  Fault,
  type FaultCategory,
  faultFrom,
  type FaultReport,
  isFaultCategory,
  isFaultReport,
  type ResponseEvidence,
} from '@breakfall/faults'
import { diagnose, SIGNATURES } from '@breakfall/supervisor'
import { headline } from '@breakfall/supervisor/internal'
import { explainExitCode, fromExit } from './exit-status.ts'
import { isTerm, TERMS } from './terms.ts'

export type Explanation = {
  readonly report: FaultReport
  /** What it was recognised by. */
  readonly by:
    | 'a fault report'
    | "a category's name"
    | 'one of our terms'
    | "a provider's error"
    | 'known signatures'
    | 'an exit status'
    | 'one of our exit codes'
    | 'a turn without a fault'
    | 'an error code'
    | 'an HTTP status'
    | 'nothing known'
}

export function explain(text: string, boundary: Boundary = 'model'): Explanation {
  const trimmed = text.trim()
  const diagnostics = diagnose(trimmed)
  return (
    fromCategory(trimmed) ??
    fromTerm(trimmed) ??
    fromBareNumber(trimmed) ??
    fromJson(trimmed, boundary) ??
    fromSignatures(trimmed, diagnostics) ??
    withHints(
      fromErrorCode(trimmed, boundary) ?? fromHttpStatus(trimmed, boundary) ?? fromExit(trimmed),
      diagnostics,
    ) ??
    fromHints(trimmed, diagnostics) ?? { report: nothingKnown(trimmed, boundary), by: 'nothing known' }
  )
}

// ---- details, in the order they are used above ----

/** A category, alone or as we print it: `model_stream_stalled: no byte for 300 s`. */
function fromCategory(text: string): Explanation | undefined {
  const found = /^([a-z]+(?:_[a-z]+)*)(?:: *(\S.*))?$/.exec(text)
  const [, category, raw] = found ?? []
  if (!isFaultCategory(category)) return undefined
  // A log line may start with a category that is a plain word, such as "forbidden: …".
  if (raw !== undefined && !category.includes('_')) return undefined
  return { report: new Fault(category, { errorRaw: raw }).report, by: "a category's name" }
}

/** A term that our output prints beside categories: a cause, a state, a reason, or the id of a diagnostic. */
function fromTerm(text: string): Explanation | undefined {
  const term = text.replaceAll('-', '_') // events spell them with hyphens: taken-over
  if (isTerm(term))
    return {
      report: new Fault('other', { error: `${text}: ${TERMS[term]}`, errorRaw: text }).report,
      by: 'one of our terms',
    }
  const row = SIGNATURES.find(({ id }) => id === text)
  if (row === undefined) return undefined
  return {
    report: new Fault('other', { error: `${text}: ${row.advice}`, errorRaw: text }).report,
    by: 'one of our terms',
  }
}

/** Exit codes end at 255, so 429 alone is an HTTP status. */
function fromBareNumber(text: string): Explanation | undefined {
  const code = Number(text)
  if (/^\d{3,5}$/.test(text) && (code < 400 || code > 599) && code > 255)
    return { report: notACode(text), by: 'nothing known' }
  if (!/^\d{1,3}$/.test(text) || code > 255) return undefined
  return explainExitCode(text, code)
}

const notACode = (text: string): FaultReport =>
  new Fault('other', {
    error: `${text} is neither an exit code (0 to 255) nor an HTTP error status (400 to 599)`,
    errorRaw: text,
  }).report

function fromJson(text: string, boundary: Boundary): Explanation | undefined {
  for (const value of jsonValues(text)) {
    if (isFaultReport(value)) return { report: faultFrom(value).report, by: 'a fault report' }
    if (typeof value !== 'object' || value === null || !('error' in value)) continue
    const evidence: ResponseEvidence = { status: statusIn(value) ?? 400, body: value }
    const fault = classify(undefined, { boundary, response: evidence, now: 0 })
    if (statusIn(value) !== undefined || fault.category !== 'model_bad_request')
      return { report: fault.report, by: "a provider's error" }
  }
  return undefined
}

/** The whole text, or each line that is JSON, also after `data:`. Last line first, because it says how it ended. */
function jsonValues(text: string): readonly unknown[] {
  const candidates = [
    text,
    ...text
      .split('\n')
      .map((line) => line.replace(/^\s*(?:data:\s*|\w*Error:\s*(?:\d{3}\s+)?)?/, '')) // SSE, or the message of an SDK's error
      .reverse()
      .slice(0, 2000),
  ]
  return candidates.flatMap((candidate) => {
    if (!/^[{[]/.test(candidate)) return []
    try {
      const value: unknown = JSON.parse(candidate)
      return [value]
    } catch {
      return [] // only looks like JSON
    }
  })
}

function statusIn(value: object): number | undefined {
  const error: unknown = 'error' in value ? value.error : undefined
  const inner = typeof error === 'object' && error !== null ? error : {}
  const candidates: readonly unknown[] = [
    'status' in value ? value.status : undefined,
    'code' in inner ? inner.code : undefined,
    'status' in inner ? inner.status : undefined,
  ]
  return candidates.find((entry): entry is number => typeof entry === 'number' && entry >= 400 && entry < 600)
}

type Diagnostics = FaultReport['diagnostics']

function fromSignatures(text: string, diagnostics: Diagnostics): Explanation | undefined {
  const [first] = diagnostics
  if (first === undefined || first.rank === 'hint') return undefined // causes come first, so there are only hints
  return signed('process_failed', text, first, diagnostics)
}

function signed(
  category: FaultCategory,
  text: string,
  first: Diagnostics[number],
  diagnostics: Diagnostics,
): Explanation {
  const report = new Fault(category, {
    error: headline(first.message, first.advice),
    errorRaw: matchingLine(first) ?? text,
    diagnostics,
    next: category === 'other' || first.retry === 'never' ? 'never' : 'restart',
  }).report
  return { report, by: 'known signatures' }
}

/** Adds warnings that did not cause the failure but are worth knowing. */
function withHints(found: Explanation | undefined, diagnostics: Diagnostics): Explanation | undefined {
  if (found === undefined || diagnostics.length === 0) return found
  return { ...found, report: { ...found.report, diagnostics: [...found.report.diagnostics, ...diagnostics] } }
}

/** A hint alone is no reason for a failure, so the category is `other`. */
function fromHints(text: string, diagnostics: Diagnostics): Explanation | undefined {
  const [first] = diagnostics
  return first === undefined ? undefined : signed('other', text, first, diagnostics)
}

const nothingKnown = (text: string, boundary: Boundary): FaultReport =>
  new Fault('other', {
    boundary,
    error:
      text === '' ? 'the text is empty' : 'nothing in this text matches a known failure; the report has the raw text',
    errorRaw: text,
  }).report

/** The evidence includes lines around the match. */
function matchingLine({ id, evidence }: FaultReport['diagnostics'][number]): string | undefined {
  return evidence.find((line) => diagnose(line).some((found) => found.id === id)) ?? evidence[0]
}

function fromErrorCode(text: string, boundary: Boundary): Explanation | undefined {
  for (const [code] of text.matchAll(
    /\b(?:E[A-Z]{3,}(?:_[A-Z]+)?|UND_ERR_[A-Z_]+|HPE_[A-Z_]+|ERR_[A-Z_0-9]+|CERT_[A-Z_]+|[A-Z_]*SELF_SIGNED_CERT[A-Z_]*|UNABLE_TO_[A-Z_]+)\b/g,
  )) {
    const fault = classify(Object.assign(new Error(lineWith(text, code)), { code }), { boundary })
    if (fault.category !== 'other') return { report: fault.report, by: 'an error code' }
  }
  for (const line of text.split('\n').slice(0, 2000)) {
    const fault = classify(line.trim(), { boundary })
    if (fault.category !== 'other') return { report: fault.report, by: 'an error code' }
  }
  return boundary === 'model' ? fromProviderSentence(text) : undefined
}

/** A provider's error sentence without the JSON around it. */
function fromProviderSentence(text: string): Explanation | undefined {
  for (const line of text.split('\n').slice(0, 2000)) {
    const body = line.trim().replace(SDK_PREFIX, '')
    const fault = classify(undefined, { boundary: 'model', now: 0, response: { status: 400, body } })
    if (fault.category === 'model_context_overflow') return { report: fault.report, by: "a provider's error" }
    const [, category] = PROVIDER_SENTENCES.find(([sentence]) => sentence.test(body)) ?? []
    if (category !== undefined)
      return { report: new Fault(category, { errorRaw: body }).report, by: "a provider's error" }
  }
  return undefined
}

/** Error sentences of OpenAI and Anthropic, verbatim, for logs that keep only the sentence. */
const PROVIDER_SENTENCES: readonly (readonly [RegExp, FaultCategory])[] = [
  [/^Incorrect API key provided\b/, 'model_auth_failed'],
  [/^You didn't provide an API key\b/, 'model_auth_failed'],
  [/^invalid x-api-key$/, 'model_auth_failed'],
  [/^You exceeded your current quota\b/, 'model_quota_exhausted'],
  [/^Your credit balance is too low\b/, 'model_quota_exhausted'],
  [/^Rate limit reached for \S+/, 'model_rate_limited'],
  [/^The model `[^`]+` does not exist\b/, 'model_not_found'],
]

/** What SDKs and proxies put before a provider's sentence: error names, then the status. */
const SDK_PREFIX = /^(?:[\w.]*(?:Error|Exception): )*(?:(?:Error code: |HTTP )?[45]\d\d(?:: | - | ))?/

/** `HTTP 400 {"error":…}` as we print it; `400 …` and `Error code: 400 - {'error': …}` as SDKs do. */
function fromHttpStatus(text: string, boundary: Boundary): Explanation | undefined {
  // At the start of a line a status needs more context: "429 files changed" is not one.
  const found =
    /(?:\bHTTP\/[\d.]+ |\bHTTP |\bstatus(?: code)?[:= ]+|\bError code: )([45]\d\d)\b/.exec(text) ??
    /^(?:\w*Error: )?([45]\d\d)(?=$|:| status code| [A-Z{])/m.exec(text)
  if (found === null) return undefined
  const line = lineWith(text, found[0])
  const response: ResponseEvidence = { status: Number(found[1]), body: bodyIn(line) ?? line }
  return { report: classify(undefined, { boundary, now: 0, response }).report, by: 'an HTTP status' }
}

/** The body after the status in a line: JSON, or a Python dictionary as Python SDKs print it. */
function bodyIn(line: string): unknown {
  const [text] = /\{.*\}/.exec(line) ?? []
  if (text === undefined) return undefined
  const python = text.replace(
    /'((?:[^'\\]|\\.)*)'|"(?:[^"\\]|\\.)*"|\b(None|True|False)\b/g,
    (whole, single: string | undefined, literal: string | undefined) =>
      single !== undefined
        ? JSON.stringify(single.replace(/\\(.)/g, '$1'))
        : (PYTHON_LITERALS.get(literal ?? '') ?? whole),
  )
  for (const candidate of [text, python]) {
    try {
      const value: unknown = JSON.parse(candidate)
      return value
    } catch {
      // not in this notation: the caller uses the whole line
    }
  }
  return undefined
}

const PYTHON_LITERALS: ReadonlyMap<string, string> = new Map([
  ['None', 'null'],
  ['True', 'true'],
  ['False', 'false'],
])

const lineWith = (text: string, part: string): string =>
  text
    .split('\n')
    .find((line) => line.includes(part))
    ?.trim() ?? part
