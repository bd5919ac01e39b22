/** What a step costs late in a long run, compared with an early step: 300 steps with 20 KB results, with and without a window. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { quantile, report, round, table } from './kit.ts'

const STEPS = 300
const RESULT_BYTES = 20_000
const WINDOW_BYTES = 400_000
const FROM = 50 // by then the code is compiled, and a window of that size has been full once or twice
const SAMPLE = 50
const GOAL = 1.2

type Ended = {
  readonly state: string
  readonly steps: number
  readonly peakBytes: number
  readonly cpuMs: readonly number[]
}
type Run = Ended & { readonly name: string; readonly early: Cost; readonly late: Cost }
type Cost = { readonly cpuMs: number; readonly wallMs: number }

const program = (name: string, args: readonly string[]): ChildProcess =>
  fork(new URL(`./programs/${name}.ts`, import.meta.url), args)

async function said<T>(child: ChildProcess): Promise<T> {
  const [message] = (await once(child, 'message')) as [T]
  return message
}

async function run(name: string, windowBytes: number): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-bench-'))
  const workspace = join(folder, 'work')
  mkdirSync(workspace)
  writeFileSync(join(workspace, 'big'), '0123456789abcde\n'.repeat(RESULT_BYTES / 16))
  const model = program('long-run-model', [String(windowBytes), String(STEPS)])
  const { port } = await said<{ port: number }>(model)
  const timed = said<{ starts: readonly number[] }>(model)
  const daemon = program('long-run-daemon', [join(folder, 'state'), `http://127.0.0.1:${port}/v1`, workspace])
  const [{ starts }, ended] = await Promise.all([timed, said<Ended>(daemon)])
  model.kill()
  rmSync(folder, { recursive: true, force: true })
  const [wallMs, cpuMs] = [starts, ended.cpuMs].map(differences)
  const costOf = (from: number, to?: number): Cost => ({
    cpuMs: quantile(cpuMs?.slice(from, to) ?? [], 0.5),
    wallMs: quantile(wallMs?.slice(from, to) ?? [], 0.5),
  })
  return { name, early: costOf(FROM, FROM + SAMPLE), late: costOf(-SAMPLE), ...ended }
}

const differences = (values: readonly number[]): readonly number[] =>
  values.slice(1).map((value, index) => value - (values[index] ?? value))

const runs = [
  await run(`a window of ${WINDOW_BYTES / 1000} kB`, WINDOW_BYTES),
  await run('no limit (6 MB at the end)', Number.MAX_SAFE_INTEGER),
]
const rows = runs.map(({ name, state, steps, early, late, peakBytes }) => [
  name,
  `${state}, ${steps} steps`,
  `${round(early.cpuMs)} ms`,
  `${round(late.cpuMs)} ms`,
  round(late.cpuMs / early.cpuMs),
  `${round(early.wallMs)} → ${round(late.wallMs)} ms`,
  `${Math.round(peakBytes / 2 ** 20)} MiB`,
])
const head = [
  'model',
  'turn',
  `CPU, steps ${FROM} to ${FROM + SAMPLE}`,
  `CPU, last ${SAMPLE} steps`,
  'ratio',
  'time, with the model',
  'peak memory',
]
const text = `A turn of ${STEPS} steps, each reading ${RESULT_BYTES / 1000} kB. Medians from one request to the next; the daemon has a separate process. Goal: a late step costs at most ${GOAL} times as much as an early step. Without a window the request itself grows to 6 MB and every step sends it; the bytes of a message are made once and sent again, so only the sending itself grows, and it is part of these numbers.\n\n${table(head, rows)}`
report('long-run', { title: 'Cost of a step in a long run', text })
