/** `breakfall explain`: give it an error, a log, an exit code, a category or a turn's id; it tells category, cause, evidence, what to do. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { type Boundary, exitCodeOf, Fault, type FaultReport, isFault, isFaultCategory } from '@breakfall/faults'
import type { Turn } from '@breakfall/wire'
import { explain, type Explanation } from '../explain/explain.ts'
import { isWholeId, wholeId } from '../sessions/ids.ts'
import type { Viewer } from '../sessions/offline.ts'
import type { Output } from '../render/output.ts'
import { faultPage } from '../render/fault-page.ts'
import { takeUp } from '../render/waits.ts'

/** Enough for any error; of a longer log the end counts. */
const INPUT_BYTES_MAX = 64 * 1024 * 1024

export type ExplainInput = {
  /** A file, `-`, an id of a turn, or the text itself. */
  readonly given: string | undefined
  readonly boundary: Boundary
  /** Where turns are looked up. */
  readonly viewer: () => Promise<Viewer>
}

export async function explainCommand(input: ExplainInput, out: Output): Promise<void> {
  const explanation = await explanationFor(input)
  if (out.json) out.result(explanation.report) // one line: the report is the result
  else for (const line of linesOf(explanation, out.style.bind(out))) out.line(line)
}

/** For people. Pure but for the look whether the category's page is there. */
export function linesOf({ report, by }: Explanation, style: Output['style']): readonly string[] {
  const { category, error, errorRaw, phase } = report
  if (by === 'a turn without a fault' || by === 'one of our exit codes' || by === 'one of our words')
    return [style('bold', error)]
  if (by === 'nothing known')
    return errorRaw === '' || error.startsWith(errorRaw)
      ? [style('bold', error)]
      : [style('bold', error), '', rawLine(errorRaw)]
  const lines = [
    style('bold', error),
    '',
    `category   ${category} (${report.class}, at the ${report.boundary}${phase === undefined ? '' : `, phase ${phase}`})`,
    `what next  ${NEXT_WORDS[report.next]}`,
  ]
  // Of an exit code it is said above what it means; a second code beside it would only confuse.
  if (by !== 'an exit status')
    lines.push(`exit code  a breakfall command that fails so exits with ${exitCodeOf(report)}`)
  if (errorRaw !== error && category !== 'cancelled') lines.push(rawLine(errorRaw))
  for (const { id, rank, message, advice, evidence, count } of report.diagnostics) {
    const times = count > 1 ? ` ×${count}` : ''
    lines.push('', `${style(rank === 'cause' ? 'red' : 'yellow', rank)}  ${message}  ${style('dim', id + times)}`)
    if (advice !== '' && !error.includes(advice)) lines.push(`  do        ${advice}`)
    for (const line of evidence.slice(0, 3)) lines.push(style('dim', `  evidence  ${line.slice(0, 300)}`))
  }
  if (category !== 'other') lines.push(style('dim', `\nmore: ${faultPage(category)}`))
  return lines
}

// ---- details, in the order they are used above ----

const rawLine = (text: string): string => `raw        ${text.split('\n').slice(0, 6).join('\n           ')}`

async function explanationFor({ given, boundary, viewer }: ExplainInput): Promise<Explanation> {
  const id = given === undefined ? undefined : await idOf(given, viewer)
  if (id !== undefined) return explanationOfTurn(await turnOrLastOf(await viewer(), id))
  const text = await textOf(given)
  // Somebody who pipes nothing in has been answered: nothing is known. Somebody who says nothing has to be told how.
  if (text.trim() === '' && (given === undefined || given.trim() === ''))
    throw new Fault('invalid_request', { error: `nothing to explain; ${USAGE}` })
  const explanation = explain(text, boundary)
  if (given !== undefined && explanation.by === 'nothing known' && isLikePath(given))
    throw new Fault('invalid_request', { error: `there is no file ${given} to explain; ${USAGE}` })
  return explanation
}

/** An id, or the beginning of one that is known: the same letters may stand in any error text. */
async function idOf(given: string, viewer: ExplainInput['viewer']): Promise<string | undefined> {
  if (isWholeId(given)) return given
  if (!LIKE_ID.test(given) || existsSync(given)) return undefined
  const looking = await viewer().catch(noWhere)
  const id = looking === undefined ? given : await wholeId(looking, given)
  return id === given ? undefined : id
}

/** Where nothing can be looked up, it is taken for a text. */
const noWhere = (): undefined => undefined

/** Six characters at least: fewer are an exit code, a status, a word. */
const LIKE_ID = /^[0-9a-f]{6,8}(?:-[0-9a-f-]*)?$/

const isLikePath = (given: string): boolean =>
  /^[^\s"'{}]*(?:\/|\.(?:log|txt|json|out|err))$|^\.{0,2}\/\S+$/.test(given)

async function explanationOfTurn(turn: Turn): Promise<Explanation> {
  const { id, state, fault, parked } = turn
  if (fault !== null) return { report: fault as FaultReport, by: 'a fault report' }
  if (parked !== null && isFaultCategory(parked.category))
    return { report: new Fault(parked.category).report, by: 'a fault report' }
  const { isHalted } = await import('./sessions.ts')
  const error = isHalted(state, turn)
    ? `turn ${id} was ${state} when its daemon ended, and nobody runs it now; ${takeUp(turn.sessionId)}`
    : `turn ${id} is ${state}; it has no fault to explain`
  return { report: new Fault('other', { error }).report, by: 'a turn without a fault' }
}

/** A session's id stands for its last turn. */
async function turnOrLastOf(viewer: Viewer, id: string): Promise<Turn> {
  const { lastTurnId } = await import('./sessions.ts')
  try {
    return await viewer.turn(id)
  } catch (error) {
    if (!isFault(error) || error.category !== 'not_found') throw error
    const session = (await viewer.sessions()).find((entry) => entry.id === id)
    const turnId = session === undefined ? undefined : await lastTurnId(viewer, session)
    if (turnId === undefined)
      throw new Fault('not_found', {
        error: `there is no turn ${id}, and no session of that id with a turn`,
        cause: error,
      })
    return viewer.turn(turnId)
  }
}

const USAGE =
  'give an error text, an exit code, a category, a file or a turn, or pipe a log in: some-command 2>&1 | breakfall explain -'

async function textOf(given: string | undefined): Promise<string> {
  if (given !== undefined && given !== '-')
    return existsSync(given) && statSync(given).isFile() ? endOfFile(given) : given
  if (process.stdin.isTTY) return ''
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    length += chunk.length
    while (length - (chunks[0]?.length ?? 0) > INPUT_BYTES_MAX) length -= chunks.shift()?.length ?? 0
  }
  return Buffer.concat(chunks).toString('utf8')
}

function endOfFile(path: string): string {
  const bytes = readFileSync(path)
  return bytes.subarray(Math.max(0, bytes.length - INPUT_BYTES_MAX)).toString('utf8')
}

const NEXT_WORDS: Readonly<Record<FaultReport['next'], string>> = {
  never: 'nothing is tried again by itself',
  retry: 'tried again, after a growing wait',
  resolve: 'the address is looked up again, then the call goes there',
  restart: 'the process is restarted, after a growing wait',
  compact: 'the conversation is shortened once',
  park: 'the turn waits, durably, until it can go on',
}
