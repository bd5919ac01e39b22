/** What the runner costs: an exec against a plain spawn of the same command, output against a plain pipe, many at once, idle boxes. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { barPlot, quantile, report, round, table } from './kit.ts'
import { checkpointTrips } from './checkpoint-trips.ts'
import { rawSandboxes } from './raw-sandboxes.ts'
import { sandboxTrips } from './sandbox-trips.ts'

const ROUNDS = 200
const OUTPUT_BYTES = 300_000_000
const OUTPUT_ROUNDS = 5
const SHORT = 4_000
const PARALLEL = 500
const IDLE_BOXES = 300
const FIRST_BOXES = 40
const GOAL = { ratio: 1.5, extraMs: 2, throughput: 0.5 }

type Runner = { readonly url: string; readonly token: string; readonly child: ChildProcess }

const folder = mkdtempSync(join(tmpdir(), 'breakfall-bench-'))
const main = fileURLToPath(new URL('../packages/runner/src/main.ts', import.meta.url))

async function start(level: 'bwrap' | 'process'): Promise<Runner> {
  const stateDir = join(folder, level)
  const flags = [
    '--json',
    '--state-dir',
    stateDir,
    '--token-file',
    join(stateDir, 'token'),
    '--allow-isolation',
    'process',
    '--isolation',
    level,
  ]
  const child = spawn(process.execPath, [main, ...flags], { stdio: ['ignore', 'pipe', 'inherit'] })
  const line = await new Promise<string>((resolve) => createInterface({ input: child.stdout }).once('line', resolve))
  const { url } = JSON.parse(line) as { url: string }
  return { url, token: readFileSync(join(stateDir, 'token'), 'utf8').trim(), child }
}

async function call(
  runner: Runner,
  method: string,
  path: string,
  body?: unknown,
  accept = 'application/json',
): Promise<string> {
  const response = await fetch(runner.url + path, {
    method,
    headers: { authorization: `Bearer ${runner.token}`, 'content-type': 'application/json', accept },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text
}

const box = (runner: Runner, create: object): Promise<string> => call(runner, 'POST', '/v1/default/boxes', create)
const exec = (runner: Runner, id: string, request: object): Promise<string> =>
  call(runner, 'POST', `/v1/default/boxes/${id}/exec`, request, 'text/event-stream')

function plain(command: readonly string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    let bytes = 0
    const child = spawn(command[0] ?? '', command.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] })
    child.stdout.on('data', (chunk: Buffer) => (bytes += chunk.length))
    child.once('error', reject)
    child.once('close', () => resolve(bytes))
  })
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now()
  await work()
  return performance.now() - from
}

async function roundTrips(
  runners: Record<'process' | 'bwrap', Runner>,
): Promise<Record<'plain' | 'process' | 'bwrap', number[]>> {
  const samples = { plain: [] as number[], process: [] as number[], bwrap: [] as number[] }
  const work = {
    plain: () => plain(['true']),
    process: () => exec(runners.process, 'b1', { command: ['true'] }),
    bwrap: () => exec(runners.bwrap, 'b1', { command: ['true'] }),
  }
  for (let i = 0; i < ROUNDS + 20; i += 1) {
    for (const name of ['plain', 'process', 'bwrap'] as const) {
      const ms = await timed(work[name])
      if (i >= 20) samples[name].push(ms)
    }
  }
  return samples
}

/** The first exec of a box: no keeper waits there yet. */
async function firstTrips(runner: Runner): Promise<number[]> {
  const samples: number[] = []
  for (let i = 0; i < FIRST_BOXES; i += 1) {
    await box(runner, { id: `first${i}` })
    samples.push(await timed(() => exec(runner, `first${i}`, { command: ['true'] })))
    await call(runner, 'DELETE', `/v1/default/boxes/first${i}`)
  }
  return samples
}

async function throughput(runner: Runner): Promise<{ plain: number; runner: number }> {
  const command = ['head', '-c', String(OUTPUT_BYTES), '/dev/zero']
  const samples = { plain: [] as number[], runner: [] as number[] }
  for (let i = 0; i <= OUTPUT_ROUNDS; i += 1) {
    const plainMs = await timed(() => plain(command))
    const execId = `out${i}`
    const runnerMs = await timed(async () => {
      await call(runner, 'POST', '/v1/default/boxes/b1/exec', { execId, command, outputBytesMax: OUTPUT_BYTES })
      await call(runner, 'GET', `/v1/default/boxes/b1/execs/${execId}/wait`)
    })
    if (i === 0) continue // warm-up
    samples.plain.push(OUTPUT_BYTES / 1e3 / plainMs)
    samples.runner.push(OUTPUT_BYTES / 1e3 / runnerMs)
  }
  return { plain: quantile(samples.plain, 0.5), runner: quantile(samples.runner, 0.5) }
}

type Short = { readonly lost: string; readonly perSecond: number; readonly bytesEach: number }

async function shortExecs(runner: Runner): Promise<Short> {
  const before = await resident(runner)
  let next = 0
  const lost: string[] = []
  const worker = async (): Promise<void> => {
    while (next < SHORT) {
      const i = (next += 1)
      const text = await exec(runner, 'b1', { execId: `s${i}`, command: ['echo', `line ${i}`] })
      if (!text.includes(`"data":"line ${i}\\n"`) || text.indexOf('event: exit') < text.indexOf('event: stdout'))
        lost.push(/"cause":"\w+"(?:[^}]*"reason":"\w+")?/.exec(text)?.[0] ?? 'no exit')
    }
  }
  const ms = await timed(() => Promise.all(Array.from({ length: 20 }, worker)))
  const why = lost.length === 0 ? '' : ` (${[...new Set(lost)].join('; ')})`
  const bytesEach = ((await resident(runner)) - before) / SHORT
  return { lost: `${lost.length} lost${why}`, perSecond: (SHORT / ms) * 1000, bytesEach }
}

async function manyAtOnce(runner: Runner): Promise<{ ms: number; healthMs: number[] }> {
  await box(runner, { id: 'many', limits: { execsMax: PARALLEL } })
  const healthMs: number[] = []
  let isDone = false
  const asking = (async () => {
    while (!isDone) healthMs.push(await timed(() => call(runner, 'GET', '/v1/health')))
  })()
  const ms = await timed(() =>
    Promise.all(Array.from({ length: PARALLEL }, (_, i) => exec(runner, 'many', { command: ['echo', String(i)] }))),
  )
  isDone = true
  await asking
  return { ms, healthMs }
}

const resident = async (runner: Runner): Promise<number> =>
  Number(/^breakfall_runner_resident_bytes (\d+)/m.exec(await call(runner, 'GET', '/metrics'))?.[1])

async function idleBoxes(runner: Runner): Promise<number> {
  await box(runner, { id: 'first' })
  const before = await resident(runner)
  for (let i = 0; i < IDLE_BOXES; i += 1) await box(runner, { id: `idle${i}` })
  return Math.max(0, (await resident(runner)) - before) / IDLE_BOXES
}

/** What is the keeper's alone of the memory it is seen with: the rest is the shell's program, shared by all. */
function keeperBytes(runner: Runner): number {
  const children = readFileSync(`/proc/${runner.child.pid}/task/${runner.child.pid}/children`, 'utf8')
  const sizes = children
    .trim()
    .split(' ')
    .filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('\0keeper\0'))
    .map((pid) => /^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1])
  return quantile(sizes.map(Number), 0.5) * 1024
}

const runners = {
  process: await start('process'),
  bwrap: await start('bwrap'),
}
try {
  for (const runner of Object.values(runners)) await box(runner, { id: 'b1' })
  const trips = await roundTrips(runners)
  const once = (runner: Runner) => () => exec(runner, 'b1', { command: ['true'] })
  await call(runners.bwrap, 'POST', '/v1/default/boxes/b1/exec', { execId: 'living', command: ['sleep', '86400'] })
  const living = join(folder, 'bwrap/boxes/default/b1/execs/living')
  while (!readFileSync(join(living, 'status'), 'latin1').includes('"child-pid"')) await sleep(10)
  const raw = await rawSandboxes(living, folder)
  const paused = await sandboxTrips({
    raw,
    plain: () => plain(['true']),
    process: once(runners.process),
    bwrap: once(runners.bwrap),
  })
  raw.close()
  const keeper = keeperBytes(runners.process)
  const first = await firstTrips(runners.process)
  const output = await throughput(runners.process)
  const short = await shortExecs(runners.process)
  const sandboxed = await shortExecs(runners.bwrap)
  const many = await manyAtOnce(runners.process)
  const checkpoints = await checkpointTrips({
    box: () => box(runners.bwrap, { id: 'large', checkpoints: 'manual' }),
    exec: (command) => exec(runners.bwrap, 'large', { command }),
    checkpoint: () => call(runners.bwrap, 'POST', '/v1/default/boxes/large/checkpoints', {}),
  })
  const idleBytes = await idleBoxes(runners.bwrap)
  const middle = (name: keyof typeof trips): number => quantile(trips[name], 0.5)
  const allowedMs = GOAL.ratio * middle('plain') + GOAL.extraMs
  const text = [
    `## Round trip of \`true\`, in milliseconds\n\nMedian of ${ROUNDS}, in turns. From the request to the last byte of its event stream. The goal is ${GOAL.ratio} times a plain spawn and ${GOAL.extraMs} ms: ${round(allowedMs)} ms here (level process: ${middle('process') <= allowedMs ? 'kept' : 'missed'}). The goal for level bwrap is below.\n`,
    table(
      ['', 'p50', 'p95', 'against a plain spawn'],
      (['plain', 'process', 'bwrap'] as const).map((name) => [
        name === 'plain' ? 'plain spawn' : `exec, level ${name}`,
        round(middle(name)),
        round(quantile(trips[name], 0.95)),
        `${round(middle(name) / middle('plain'))}×`,
      ]),
    ),
    `\nThe sandbox itself costs ${round(middle('bwrap') - middle('process'))} ms an exec.\n`,
    `These run one after another in one box, without a pause. Each reuses what the exec before left: a keeper, already in its control groups, which waits up to a minute for the next exec of its box (${round(keeper / 1024)} KiB of private memory), and named pipes, made in bulk. The first exec of a box, and the first that runs in parallel with another, has to start its keeper: ${round(quantile(first, 0.5))} ms (median of ${FIRST_BOXES}).\n`,
    paused,
    checkpoints,
    `## Output\n\n${OUTPUT_BYTES / 1e6} MB to the end of the exec, kept on disk, against a plain pipe that is only counted: ${round(output.runner)} MB/s against ${round(output.plain)} MB/s, ${round(output.runner / output.plain)}× (goal: at least ${GOAL.throughput}×).\n`,
    `## Many\n\n${SHORT} short execs, 20 at a time: ${short.lost}, ${round(short.perSecond)} a second; at level bwrap ${sandboxed.lost}, ${round(sandboxed.perSecond)} a second. ${PARALLEL} at once: over after ${round(many.ms / 1000)} s; health was asked ${many.healthMs.length} times meanwhile and answered after ${round(quantile(many.healthMs, 0.5))} ms (median), ${round(quantile(many.healthMs, 0.99))} ms (p99), ${round(Math.max(...many.healthMs))} ms (worst).\n`,
    `An idle box costs ${round(idleBytes / 1024)} KiB of resident memory. Over those ${SHORT} execs the runner grew by ${round(short.bytesEach / 1024)} KiB an exec; what stays of one is an index entry of about 0.3 KiB, the rest is room that V8 takes for garbage and keeps.`,
  ].join('\n')
  const svg = barPlot(
    'One exec of `true`, median ms',
    (['plain', 'process', 'bwrap'] as const).map((name) => ({
      name: name === 'plain' ? 'plain spawn' : `exec, level ${name}`,
      value: middle(name),
    })),
    { goal: round(allowedMs), unit: ' ms' },
  )
  report('runner', { title: 'The runner against a plain spawn', text, svg })
} finally {
  for (const runner of Object.values(runners)) {
    for (const { id } of (JSON.parse(await call(runner, 'GET', '/v1/default/boxes')) as { boxes: { id: string }[] })
      .boxes)
      await call(runner, 'DELETE', `/v1/default/boxes/${id}`)
    runner.child.kill('SIGTERM')
    await new Promise((resolve) => runner.child.once('exit', resolve))
  }
  rmSync(folder, { recursive: true, force: true })
}
