/**
 * What an error text, a log, an exit code, a category's name or a fault report means. Pure: text in, one fault report out.
 * Nothing recognised is `other` without diagnostics: a guess would be worse than none.
 */
import {
  type Boundary,
  classify,
  EXIT_CODES,
  Fault,
  type FaultCategory,
  faultFrom,
  type FaultReport,
  isFaultCategory,
  isFaultReport,
  type ResponseEvidence,
} from '@breakfall/faults'
import {
  describeExit,
  diagnose,
  diagnoseExit,
  headline,
  readExit,
  SIGNATURES,
  toDiagnostic,
} from '@breakfall/supervisor'
import { isWord, WORDS } from './terms.ts'

export type Explanation = {
  readonly report: FaultReport
  /** How it was recognised, for people. */
  readonly by:
    | 'a fault report'
    | "a category's name"
    | 'one of our words'
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
    fromWord(trimmed) ??
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

/** A name of our table, alone or as we print it: `model_stream_stalled: no byte for 300 s`. */
function fromCategory(text: string): Explanation | undefined {
  const found = /^([a-z]+(?:_[a-z]+)*)(?:: *(\S.*))?$/.exec(text)
  const [, category, raw] = found ?? []
  if (!isFaultCategory(category)) return undefined
  // A log line may well begin with one of the plain words among them, such as "forbidden: …".
  if (raw !== undefined && !category.includes('_')) return undefined
  return { report: new Fault(category, { errorRaw: raw }).report, by: "a category's name" }
}

/** What our output prints beside categories: a cause, a state, a reason, or a diagnostic's id. */
function fromWord(text: string): Explanation | undefined {
  const word = text.replaceAll('-', '_') // as events spell them: taken-over
  if (isWord(word))
    return {
      report: new Fault('other', { error: `${text}: ${WORDS[word]}`, errorRaw: text }).report,
      by: 'one of our words',
    }
  const row = SIGNATURES.find(({ id }) => id === text)
  if (row === undefined) return undefined
  return {
    report: new Fault('other', { error: `${text}: ${row.advice}`, errorRaw: text }).report,
    by: 'one of our words',
  }
}

/** Exit codes end at 255, so 429 alone is still an HTTP status. */
function fromBareNumber(text: string): Explanation | undefined {
  const code = Number(text)
  if (/^\d{3,5}$/.test(text) && (code < 400 || code > 599) && code > 255)
    return { report: noCode(text), by: 'nothing known' }
  if (!/^\d{1,3}$/.test(text) || code > 255) return undefined
  const explained = exitExplained(text, code, null)
  const isOursAlone = OUR_EXITS.has(code) && explained.report.diagnostics.length === 0
  return isOursAlone ? { ...explained, by: 'one of our exit codes' } : explained
}

const noCode = (text: string): FaultReport =>
  new Fault('other', {
    error: `${text} is neither an exit code (0 to 255) nor the HTTP status of an error (400 to 599)`,
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

/** The whole text, or each line that is JSON (behind `data:` as well). The last one says how it ended. */
function jsonValues(text: string): readonly unknown[] {
  const candidates = [
    text,
    ...text
      .split('\n')
      .map((line) => line.replace(/^\s*(?:data:\s*|\w*Error:\s*(?:\d{3}\s+)?)?/, '')) // as in SSE, or as SDKs throw it
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

type Diagnostics = FaultReport['diagnostics']

function fromSignatures(text: string, diagnostics: Diagnostics): Explanation | undefined {
  const [first] = diagnostics
  if (first === undefined || first.rank === 'hint') return undefined // they are sorted: a hint first means only hints
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

/** A warning that a server lives on with is worth knowing beside what failed. */
function withHints(found: Explanation | undefined, diagnostics: Diagnostics): Explanation | undefined {
  if (found === undefined || diagnostics.length === 0) return found
  return { ...found, report: { ...found.report, diagnostics: [...found.report.diagnostics, ...diagnostics] } }
}

/** Alone it is not why anything failed. */
function fromHints(text: string, diagnostics: Diagnostics): Explanation | undefined {
  const [first] = diagnostics
  return first === undefined ? undefined : signed('other', text, first, diagnostics)
}

const nothingKnown = (text: string, boundary: Boundary): FaultReport =>
  new Fault('other', {
    boundary,
    error: text === '' ? 'there is nothing in this text' : 'nothing in this text is known; the raw text is kept',
    errorRaw: text,
  }).report

/** Evidence holds the lines around it as well. */
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
  return boundary === 'model' ? fromProviderWords(text) : undefined
}

/** A provider's sentence without the JSON around it, where its words alone are known. */
function fromProviderWords(text: string): Explanation | undefined {
  for (const line of text.split('\n').slice(0, 2000)) {
    const body = line.trim().replace(SDK_WORDS, '')
    const fault = classify(undefined, { boundary: 'model', now: 0, response: { status: 400, body } })
    if (fault.category === 'model_context_overflow') return { report: fault.report, by: "a provider's error" }
    const [, category] = PROVIDER_SENTENCES.find(([sentence]) => sentence.test(body)) ?? []
    if (category !== undefined)
      return { report: new Fault(category, { errorRaw: body }).report, by: "a provider's error" }
  }
  return undefined
}

/** What OpenAI and Anthropic say, word by word, where a log has kept the sentence alone. */
const PROVIDER_SENTENCES: readonly (readonly [RegExp, FaultCategory])[] = [
  [/^Incorrect API key provided\b/, 'model_auth_failed'],
  [/^You didn't provide an API key\b/, 'model_auth_failed'],
  [/^invalid x-api-key$/, 'model_auth_failed'],
  [/^You exceeded your current quota\b/, 'model_quota_exhausted'],
  [/^Your credit balance is too low\b/, 'model_quota_exhausted'],
  [/^Rate limit reached for \S+/, 'model_rate_limited'],
  [/^The model `[^`]+` does not exist\b/, 'model_not_found'],
]

/** What SDKs and proxies put before a provider's sentence: the names of their errors, then the status. */
const SDK_WORDS = /^(?:[\w.]*(?:Error|Exception): )*(?:(?:Error code: |HTTP )?[45]\d\d(?:: | - | ))?/

/** `HTTP 400 {"error":…}` as we print it, `400 …` and `Error code: 400 - {'error': …}` as the SDKs do. */
function fromHttpStatus(text: string, boundary: Boundary): Explanation | undefined {
  // At the start of a line it needs what stands behind a status: "429 files changed" is none.
  const found =
    /(?:\bHTTP\/[\d.]+ |\bHTTP |\bstatus(?: code)?[:= ]+|\bError code: )([45]\d\d)\b/.exec(text) ??
    /^(?:\w*Error: )?([45]\d\d)(?=$|:| status code| [A-Z{])/m.exec(text)
  if (found === null) return undefined
  const line = lineWith(text, found[0])
  const response: ResponseEvidence = { status: Number(found[1]), body: bodyIn(line) ?? line }
  return { report: classify(undefined, { boundary, now: 0, response }).report, by: 'an HTTP status' }
}

/** The body that stands in a line after its status: JSON, or a Python dictionary as the Python SDKs print one. */
function bodyIn(line: string): unknown {
  const [text] = /\{.*\}/.exec(line) ?? []
  if (text === undefined) return undefined
  const python = text.replace(
    /'((?:[^'\\]|\\.)*)'|"(?:[^"\\]|\\.)*"|\b(None|True|False)\b/g,
    (whole, single: string | undefined, word: string | undefined) =>
      single !== undefined ? JSON.stringify(single.replace(/\\(.)/g, '$1')) : (PYTHON_WORDS.get(word ?? '') ?? whole),
  )
  for (const candidate of [text, python]) {
    try {
      return JSON.parse(candidate) as unknown
    } catch {
      // Not in this language; the line itself is looked at then.
    }
  }
  return undefined
}

const PYTHON_WORDS: ReadonlyMap<string, string> = new Map([
  ['None', 'null'],
  ['True', 'true'],
  ['False', 'false'],
])

/** What a shell says of a child that a signal ended. */
const SHELL_WORDS: Readonly<Record<string, string>> = {
  Killed: 'SIGKILL',
  'Segmentation fault': 'SIGSEGV',
  Aborted: 'SIGABRT',
  'Bus error': 'SIGBUS',
  'Illegal instruction': 'SIGILL',
  'Floating point exception': 'SIGFPE',
}
const SHELL_LINE = new RegExp(
  `^(?:\\S+: line \\d+: +\\d+ )?(${Object.keys(SHELL_WORDS).join('|')})(?: \\(core dumped\\))?(?:$| {2,})`,
  'm',
)

function fromExit(text: string): Explanation | undefined {
  const found = /\b(?:exit(?:ed)?(?: with)?(?: code| status)?|code)[:= ]+(\d{1,3})\b/i.exec(text)
  const signal =
    /\b(?:signal|killed by)[:= ]+(SIG[A-Z]+)\b/i.exec(text)?.[1] ?? SHELL_WORDS[SHELL_LINE.exec(text)?.[1] ?? '']
  const code = found === null || Number(found[1]) > 255 ? null : Number(found[1])
  if (code === null && signal === undefined) return undefined
  return exitExplained(text, code, signal?.toUpperCase() ?? null)
}

/** Read as a shell would report it: above 128 the code names the signal that ended the program. */
function exitExplained(text: string, code: number | null, signal: string | null): Explanation {
  const status = readExit(signal === null ? code : null, signal, 'sh')
  const diagnosis = diagnoseExit(status, 'sh') ?? diagnoseExit(status)
  const ours = signal === null ? OUR_EXITS.get(code) : undefined
  const sentences = [
    status.signal === null ? '' : `the program ${describeExit(status)}.`,
    diagnosis?.advice.replace(/^Exit code \d+: /, '') ?? '',
    ours === undefined ? '' : `Breakfall means by it: ${ours.means}.`,
  ].filter((sentence) => sentence !== '')
  if (sentences.length === 0) sentences.push('the code alone does not tell why; the end of what it printed may.')
  const report = new Fault(ours?.category ?? 'process_failed', {
    error: (signal === null ? `exit code ${code}: ` : '') + sentences.join(' '),
    errorRaw: text,
    next: ours !== undefined || diagnosis?.retry === 'never' ? 'never' : undefined,
    diagnostics: diagnosis === undefined ? [] : [toDiagnostic(diagnosis)],
  }).report
  return { report, by: 'an exit status' }
}

const OUR_EXITS: ReadonlyMap<number | null, { readonly means: string; readonly category: FaultCategory }> = new Map([
  [EXIT_CODES.finished, { means: 'finished', category: 'other' }],
  [EXIT_CODES.failed, { means: 'the turn failed, and trying again would not help', category: 'process_failed' }],
  [EXIT_CODES.usage, { means: 'wrong usage or configuration; see --help', category: 'invalid_request' }],
  [
    EXIT_CODES.transient,
    {
      means: 'the turn is parked, or the trouble will pass; go on later with: breakfall run --continue',
      category: 'process_failed',
    },
  ],
  [
    EXIT_CODES.credentials,
    {
      means: 'credentials are missing or were refused; set the key or the token, then go on',
      category: 'process_failed',
    },
  ],
  [
    EXIT_CODES.budget,
    { means: 'a budget was spent: tries, waiting, steps, a quota or a deadline', category: 'process_failed' },
  ],
  [
    EXIT_CODES.unreachable,
    { means: 'the daemon or the runner is not reachable; breakfall doctor tells why', category: 'daemon_unreachable' },
  ],
  [EXIT_CODES.cancelled, { means: 'somebody cancelled it', category: 'cancelled' }],
])

const lineWith = (text: string, part: string): string =>
  text
    .split('\n')
    .find((line) => line.includes(part))
    ?.trim() ?? part
