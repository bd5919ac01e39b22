/**
 * What an error text, a log, an exit code or a fault report means. Pure: text in, one fault report out.
 * Nothing recognised is `other` without diagnostics: a guess would be worse than none.
 */
import {
  type Boundary,
  classify,
  Fault,
  faultFrom,
  type FaultReport,
  isFaultReport,
  type ResponseEvidence,
} from '@breakfall/faults'
import { diagnose, diagnoseExit, readExit, toDiagnostic } from '@breakfall/supervisor'

export type Explanation = {
  readonly report: FaultReport
  /** How it was recognised, for people. */
  readonly by:
    | 'a fault report'
    | "a provider's error"
    | 'known signatures'
    | 'an exit status'
    | 'an error code'
    | 'an HTTP status'
    | 'nothing known'
}

export function explain(text: string, boundary: Boundary = 'model'): Explanation {
  const trimmed = text.trim()
  return (
    fromJson(trimmed, boundary) ??
    fromSignatures(trimmed) ??
    fromErrorCode(trimmed, boundary) ??
    fromHttpStatus(trimmed, boundary) ??
    fromExit(trimmed) ?? {
      report: new Fault('other', { error: 'nothing in this text is known; the raw text is kept', errorRaw: trimmed })
        .report,
      by: 'nothing known',
    }
  )
}

// ---- details, in the order they are used above ----

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

/** The whole text, or each line that is JSON (behind `data:` as well). The last one says how it ended. */
function jsonValues(text: string): readonly unknown[] {
  const candidates = [
    text,
    ...text
      .split('\n')
      .map((line) => line.replace(/^\s*(?:data:\s*)?/, ''))
      .reverse()
      .slice(0, 2000),
  ]
  return candidates.flatMap((candidate) => {
    if (!/^[{[]/.test(candidate)) return []
    try {
      return [JSON.parse(candidate) as unknown]
    } catch {
      return [] // a line of a log that only looks like JSON
    }
  })
}

function statusIn(value: object): number | undefined {
  const { error, status } = value as { error?: { code?: unknown; status?: unknown }; status?: unknown }
  return [status, error?.code, error?.status].find(
    (entry): entry is number => typeof entry === 'number' && entry >= 400 && entry < 600,
  )
}

function fromSignatures(text: string): Explanation | undefined {
  const diagnostics = diagnose(text)
  const [first] = diagnostics
  if (first === undefined) return undefined
  const error = `${first.message}${first.advice === '' ? '' : `; ${first.advice}`}`
  const report = new Fault('process_failed', {
    error,
    errorRaw: first.evidence[0] ?? text,
    diagnostics,
    next: first.retry === 'never' ? 'never' : 'restart',
  }).report
  return { report, by: 'known signatures' }
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
  return undefined
}

function fromHttpStatus(text: string, boundary: Boundary): Explanation | undefined {
  const found = /(?:^|\bHTTP\/[\d.]+ |\bHTTP |\bstatus(?: code)?[:= ]+)([45]\d\d)\b/m.exec(text)
  if (found === null) return undefined
  const report = classify(undefined, {
    boundary,
    now: 0,
    response: { status: Number(found[1]), body: lineWith(text, found[0]) },
  }).report
  return { report, by: 'an HTTP status' }
}

function fromExit(text: string): Explanation | undefined {
  const found = /\b(?:exit(?:ed)?(?: with)?(?: code| status)?|code)[:= ]+(\d{1,3})\b/i.exec(text)
  const signal = /\b(?:signal|killed by)[:= ]+(SIG[A-Z]+)\b/i.exec(text)?.[1]
  const code = found?.[1] === undefined ? (/^\d{1,3}$/.test(text) ? Number(text) : null) : Number(found[1])
  if (code === null && signal === undefined) return undefined
  const diagnosis = diagnoseExit(readExit(signal === undefined ? code : null, signal?.toUpperCase() ?? null))
  const diagnostics = diagnosis === undefined ? [] : [toDiagnostic(diagnosis)]
  const error = diagnosis === undefined ? undefined : `${diagnosis.message}; ${diagnosis.advice}`
  return { report: new Fault('process_failed', { error, errorRaw: text, diagnostics }).report, by: 'an exit status' }
}

const lineWith = (text: string, part: string): string =>
  text
    .split('\n')
    .find((line) => line.includes(part))
    ?.trim() ?? part
