/** `breakfall explain`: takes an error, a log, an exit code, a category or a turn's id; prints category, cause, evidence and advice. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import type { SessionViewer } from '@breakfall/client'
import { type Boundary, exitCodeOf, Fault, faultFrom, type FaultReport, isFaultCategory } from '@breakfall/faults'
import type { Turn } from '@breakfall/wire'
import type { Context } from '../../command-line/context.ts'
import { asTyped, cmd } from '../../process/command-name.ts'
import { faultPage } from '../../render/fault-help.ts'
import { howToContinue, isAbandoned } from '../../render/parked.ts'
import { fullId, ifNotFound, isFullId, lastTurnId } from '../../sessions/lookup.ts'
import type { Output } from '../../terminal/output.ts'
import { counted } from '../../text/amounts.ts'
import { explain, type Explanation } from './explanation.ts'

/** Longer inputs are cut to their end. */
const INPUT_BYTES_MAX = 64 * 1024 * 1024

export type ExplainOptions = { readonly boundary?: Boundary }

export type ExplainInput = {
  /** A file, `-`, the id of a turn, or the text itself. */
  readonly input: string | undefined
  /** Undefined: not named, so it is the model's unless the text names another server. */
  readonly boundary?: Boundary | undefined
  /** Where turns are looked up. */
  readonly viewer: () => Promise<SessionViewer>
}

export async function explainCommand(
  context: Context,
  input: string | undefined,
  options: ExplainOptions,
): Promise<void> {
  let viewer: Promise<SessionViewer> | undefined
  const openViewer = async (): Promise<SessionViewer> => {
    const { viewerFor } = await import('../../sessions/viewer.ts')
    return viewerFor(context)
  }
  const request = { input, boundary: options.boundary, viewer: () => (viewer ??= openViewer()) }
  printExplanation(await explanationFor(request), context.out)
}

export function printExplanation(
  explanation: Explanation,
  out: Pick<Output, 'json' | 'result' | 'line' | 'style'>,
): void {
  if (out.json) out.result(explanation.report) // the report is the result
  else for (const line of linesOf(explanation, out.style.bind(out))) out.line(line)
}

/** Pure, except that it checks whether the category's page exists. */
export function linesOf({ report, by }: Explanation, style: Output['style']): readonly string[] {
  const { category, errorRaw, phase } = report
  const error = asTyped(report.error)
  if (by === 'a turn without a fault' || by === 'one of our exit codes' || by === 'one of our terms')
    return [style('bold', error)]
  if (by === 'nothing known' || by === "another program's server")
    return errorRaw === '' || report.error.startsWith(errorRaw)
      ? [style('bold', error)]
      : [style('bold', error), '', rawLine(errorRaw)]
  const lines = [
    style('bold', error),
    '',
    `category   ${category} (${report.class}, at the ${report.boundary}${phase === undefined ? '' : `, phase ${phase}`})`,
    `what next  ${NEXT_STEP_TEXT[report.next]}`,
  ]
  // For an exit status the meaning of the code is above; a second code would confuse.
  if (by !== 'an exit status') lines.push(`exit code  ${exitCodeOf(report)}, if a breakfall command fails this way`)
  if (errorRaw !== report.error && category !== 'cancelled') lines.push(rawLine(errorRaw))
  for (const { id, rank, message, advice, evidence, count } of report.diagnostics) {
    const times = count > 1 ? ` ×${count}` : ''
    lines.push('', `${style(rank === 'cause' ? 'red' : 'yellow', rank)}  ${message}  ${style('dim', id + times)}`)
    if (advice !== '' && !error.includes(advice)) lines.push(`  do        ${advice}`)
    for (const line of evidence.slice(0, 3)) lines.push(style('dim', `  evidence  ${line.slice(0, 300)}`))
  }
  if (category !== 'other') lines.push(style('dim', `\nmore: ${faultPage(category)}`))
  return lines
}

export async function explanationFor({ input, boundary, viewer }: ExplainInput): Promise<Explanation> {
  const id = input === undefined ? undefined : await idIn(input, viewer)
  if (id !== undefined) return explanationOfTurn(await turnOrLastOf(await viewer(), id))
  const text = await readInput(input)
  // Empty piped input has an answer: nothing is known. No input at all is a usage error.
  if (text.trim() === '' && (input === undefined || input.trim() === ''))
    throw new Fault('invalid_request', { error: `Nothing to explain; ${USAGE}` })
  const explanation = explain(text, boundary)
  if (input === undefined || explanation.by !== 'nothing known') return explanation
  if (isFile(input)) return { ...explanation, report: { ...explanation.report, error: noFailureIn(input, text) } }
  if (!looksLikePath(input)) return explanation
  const problem = existsSync(input) ? `${input} is not a file` : `There is no file ${input} to explain`
  throw new Fault('invalid_request', { error: `${problem}; ${USAGE}` })
}

// ---- details, in the order they are used above ----

const rawLine = (text: string): string => `raw        ${text.split('\n').slice(0, 6).join('\n           ')}`

const NEXT_STEP_TEXT: Readonly<Record<FaultReport['next'], string>> = {
  never: 'Breakfall does not retry this',
  retry: 'Breakfall retries, with growing waits',
  resolve: 'Breakfall looks up the address again, then retries',
  restart: 'if Breakfall runs this process, it restarts it with growing waits; otherwise, restart it yourself',
  compact: 'Breakfall shortens the conversation, then retries',
  park: 'Breakfall parks the turn until it can continue',
}

/** An id, or the first characters of a known one: any error text may look like one. */
async function idIn(input: string, viewer: ExplainInput['viewer']): Promise<string | undefined> {
  if (isFullId(input)) return input
  if (!LIKE_ID.test(input) || existsSync(input)) return undefined
  const opened = await viewer().catch(unavailable)
  const id = opened === undefined ? input : await fullId(opened, input)
  return id === input ? undefined : id
}

/** Without sessions to look it up in, it is a text. */
const unavailable = (): undefined => undefined

/** At least six characters: anything shorter is an exit code, a status or a word. */
const LIKE_ID = /^[0-9a-f]{6,8}(?:-[0-9a-f-]*)?$/

const isFile = (input: string): boolean => statSync(input, { throwIfNoEntry: false })?.isFile() === true

function noFailureIn(file: string, text: string): string {
  const lines = text === '' ? 0 : text.replace(/\n$/, '').split('\n').length
  return `${file} has ${counted(lines, 'line')}; none matches a known failure.`
}

const looksLikePath = (input: string): boolean =>
  /^[^\s"'{}]*(?:\/|\.(?:log|txt|json|out|err))$|^\.{0,2}\/\S+$/.test(input)

function explanationOfTurn(turn: Turn): Explanation {
  const { id, state, fault, parked } = turn
  if (fault !== null) return { report: faultFrom(fault).report, by: 'a fault report' }
  if (parked !== null && isFaultCategory(parked.category))
    return { report: new Fault(parked.category).report, by: 'a fault report' }
  const error = isAbandoned(turn)
    ? `Turn ${id} was ${state} when its daemon ended, and no daemon is working on it now; ${howToContinue(turn.sessionId)}`
    : `Turn ${id} is ${state}; it has no fault to explain`
  return { report: new Fault('other', { error }).report, by: 'a turn without a fault' }
}

/** A session's id stands for its last turn. */
async function turnOrLastOf(viewer: SessionViewer, id: string): Promise<Turn> {
  const turn = await viewer.turn(id).catch(ifNotFound)
  if (turn !== undefined) return turn
  const session = await viewer.session(id).catch(ifNotFound)
  const turnId = session === undefined ? undefined : lastTurnId(session)
  if (turnId === undefined)
    throw new Fault('not_found', { error: `There is no turn ${id}, and no session with that id that has a turn` })
  return viewer.turn(turnId)
}

const USAGE = `give an error text, an exit code, a category, a file or a turn, or pipe a log in: some-command 2>&1 | ${cmd('explain')} -`

async function readInput(input: string | undefined): Promise<string> {
  if (input !== undefined && input !== '-') return isFile(input) ? endOfFile(input) : input
  if (process.stdin.isTTY) return ''
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of process.stdin) {
    const piece = Buffer.from(chunk)
    chunks.push(piece)
    length += piece.length
    while (length - (chunks[0]?.length ?? 0) > INPUT_BYTES_MAX) length -= chunks.shift()?.length ?? 0
  }
  return Buffer.concat(chunks).toString('utf8')
}

function endOfFile(path: string): string {
  const bytes = readFileSync(path)
  return bytes.subarray(Math.max(0, bytes.length - INPUT_BYTES_MAX)).toString('utf8')
}
