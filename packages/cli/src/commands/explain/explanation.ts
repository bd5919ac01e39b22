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
    | 'known signatures'
    | 'an exit status'
    | 'one of our exit codes'
    | 'a turn without a fault'
    | 'an error'
    | "another program's server"
    | 'nothing known'
}

/** `named`: the boundary, if the user named one. */
export function explain(text: string, named?: Boundary): Explanation {
  const boundary = named ?? 'model'
  const trimmed = text.trim()
  const diagnostics = diagnose(trimmed)
  return (
    fromCategory(trimmed) ??
    fromTerm(trimmed) ??
    fromBareNumber(trimmed) ??
    fromReport(trimmed) ??
    fromSignatures(trimmed, diagnostics) ??
    fromOurLine(trimmed) ??
    (named === undefined ? fromOtherServer(trimmed) : undefined) ??
    withHints(fromError(trimmed, boundary) ?? fromExit(trimmed), diagnostics) ??
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
const fromBareNumber = (text: string): Explanation | undefined =>
  /^\d{1,3}$/.test(text) && Number(text) <= 255 ? explainExitCode(text, Number(text)) : undefined

function fromReport(text: string): Explanation | undefined {
  const report = [text, ...linesOf(text)].map(jsonIn).find(isFaultReport)
  return report && { report: faultFrom(report).report, by: 'a fault report' }
}

/** The last one first: it says how it ended. */
const linesOf = (text: string): readonly string[] => text.split('\n').slice(-LINES_MAX).reverse()

const LINES_MAX = 2_000

/** The object at the end of a text: `data: {…}`, or the body in the message of an SDK's error. */
function jsonIn(text: string): unknown {
  const from = text.indexOf('{')
  if (from === -1 || !text.trimEnd().endsWith('}')) return undefined
  try {
    const value: unknown = JSON.parse(text.slice(from))
    return value
  } catch {
    return undefined // only looks like JSON
  }
}

/** A line that a run, the daemon or the gateway printed: `⚡ runner_unreachable: connect ECONNREFUSED … → looking up the address again`. */
function fromOurLine(text: string): Explanation | undefined {
  for (const line of linesOf(text))
    for (const [, category, raw] of line.matchAll(OUR_CATEGORY))
      if (isFaultCategory(category) && !ELSEWHERE.has(category)) {
        const errorRaw = raw?.split(' → ')[0]?.trim()
        return { report: new Fault(category, { errorRaw }).report, by: "a category's name" }
      }
  return undefined
}

const OUR_CATEGORY = /(?<![\w"'`./=-])([a-z]+(?:_[a-z]+)+)(?:(?: ×\d+)?: (.*)|(?=\)|$| \())/g

/** Names that other programs print, too. */
const ELSEWHERE: ReadonlySet<FaultCategory> = new Set(['invalid_request', 'not_found', 'payload_too_large'])

/** A server that a program of the user's talks to. The text must show that: its name, its client, or the port that it usually has. */
function fromOtherServer(text: string): Explanation | undefined {
  const line = linesOf(text).find((one) => NO_CONNECTION.test(one))
  if (line === undefined) return undefined
  const port = Number(/(?::|\bport )(\d{2,5})\b/.exec(line)?.[1])
  const server = OTHER_SERVERS.find(({ ports, named }) => ports.includes(port) || named.test(text))
  if (server === undefined) return undefined
  const error = `This is about ${server.name}, not about the model server: ${server.name} cannot be reached. Breakfall has no part in that connection; start ${server.name}, or correct its address.`
  const report = new Fault('other', { error, errorRaw: line.trim() }).report
  return { report, by: "another program's server" }
}

const NO_CONNECTION =
  /\b(?:ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENOTFOUND|EAI_AGAIN)\b|[Cc]onnection (?:refused|timed out)|could not translate host name/

const OTHER_SERVERS: readonly { readonly name: string; readonly ports: readonly number[]; readonly named: RegExp }[] = [
  { name: 'PostgreSQL', ports: [5432, 6432], named: /\bpostgres|\bpsycopg|node_modules\/pg\b/i },
  { name: 'MySQL', ports: [3306], named: /\bmysql|\bmariadb/i },
  { name: 'Redis', ports: [6379], named: /\bi?o?redis\b/i },
  { name: 'MongoDB', ports: [27017], named: /\bmongo/i },
  { name: 'RabbitMQ', ports: [5672], named: /\bamqp|\brabbitmq/i },
  { name: 'Kafka', ports: [9092], named: /\bkafka/i },
  { name: 'Elasticsearch', ports: [9200], named: /\belastic/i },
  { name: 'memcached', ports: [11211], named: /\bmemcached?\b/i },
]

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

/** What `classify` makes of the last line that it knows, as an error or as a response of the boundary. */
function fromError(text: string, boundary: Boundary): Explanation | undefined {
  for (const piece of jsonIn(text) === undefined ? linesOf(text) : [text]) {
    const line = piece.trim()
    const [code] = ERROR_CODE.exec(line) ?? []
    const thrown = classify(code === undefined ? line : Object.assign(new Error(line), { code }), { boundary })
    const fault = thrown.category === 'other' ? responseIn(line, boundary) : thrown
    if (fault !== undefined) return { report: fault.report, by: 'an error' }
  }
  return undefined
}

const ERROR_CODE =
  /\b(?:E[A-Z]{3,}(?:_[A-Z]+)?|UND_ERR_[A-Z_]+|HPE_[A-Z_]+|ERR_[A-Z_0-9]+|CERT_[A-Z_]+|[A-Z_]*SELF_SIGNED_CERT[A-Z_]*|UNABLE_TO_[A-Z_]+)\b/

/** Of a model server, also a body without its status: then it has to say more than that the request is wrong. */
function responseIn(line: string, boundary: Boundary): Fault | undefined {
  const status = STATUS.exec(line)
    ?.slice(1)
    .find((digits) => digits !== undefined)
  if (status === undefined && boundary !== 'model') return undefined
  const response: ResponseEvidence = { status: Number(status ?? 400), body: bodyIn(line) }
  const fault = classify(undefined, { boundary, now: 0, response })
  return status === undefined && fault.category === 'model_bad_request' ? undefined : fault
}

/** At the start of a line a status needs more context: "429 files changed" is not one. */
const STATUS =
  /(?:\bHTTP\/[\d.]+ |\bHTTP |\bstatus(?: code)?[:= ]+|\bError code: )([45]\d\d)\b|^(?:\w*Error: )?([45]\d\d)(?=$|:| status code| [A-Z{])/

/** JSON; or the typed code in another notation, as Python's SDKs print it; or the sentence without what SDKs put before it. */
function bodyIn(line: string): unknown {
  const json = jsonIn(line)
  if (typeof json === 'object') return json
  const [, code] = /'code': '(\w+)'/.exec(line) ?? []
  return code === undefined ? line.replace(SDK_PREFIX, '') : { error: { code, message: line } }
}

/** Error names, then the status. */
const SDK_PREFIX = /^(?:[\w.]*(?:Error|Exception): )*(?:(?:Error code: |HTTP )?[45]\d\d(?:: | - | ))?/
