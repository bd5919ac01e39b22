/** `breakfall trial -- COMMAND`: runs an agent once per fault against a scripted model, and prints a score card. */
import { randomInt } from 'node:crypto'
import type * as Chaos from '@breakfall/chaos'
import { EXIT_CODES, Fault, isFault } from '@breakfall/faults'
import type { Hold } from '@breakfall/model/names'
import type { Context } from '../context.ts'
import { onSignal } from '../process/signals.ts'
import type { Output } from '../render/output.ts'
import { type Cell, cardRows, meaningOf, scoreOf, STYLES, verdictName } from '../trial/card.ts'
import { type CellRun, columnsOf, runCell } from '../trial/cell.ts'
import { isMet, readRequirement } from '../trial/require.ts'

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
  const plans = chaos.trialPlans(options.faults?.split(',').filter((name) => name !== '') ?? chaos.TRIAL_FAULTS, seed)
  const columns = columnsOf(options)
  const cancelled = new AbortController()
  using _handler = onSignal(() => cancelled.abort())
  const settings = { command, msMax: options.timeoutMs, signal: cancelled.signal }

  out.say(out.styleErr('dim', `seed ${seed}; first a run without faults: ${command.join(' ')}`))
  const [direct = { name: 'direct', gateway: false }] = columns
  const calm = await runCell(chaos, { ...settings, column: direct }).catch((error: unknown) => {
    throw isFault(error) && error.category === 'process_start_failed' ? cannotStart(command, error) : error
  })
  if (cancelled.signal.aborted) return EXIT_CODES.cancelled
  const { mode } = calm.seen
  const baseline = baselineFrom(chaos, calm)
  if (mode === 'text')
    out.say(out.styleErr('yellow', 'The agent offered no tool that runs commands, so only its text is judged.'))

  const cells: Cell[] = []
  const skipped: { fault: string; through: string }[] = []
  for (const { fault, plan } of plans) {
    for (const column of columns) {
      const { run, seen, ms } = await runCell(chaos, { ...settings, column, plan, mode })
      if (cancelled.signal.aborted) return EXIT_CODES.cancelled
      if (!seen.isHit && run.end.kind === 'exit' && run.end.code === 0) {
        skipped.push({ fault, through: column.name })
        out.say(out.styleErr('dim', `${column.name}: ${fault} does not apply to this API`))
        continue
      }
      const { verdict, why } = chaos.verdictOf(run, baseline)
      const cell = { fault, through: column.name, dialect: seen.dialect, verdict, why, requests: seen.requests, ms }
      cells.push(cell)
      if (out.json) out.data({ event: 'cell', ...cell })
      else
        out.say(`${out.styleErr(STYLES[verdict], verdictName(verdict).padEnd(11))} ${column.name}: ${meaningOf(fault)}`)
    }
  }
  const last = columns.at(-1)?.name ?? 'direct'
  const score = scoreOf(cells, last)
  const isPassed = requirement === undefined || isMet(requirement, score)
  const scores = Object.fromEntries(columns.map(({ name }) => [name, scoreOf(cells, name)]))
  if (out.json) out.result({ outcome: isPassed ? 'finished' : 'failed', seed, mode, cells, skipped, score, scores })
  else
    printCard(
      out,
      plans.map((plan) => plan.fault),
      columns.map((column) => column.name),
      cells,
    )
  if (!isPassed)
    out.say(
      out.styleErr(
        'red',
        `${score.exact} of ${score.of} runs are exact, which is less than --require ${options.require}.`,
      ),
    )
  return isPassed ? EXIT_CODES.finished : EXIT_CODES.failed
}

// ---- details ----

function cannotStart([name = '']: readonly string[], cause: Fault): Fault {
  const why = cause.report.diagnostics[0]?.message ?? 'it exited at once'
  const error = `Cannot start ${name}: ${why}. Give the command to try after "--".`
  return new Fault('invalid_request', { error, errorRaw: error, cause })
}

/** A trial compares: what the agent cannot do without faults, it cannot be judged for. */
function baselineFrom(chaos: typeof Chaos, { run, seen }: CellRun): Chaos.Baseline {
  const baseline = chaos.baselineOf(run)
  const { verdict, why } = chaos.verdictOf(run, baseline)
  const shows = [...baseline.values()].some((count) => count > 0)
  if (verdict === 'exact' && shows) return baseline
  const happened =
    seen.requests === 0
      ? 'The command sent no request to the trial model'
      : verdict === 'exact'
        ? "The command did not print the model's answer"
        : `The command failed without any fault. ${why}`
  throw new Fault('invalid_request', {
    error: `${happened}. Pass the base URL to it with {url} or {origin}, make it print the answer and exit on its own, and try again.`,
    errorRaw: run.output.slice(-2000),
  })
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
}
