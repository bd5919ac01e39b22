/**
 * `npm run sim`: runs universes and says what broke.
 *
 *   --seed N        one universe; with --count M, the seeds from N on
 *   --seconds S     new seeds for so much time of the processor
 *   --faults F      new seeds until F faults were injected
 *   --plan FILE     a plan, as a failing seed left it
 *   --plans         what broke once, and then the seeds; with --count 0 only that
 *   --trace         the last steps before a rule broke, and the session's journal
 *   --no-shrink     does not shrink a failing plan
 *   --report        ends with one line of JSON, for `--night`
 *
 * SIGINT ends it after the universe that runs.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { REAL } from './host/time.ts'
import type { Report } from './night.ts'
import { type Plan, planIn, planOf } from './plan.ts'
import type { BrokenRule } from './rules/facts.ts'
import { shrink } from './shrink.ts'
import { type Outcome, runUniverse, type UniverseOptions } from './universe.ts'
import type { Quirk } from './world/runner.ts'

const { values: given } = parseArgs({
  options: {
    seed: { type: 'string' },
    count: { type: 'string' },
    seconds: { type: 'string' },
    faults: { type: 'string' },
    plan: { type: 'string' },
    plans: { type: 'boolean', default: false },
    quirk: { type: 'string' },
    trace: { type: 'boolean', default: false },
    log: { type: 'boolean', default: false },
    journal: { type: 'boolean', default: false },
    shrink: { type: 'boolean', default: true },
    hashes: { type: 'boolean', default: false },
    report: { type: 'boolean', default: false },
    'failures-max': { type: 'string', default: '1' },
  },
  allowNegative: true,
})

const TRACE_STEPS = 60
const FAILED = join(import.meta.dirname, 'failed')
const PLANS = join(import.meta.dirname, 'plans')
/** Of this process: a busy machine runs as many universes as an idle one. */
const cpuSeconds = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

const total = { universes: 0, turns: 0, faults: 0, messages: 0, steps: 0, failures: 0 }
const reached = new Map<string, number>()
const failures: { readonly seed: string; readonly message: string }[] = []
const from = cpuSeconds()
void process.stdout // its handle is no universe's
let isInterrupted = false
process.on('SIGINT', () => {
  isInterrupted = true
})

for (const [plan, again] of plans()) {
  if (isInterrupted) break
  const { outcome, trace } = await run(plan)
  total.universes += 1
  total.turns += outcome.turns
  total.faults += outcome.faults
  total.messages += outcome.messages
  total.steps += outcome.steps
  for (const [what, count] of outcome.reached) reached.set(what, (reached.get(what) ?? 0) + count)
  if (given.hashes) print(`${outcome.seed} ${outcome.hash} ${outcome.steps}`)
  if (outcome.broken === undefined) continue
  failures.push({ seed: outcome.seed, message: outcome.broken.message })
  await report(plan, again, outcome, trace)
  total.failures += 1
  if (total.failures >= Number(given['failures-max'])) break
}

const seconds = cpuSeconds() - from
print(
  `${total.universes} universes, ${total.turns} turns, ${total.faults} faults, ${total.messages} broken messages, ${total.steps} steps in ${seconds.toFixed(1)} CPU seconds: ` +
    `${total.failures} failed`,
)
if (given.count !== undefined || given.faults !== undefined)
  print(
    [...reached]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([what, count]) => `${what} ${count}`)
      .join(' · '),
  )
if (given.report) print(JSON.stringify(reportOfAll()))
process.exitCode = total.failures > 0 ? 1 : 0

// ---- details ----

function reportOfAll(): Report {
  const { universes, turns, faults, messages, steps } = total
  const rssMb = Math.round(process.resourceUsage().maxRSS / 1_024)
  return {
    universes,
    turns,
    faults,
    messages,
    steps,
    cpuSeconds: cpuSeconds(),
    rssMb,
    reached: Object.fromEntries(reached),
    failures,
  }
}

/** Each with the options that repeat it. */
function* plans(): Generator<readonly [Plan, string]> {
  const saved = (file: string): readonly [Plan, string] => [planIn(readFileSync(file, 'utf8')), `--plan ${file}`]
  const seeded = (seed: number): readonly [Plan, string] => [planOf(String(seed)), `--seed ${seed}`]
  if (given.plan !== undefined) return yield saved(given.plan)
  if (given.plans) for (const name of readdirSync(PLANS)) yield saved(join(PLANS, name))
  const first = Number(given.seed ?? Math.floor(REAL.random() * 1e9))
  if (given.seconds !== undefined || given.faults !== undefined) {
    const until = from + Number(given.seconds ?? Number.POSITIVE_INFINITY)
    const faultsMax = Number(given.faults ?? Number.POSITIVE_INFINITY)
    const countMax = Number(given.count ?? Number.POSITIVE_INFINITY)
    for (let nr = 0; nr < countMax && cpuSeconds() < until && total.faults < faultsMax; nr += 1)
      yield seeded(first + nr)
    return
  }
  for (let nr = 0; nr < Number(given.count ?? 1); nr += 1) yield seeded(first + nr)
}

async function run(plan: Plan): Promise<{ readonly outcome: Outcome; readonly trace: readonly string[] }> {
  const trace: string[] = []
  const onStep: UniverseOptions['onStep'] = ({ nr, at, process: who, label }) => {
    trace.push(`${nr} ${(at / 1000).toFixed(3)} s  ${who}  ${label}`)
    if (trace.length > 4 * TRACE_STEPS) trace.splice(0, 2 * TRACE_STEPS)
  }
  const outcome = await runUniverse(plan, {
    onStep: given.trace ? onStep : undefined,
    onLog: given.log ? print : undefined,
    onEvent: given.journal ? print : undefined,
    quirk: given.quirk as Quirk | undefined,
  })
  return { outcome, trace: trace.slice(-TRACE_STEPS) }
}

async function report(plan: Plan, again: string, outcome: Outcome, trace: readonly string[]): Promise<void> {
  const { broken, seed, steps } = outcome
  if (broken === undefined) return
  if (given.trace) print(trace.join('\n'))
  print(`seed ${seed}, step ${steps}: ${shortened(broken.message)}`)
  print(`  again: npm run sim -- ${again} --trace`)
  if (!given.shrink || given.plan !== undefined) return
  const tried = async (smaller: Plan): Promise<BrokenRule | undefined> => (await run(smaller)).outcome.broken
  const small = await shrink(plan, broken, tried, outcome.fates)
  mkdirSync(FAILED, { recursive: true })
  const file = join(FAILED, `${seed}.json`)
  writeFileSync(file, `${JSON.stringify(small.plan, null, 2)}\n`)
  const { plan: left } = small
  print(
    `  shrunk in ${small.tries} tries to ${left.daemons} daemons, ${left.sessions.length} sessions, ${left.faults.length} faults: ` +
      `npm run sim -- --plan sim/failed/${seed}.json --trace`,
  )
}

function shortened(message: string): string {
  const lines = message.split('\n').filter((line) => !line.includes('node:internal'))
  return lines.slice(0, 12).join('\n')
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
