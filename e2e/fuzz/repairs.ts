/**
 * Random conversations against the repair of requests. The server is strict: it refuses whatever the validator finds, with the message of a real
 * provider. What is sent after that is judged by the validator, too, and by what must never be lost.
 */
import { readFileSync } from 'node:fs'
import { Conversations, RequestRepair } from '@breakfall/model/internal'
import { unboundedShare } from '@breakfall/wire/node'
import { type HistoryApi, problemsIn } from '../../test/kit/valid-history.ts'
import { Dice, type Trace } from './dice.ts'
import { type MadeHistory, makeHistory } from './histories.ts'

export type RepairRun = {
  readonly made: MadeHistory
  readonly end: 'valid' | 'repaired' | 'unrepaired'
  readonly sent: readonly string[]
  /** What must not be. */
  readonly wrong: string | undefined
}

/** Bodies of real refusals. */
export const REFUSALS: readonly {
  readonly status: number
  readonly body: string
  readonly cause: string
  readonly repairable: boolean
  readonly api: string
  readonly provider: string
}[] = readFileSync(new URL('../../fixtures/bad-requests.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as (typeof REFUSALS)[number])

/** As this API's provider wraps its sentence. */
export function refusalOf(api: HistoryApi, message: string): object {
  if (api === 'gemini') return { error: { code: 400, message, status: 'INVALID_ARGUMENT' } }
  if (api === 'anthropic-messages') return { type: 'error', error: { type: 'invalid_request_error', message } }
  return { error: { message, type: 'invalid_request_error', param: null, code: null } }
}

export function problemsOf(api: HistoryApi, body: string): readonly string[] {
  return problemsIn(api, JSON.parse(body) as Record<string, unknown>)
}

/** A valid conversation, and a server that lies about it. */
export function liedTo(made: MadeHistory): RepairRun {
  const problems = problemsOf(made.api, made.body)
  const run = { made, end: 'valid', sent: [made.body] } as const
  if (problems.length > 0) return { ...run, wrong: `the generator made it invalid: ${problems[0]}` }
  for (const { status, body, cause } of REFUSALS) {
    // These are about what only the server can see, or what only some servers refuse.
    if (LIES_ABOUT_THE_UNSEEN.has(cause)) continue
    const repair = repairFor(made.api, made.body)
    if (repair.refused(status, parsedOr(body)))
      return { ...run, sent: [made.body, textOf(repair)], wrong: `it was changed because of: ${body}` }
  }
  return { ...run, wrong: undefined }
}

export function mended(made: MadeHistory, dice: Dice): RepairRun {
  const { api } = made
  const conversations = new Conversations(() => 1)
  const repair = repairFor(api, made.body, conversations)
  const sent = [made.body]
  for (;;) {
    const body = sent.at(-1) ?? ''
    const problems = problemsOf(api, body)
    if (problems.length === 0) break
    if (sent.length > 4) return { made, end: 'unrepaired', sent, wrong: 'more than three repairs' }
    const message = problems[dice.int(`problem ${sent.length}`, problems.length)] ?? ''
    if (!repair.refused(400, refusalOf(api, message))) return { made, end: 'unrepaired', sent, wrong: undefined }
    sent.push(textOf(repair))
  }
  repair.taken()
  const last = sent.at(-1) ?? ''
  const run = { made, end: sent.length === 1 ? 'valid' : 'repaired', sent } as const
  if (sent.length === 1) return { ...run, wrong: undefined }
  return { ...run, wrong: lossIn(made, last) ?? unstable(made, last, conversations) }
}

/** Seeds with an even number are valid conversations, the others are broken. */
export function runHistory(seed: number, only?: HistoryApi, trace?: Trace): RepairRun {
  const isBroken = seed % 2 === 1
  const made = makeHistory(seed, isBroken, only, trace)
  return isBroken ? mended(made, new Dice(seed, trace).in('server')) : liedTo(made)
}

/** The same wrong in as small a conversation as it can be. */
export function shrunkHistory(seed: number, only?: HistoryApi): RepairRun {
  const zeros = new Set<string>()
  const again = (): { readonly run: RepairRun; readonly drawn: ReadonlyMap<string, number> } => {
    const trace = { zeros, fixed: new Map(), drawn: new Map<string, number>() }
    return { run: runHistory(seed, only, trace), drawn: trace.drawn }
  }
  const kind = again().run.wrong?.slice(0, 20)
  for (let size = Number.POSITIVE_INFINITY; again().drawn.size < size;) {
    const { drawn } = again()
    size = drawn.size
    const paths = [...drawn.keys()].flatMap((path) =>
      path.split('/').map((_, at, names) => names.slice(0, at + 1).join('/')),
    )
    for (const path of new Set(paths.filter((one) => one !== ''))) {
      zeros.add(path)
      if (again().run.wrong?.slice(0, 20) !== kind) zeros.delete(path)
    }
  }
  return again().run
}

export const toldRun = ({ made, sent, end, wrong }: RepairRun): string =>
  [`${made.api}: ${wrong ?? end}`, `broken by: ${made.breaks.join(', ')}`, ...sent].join('\n')

// ---- details ----

const LIES_ABOUT_THE_UNSEEN: ReadonlySet<string> = new Set([
  'call_id_malformed',
  'thinking_altered',
  'thinking_unverifiable',
  'thinking_unbound',
  'thinking_missing',
  'reasoning_undecryptable',
  'thought_signature_invalid',
])

/** What every server of the API refuses. */
const STRICT: ReadonlySet<string> = new Set([
  'call_without_result',
  'result_without_call',
  'result_duplicate',
  'result_misplaced',
  'call_duplicate',
  'call_misplaced',
  'cache_marks_too_many',
])

const repairFor = (api: HistoryApi, body: string, conversations = new Conversations(() => 1)): RequestRepair =>
  new RequestRepair([Buffer.from(body)], { api, key: 'k', conversations, memory: unboundedShare() })

const textOf = (repair: RequestRepair): string => Buffer.concat(repair.body).toString()

function parsedOr(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Arguments as the body has them: as JSON, or as JSON in a string. */
const written = (text: string): readonly string[] => [text, JSON.stringify(text).slice(1, -1)]
const has = (body: string, text: string): boolean => written(text).some((one) => body.includes(one))
const UNKNOWN = 'This call was interrupted.'

/** What the user wrote stays, and arguments and results keep their bytes or go as a whole. */
export function lossIn({ api, body, users, inputs, results }: MadeHistory, sent: string): string | undefined {
  // Without ids, Gemini's results belong to calls by name; and what is not next to its call belongs to it only if the id is there once.
  const hasIds = api === 'gemini' ? !/"functionResponse":\s*\{\s*"name"/.test(body) : !body.includes('"call_0"')
  for (const text of users) if (has(body, text) && !has(sent, text)) return `a text of the user is lost: ${text}`
  for (const text of [...inputs, ...results]) {
    const tag = /\w+#\d+#/.exec(text)?.[0] ?? text
    if (sent.includes(tag) && !has(sent, text)) return `it was changed: ${text}`
    if (sent.split(tag).length > body.split(tag).length) return `it is there more often: ${text}`
  }
  for (const [at, text] of results.entries()) {
    const call = /\w+#\d+#/.exec(inputs[at] ?? '')?.[0] ?? ''
    const isOnce = sent.split(call).length === 2 // a call that is there twice may have had either result
    if (hasIds && isOnce && has(body, text) && !has(sent, text))
      return `a result is lost though its call is there: ${text}`
  }
  const calls = inputs.filter((text) => has(sent, text)).length
  const known = results.filter((text) => has(sent, text)).length
  const unknown = sent.split(UNKNOWN).length - 1
  // A call that is there twice may have two.
  if (unknown > 0 && unknown + known > calls * 3) return `${unknown} unknown results for ${calls} calls, ${known} known`
  return undefined
}

/** Repaired again, it stays; and the next request of the conversation gets the same beginning without a refusal. */
function unstable({ api, body }: MadeHistory, sent: string, conversations: Conversations): string | undefined {
  for (const { body: text, cause } of REFUSALS)
    if (STRICT.has(cause) && repairFor(api, sent).refused(400, parsedOr(text)))
      return 'a repaired request is repaired again'
  if (textOf(repairFor(api, body, conversations)) !== sent) return 'the same request is not repaired from memory'
  const next = withMore(api, body)
  if (next === undefined) return undefined
  const known = textOf(repairFor(api, next, conversations))
  if (problemsOf(api, known).length > 0) return `the next request, repaired from memory: ${problemsOf(api, known)[0]}`
  const again = repairFor(api, next)
  const [problem] = problemsOf(api, next)
  if (problem === undefined || !again.refused(400, refusalOf(api, problem))) return undefined
  return textOf(again) === known ? undefined : 'the next request is repaired in another way than from memory'
}

/** The same conversation, one question later. */
function withMore(api: HistoryApi, body: string): string | undefined {
  const list = {
    'anthropic-messages': 'messages',
    'openai-chat': 'messages',
    'openai-responses': 'input',
    gemini: 'contents',
  }[api]
  const of = (role: string, text: string): object =>
    api === 'gemini' ? { role: role === 'assistant' ? 'model' : role, parts: [{ text }] } : { role, content: text }
  const elements = (JSON.parse(body) as Record<string, unknown[]>)[list] ?? []
  const last = elements.at(-1) as { role?: string } | undefined
  if (last?.role === 'assistant' || last?.role === 'model') return undefined // no agent sends that
  const more = [of('assistant', 'yes'), of('user', 'more')]
  const end = listEnd(body, list)
  return `${body.slice(0, end)},${more.map((one) => JSON.stringify(one)).join(',')}${body.slice(end)}`
}

/** Behind the last element of the list. */
function listEnd(body: string, list: string): number {
  let [depth, isInString] = [0, false]
  for (let at = body.indexOf('[', body.indexOf(`"${list}"`)), end = at; at < body.length; at++) {
    const char = body[at] ?? ''
    if (isInString) {
      if (char === '\\') at++
      else if (char === '"') [isInString, end] = [false, at + 1]
      continue
    }
    if (char === '"') isInString = true
    else if ('[{'.includes(char)) depth++
    else if (']}'.includes(char) && --depth === 0) return end
    if (!/\s/.test(char)) end = at + 1
  }
  throw new Error('the list has no end')
}
