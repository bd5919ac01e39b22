/**
 * `npm run sim -- --night [--faults F] [--seed N]`: a million faults in two processes. At the end: what was reached and what never was,
 * and what failed, grouped by its rule and the first line of our code. Fails if a rule broke, or if a label was never reached. Ctrl-C
 * ends it early, with a report of what there is.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'

/** What one process did, as the last line of its output says. */
export type Report = {
  readonly universes: number
  readonly turns: number
  readonly faults: number
  readonly messages: number
  readonly steps: number
  readonly cpuSeconds: number
  readonly rssMb: number
  readonly reached: Readonly<Record<string, number>>
  readonly failures: readonly { readonly seed: string; readonly message: string }[]
}

/** A night that never gets here proves less than it says. */
const EXPECTED = [
  'a burned start is refused',
  'a fenced start is refused',
  'a prompt is withdrawn',
  'a quiet minute',
  'a reader that stays',
  'approval',
  'cancel accepted',
  'declined session_busy',
  'delete accepted',
  'ended approval_needed',
  'ended cancelled',
  'ended crash_loop',
  'ended runner_unreachable',
  'outcome cancelled',
  'outcome failed',
  'outcome ok',
  'outcome unknown',
  'parked approval_needed',
  'parked model_overloaded',
  'parked model_quota_exhausted',
  'parked model_rate_limited',
  'parked model_unreachable',
  'parked runner_unreachable',
  'parked shutting_down',
  'part-discarded',
  'resumed',
  'retry',
  'stopped in order',
  'taken-over',
  'turn-queued',
  'unsure cancel',
]
const PROCESSES = 2
/** With more room, Node collects a universe's garbage late. */
const NODE = ['--disable-warning=ExperimentalWarning', '--max-old-space-size=256']
const SEEDS_APART = 1_000_000

const { values: given } = parseArgs({
  options: {
    night: { type: 'boolean' },
    faults: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 1e9)) },
  },
})

const reports = await Promise.all(
  Array.from({ length: PROCESSES }, (_, nr) =>
    reportOf(Number(given.seed) + nr * SEEDS_APART, Math.ceil(Number(given.faults) / PROCESSES)),
  ),
)
const sum = (read: (report: Report) => number): number => reports.reduce((total, report) => total + read(report), 0)
const cpuSeconds = sum((report) => report.cpuSeconds)
const steps = sum((report) => report.steps)
const faults = sum((report) => report.faults)
print(
  `${sum((report) => report.universes)} universes, ${sum((report) => report.turns)} turns, ${faults} faults, ${sum((report) => report.messages)} broken messages, ` +
    `${steps} steps in ${cpuSeconds.toFixed(0)} CPU seconds (${Math.round(faults / cpuSeconds)} faults each), ` +
    `${Math.max(...reports.map((report) => report.rssMb))} MB at most`,
)
const reached = new Map<string, number>()
for (const report of reports)
  for (const [what, count] of Object.entries(report.reached)) reached.set(what, (reached.get(what) ?? 0) + count)
for (const [what, count] of [...reached].toSorted(([a], [b]) => (a < b ? -1 : 1))) print(`  ${what}: ${count}`)
const missing = EXPECTED.filter((what) => !reached.has(what))
if (missing.length > 0) print(`never reached: ${missing.join(', ')}`)
const failures = reports.flatMap((report) => report.failures)
for (const [what, group] of Map.groupBy(failures, ({ message }) => groupOf(message)))
  print(`FAIL ${group.length} × ${what}: npm run sim -- --seed ${group[0]?.seed} --trace`)
process.exitCode = failures.length > 0 || missing.length > 0 ? 1 : 0

// ---- details ----

async function reportOf(seed: number, faults: number): Promise<Report> {
  const args = ['--seed', `${seed}`, '--faults', `${faults}`, '--no-shrink', '--failures-max', 'Infinity', '--report']
  const program = ['--import', join(import.meta.dirname, 'host/install.ts'), join(import.meta.dirname, 'main.ts')]
  const child = spawn(process.execPath, [...NODE, ...program, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  process.on('SIGINT', () => child.kill('SIGINT'))
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')])
  const line = output.trimEnd().split('\n').at(-1) ?? ''
  if (!line.startsWith('{')) throw new Error(`the process from seed ${seed} on ended without a report: ${line}`)
  const report: Report = JSON.parse(line)
  return report
}

/** The rule, and the first line of our code below it. */
function groupOf(message: string): string {
  const [rule = ''] = message.split(':')
  const frame = /packages\/[^\s:)]+:\d+/.exec(message)?.[0]
  return frame === undefined ? rule : `${rule} at ${frame}`
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
