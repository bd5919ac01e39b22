/** `breakfall trial -- COMMAND`: runs an agent once per fault against a scripted model, and prints a score card. */
import { randomInt } from 'node:crypto'
import { existsSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import type * as Chaos from '@breakfall/chaos'
import { EXIT_CODES, Fault, isFault } from '@breakfall/faults'
import type { Hold } from '@breakfall/model/names'
import type { Context } from '../../command-line/context.ts'
import { usageFault } from '../../command-line/usage-error.ts'
import { cmd } from '../../process/command-name.ts'
import { onSignal } from '../../process/signals.ts'
import type { Output } from '../../terminal/output.ts'
import {
  cardRows,
  type Cell,
  isMet,
  meaningOf,
  readRequirement,
  type Requirement,
  scoreOf,
  STYLES,
  verdictName,
} from './card.ts'
import { type CellRun, columnsOf, DIRECT, runCell } from './cell.ts'

export type TrialOptions = {
  readonly faults?: string
  readonly seed?: number
  readonly throughGateway?: boolean
  readonly hold?: readonly Hold[]
  readonly require?: string
  readonly timeoutMs: number
}

export async function trialCommand(
  { out }: Context,
  options: TrialOptions,
  command: readonly string[],
): Promise<number> {
  const chaos = await import('@breakfall/chaos')
  const requirement = options.require === undefined ? undefined : readRequirement(options.require)
  const seed = options.seed ?? randomInt(1, 1_000_000)
  const plans = chaos.trialPlans(faultsIn(options.faults) ?? chaos.TRIAL_FAULTS, seed)
  const columns = columnsOf(options)
  const cancelled = new AbortController()
  using _handler = onSignal(() => cancelled.abort())
  const settings = { command: startedFromHere(command), msMax: timeoutOf(options), signal: cancelled.signal }

  out.say(out.styleErr('dim', `seed ${seed}; first a run without faults: ${command.join(' ')}`))
  const calm = await calmRun(chaos, settings)
  if (cancelled.signal.aborted) return cancelledTrial(out, { seed, cells: [] })
  const { mode } = calm.seen
  const baseline = baselineFrom(chaos, calm, command)
  if (mode === 'text')
    out.say(out.styleErr('yellow', 'The agent offered no tool that runs commands, so only its text is judged.'))

  const cells: Cell[] = []
  const skipped: Skipped[] = []
  for (const { fault, plan } of plans) {
    for (const column of columns) {
      const ran = await runCell(chaos, { ...settings, column, plan, mode })
      if (cancelled.signal.aborted) return cancelledTrial(out, { seed, mode, cells, skipped })
      const at = { fault, through: column.name }
      const cell = judgedCell(chaos, ran, baseline, at)
      if (cell === undefined) skipped.push(at)
      else cells.push(cell)
      sayCell(out, cell ?? at)
    }
  }
  const faults = plans.map(({ fault }) => fault)
  return concludeTrial(out, {
    seed,
    mode,
    faults,
    columns: columns.map(({ name }) => name),
    cells,
    skipped,
    requirement,
  })
}

// ---- details, in the order they are used above ----

/** The command runs in another folder, and `./agent.sh` names a program in this one. */
function startedFromHere([program = '', ...args]: readonly string[]): readonly string[] {
  return [program.includes('/') ? resolve(program) : program, ...args]
}

/** Undefined if none are named: then it is the usual ones. */
function faultsIn(list: string | undefined): readonly string[] | undefined {
  if (list === undefined) return undefined
  const faults = new Set(list.split(',').map((name) => name.trim()))
  faults.delete('')
  if (faults.size === 0) throw usageFault('--faults needs at least one fault, such as fin or status:503')
  return [...faults]
}

function timeoutOf({ timeoutMs }: TrialOptions): number {
  if (timeoutMs < 1) throw usageFault(`--timeout-ms must be at least 1, got ${timeoutMs}`)
  return timeoutMs
}

type RunSettings = { readonly command: readonly string[]; readonly msMax: number; readonly signal: AbortSignal }

function calmRun(chaos: typeof Chaos, settings: RunSettings): Promise<CellRun> {
  const { command } = settings
  if (command[0] === '') throw usageFault('The command is empty. Give the command to try after "--".')
  return runCell(chaos, { ...settings, column: DIRECT }).catch((error: unknown) => {
    throw isFault(error) && error.category === 'process_start_failed' ? cannotStart(command, error) : error
  })
}

/** What was judged until then is in the result. */
function cancelledTrial(out: Output, known: object): number {
  if (out.json) out.result({ outcome: 'cancelled', ...known })
  else out.say('cancelled')
  return EXIT_CODES.cancelled
}

/** A fault that cannot be injected into the agent's API. */
type Skipped = Pick<Cell, 'fault' | 'through'>

/** Undefined if the fault never happened. */
function judgedCell(chaos: typeof Chaos, ran: CellRun, baseline: Chaos.Baseline, at: Skipped): Cell | undefined {
  const { run, seen, ms } = ran
  if (!seen.isHit && run.end.kind === 'exit' && run.end.code === 0) return undefined
  const { verdict, why } = chaos.verdictOf(run, baseline)
  return { ...at, dialect: seen.dialect, verdict, why, requests: seen.requests, ms }
}

function sayCell(out: Output, cell: Cell | Skipped): void {
  const { fault, through } = cell
  if (!('verdict' in cell)) out.say(out.styleErr('dim', `${through}: ${fault} does not apply to this API`))
  else if (out.json) out.data({ event: 'cell', ...cell })
  else
    out.say(
      `${out.styleErr(STYLES[cell.verdict], verdictName(cell.verdict).padEnd(11))} ${through}: ${meaningOf(fault)}`,
    )
}

type Trial = {
  readonly seed: number
  readonly mode: Chaos.TrialMode
  readonly faults: readonly string[]
  readonly columns: readonly string[]
  readonly cells: readonly Cell[]
  readonly skipped: readonly Skipped[]
  readonly requirement: Requirement | undefined
}

/** Prints the result, and returns the exit code. The last column has to meet the requirement. */
function concludeTrial(out: Output, { seed, mode, faults, columns, cells, skipped, requirement }: Trial): number {
  const score = scoreOf(cells, columns.at(-1) ?? DIRECT.name)
  const isPassed = requirement === undefined || isMet(requirement, score)
  const scores = Object.fromEntries(columns.map((name) => [name, scoreOf(cells, name)]))
  if (out.json) out.result({ outcome: isPassed ? 'finished' : 'failed', seed, mode, cells, skipped, score, scores })
  else printCard(out, faults, columns, cells)
  if (isPassed) return EXIT_CODES.finished
  const short = `${score.exact} of ${score.of} runs are exact, which is less than --require exact=${requirement.percent}.`
  out.say(out.styleErr('red', short))
  return EXIT_CODES.failed
}

function cannotStart([name = '']: readonly string[], cause: Fault): Fault {
  const why = cause.report.diagnostics[0]?.message ?? 'it exited at once'
  const error = `Cannot start ${name}: ${why}. Give the command to try after "--".`
  return new Fault('invalid_request', { error, errorRaw: error, cause })
}

/** A trial compares: what the agent cannot do without faults, it cannot be judged for. */
function baselineFrom(chaos: typeof Chaos, { run, seen }: CellRun, [, ...args]: readonly string[]): Chaos.Baseline {
  const baseline = chaos.baselineOf(run)
  const { verdict, why } = chaos.verdictOf(run, baseline)
  const shows = [...baseline.values()].some((count) => count > 0)
  if (verdict === 'exact' && shows) return baseline
  const here = args.find((arg) => !isAbsolute(arg) && /\w/.test(arg) && existsSync(arg))
  const error = whyNotJudged(run, { requests: seen.requests, why: verdict === 'exact' ? undefined : why, here })
  throw new Fault('invalid_request', { error, errorRaw: run.output.slice(-2000) })
}

/** Why a run without faults is no baseline, and what helps. `here`: an argument that names a file in the current folder. Pure. */
export function whyNotJudged(
  { end, mode, ledger }: Chaos.AgentRun,
  facts: { readonly requests: number; readonly why: string | undefined; readonly here: string | undefined },
): string {
  const { requests, why, here } = facts
  const where = `It runs in an empty folder${here === undefined ? '; use absolute paths' : `, so ${here} was not there: write ${resolve(here)} instead`}.`
  const hasFailed = end.kind === 'exit' && end.code !== 0
  if (requests === 0 && hasFailed) {
    const how = end.code === null ? 'was killed' : `exited with ${end.code}`
    return `Your command ${how} before it called a model${end.said === '' ? '' : `: ${end.said.replace(/\.$/, '')}`}. ${where}`
  }
  if (requests === 0)
    return `Your command sent no request to the trial model. ${here === undefined ? '' : `${where} `}Pass the base URL to it with {url} or {origin}.`
  if (mode === 'tools' && ledger.length === 0 && end.kind === 'exit' && !hasFailed)
    return 'Your agent called the model but did not run its command. Let it run tools without asking (Claude Code: --dangerously-skip-permissions).'
  if (why === undefined)
    return "Your command did not print the model's answer. Make it print the answer and exit on its own."
  return `Your command failed without any fault. ${why}${here === undefined ? '' : ` ${where}`}`
}

function printCard(out: Output, faults: readonly string[], columns: readonly string[], cells: readonly Cell[]): void {
  const padded = (text: string, i: number): string => (i === columns.length - 1 ? text : text.padEnd(13))
  const width = Math.max(...faults.map((fault) => meaningOf(fault).length)) + 2
  out.line('')
  out.line(out.style('bold', ''.padEnd(width) + columns.map((name, i) => padded(name, i)).join('')))
  for (const { title, verdicts, whys } of cardRows(faults, columns, cells)) {
    const shown = verdicts.map((verdict, i) =>
      verdict === null ? out.style('dim', padded('–', i)) : out.style(STYLES[verdict], padded(verdictName(verdict), i)),
    )
    out.line(title.padEnd(width) + shown.join(''))
    for (const why of whys) out.line(out.style('dim', `  ${why}`))
  }
  out.line('')
  for (const name of columns) {
    const { exact, of } = scoreOf(cells, name)
    out.line(`${name}: ${exact} of ${of} exact`)
  }
  const [only, ...others] = columns.map((name) => scoreOf(cells, name))
  if (others.length > 0 || only === undefined || only.exact === only.of) return
  out.line(out.style('dim', `The same behind the gateway: ${cmd('trial')} --through-gateway -- COMMAND`))
}
