/**
 * Which clients survive? Breakfall's library, daemon and gateway and three other packages play the same N-step agent runs against
 * the same model under the same seeded fault plans. Step k of run r meets the same fault at the same attempt, whoever plays it.
 *
 *   node bench/survive.ts [--runs 20] [--steps 50] [--rates 0,2,5,10,20,50] [--clients ai,openai] [--seed 1] [--parallel 12] [--verbose]
 */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Injection, startFaultProxy, startRehearsalModel } from '@breakfall/chaos'
import { createStepsTool } from '@breakfall/chaos/internal'
import { linePlot, report, table } from './kit.ts'
import { agents } from './peers/agents.ts'
import { ai } from './peers/ai.ts'
import { breakfall, breakfallQuick } from './peers/breakfall.ts'
import { closeShared, daemon } from './peers/daemon.ts'
import { throughGateway } from './peers/gateway.ts'
import { openai, openaiWithResilientFetch, openaiWithRetry } from './peers/openai.ts'
import { type Player, RETRIES_MAX } from './peers/player.ts'
import { expectedOf, type Verdict, VERDICTS, verdictOf } from './peers/verdict.ts'

/** What is injected, each equally often. A stall lasts longer than a run may take. */
const FAULTS = [
  'reset_before_headers',
  'fin_before_headers',
  'status:503',
  'status:429:retryAfter=100ms',
  'reset',
  'fin',
  'early_end',
  'stall:60000',
  'cut_tool_arguments:finish=true',
  'cut_tool_arguments:finish=false',
  'malformed_line',
  'in_band_error',
]
/** Those that every package retries. */
const BEFORE_CONTENT: ReadonlySet<string> = new Set(['reset_before_headers', 'fin_before_headers', 'status'])
const IDLE_MS_MAX = 20_000 // no request and no byte for this long: a hang. Longer than any client's usual wait between attempts.
const RUNS = 20
const RUN_MS_MAX = 300_000
const RATE_MAX = 20 // up to here every row of ours must be exact in every run; beyond it, only those of the daemon
const SLOWER_MAX = 4 // how much longer the daemon's median run may take at the highest rate than at RATE_MAX

type Result = {
  readonly client: string
  readonly rate: number
  readonly run: number
  readonly verdict: Verdict
  readonly why: string
  readonly faults: number
  readonly ms: number
}

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: String(RUNS) },
    steps: { type: 'string', default: '50' },
    rates: { type: 'string', default: '0,2,5,10,20,50' },
    clients: { type: 'string', default: '' },
    seed: { type: 'string', default: '1' },
    parallel: { type: 'string', default: '12' }, // the runs mostly wait: for backoffs, and for stalls to time out
    verbose: { type: 'boolean', default: false },
  },
})
const [runs, steps, seed] = [Number(values.runs), Number(values.steps), Number(values.seed)]
const rates = values.rates.split(',').map(Number)
const alone = [openai, openaiWithRetry, ai, agents].filter(isWanted)
const ours = [
  daemon,
  breakfall,
  breakfallQuick,
  openaiWithResilientFetch,
  ...[openai, ai, agents].map(throughGateway),
].filter(isWanted)
const players = [...ours, ...alone]
const modelName = `rehearsal/steps-${steps}`
const expected = expectedOf(modelName, 'go')

// The agents package prints errors of runs that were abandoned; they are counted already.
process.on('unhandledRejection', () => {})

const model = await startRehearsalModel()
const startedAt = performance.now()
const results = await inParallel(
  rates.flatMap((rate) =>
    Array.from({ length: runs }, (_, run) =>
      players.filter((player) => plays(player, rate)).map((player) => () => playOne(player, rate, run)),
    ).flat(),
  ),
)
await model.close()
await closeShared()
publish(results, performance.now() - startedAt)
process.exit(process.exitCode ?? 0) // timers of clients that hang would keep the process alive

// ---- details ----

function isWanted({ name }: Player): boolean {
  return values.clients === '' || values.clients.split(',').some((wanted) => name.includes(wanted))
}

/** Beyond the usual rates, only the daemon and the library take part: nothing else is built for them. */
function plays({ drives }: Player, rate: number): boolean {
  return rate <= RATE_MAX || drives === 'daemon' || drives === 'library'
}

async function playOne(player: Player, rate: number, run: number): Promise<Result> {
  const leave = new AbortController()
  let lastAt = performance.now()
  const proxy = await startFaultProxy({
    upstream: model.url,
    plan: `seed=${seed * 1_000 + run},rate=${rate / 100},method=POST,faults=${FAULTS.join('+')}`,
    onEvent: () => {
      lastAt = performance.now()
    },
  })
  const tool = createStepsTool()
  const bash = (command: string): string => {
    lastAt = performance.now()
    return tool.bash(command)
  }
  const begunAt = performance.now()
  const hang = new Promise<'hang'>((resolve) => {
    const timer = setInterval(() => {
      const now = performance.now()
      if (now - lastAt < IDLE_MS_MAX && now - begunAt < RUN_MS_MAX && !leave.signal.aborted) return
      clearInterval(timer)
      resolve('hang')
    }, 250)
  })
  const playing = player
    .play({ baseUrl: proxy.url, model: modelName, prompt: 'go', stepsMax: steps + 10, bash, signal: leave.signal })
    .then(
      ({ texts, log = tool.log }): [Verdict, string] => {
        const verdict = verdictOf(expected, texts, log)
        return [verdict, verdict === 'exact' ? '' : lastFault(proxy.injected)]
      },
      (error: unknown): [Verdict, string] => ['error', `${lastFault(proxy.injected)}: ${messageOf(error)}`],
    )
  const ended = await Promise.race([playing, hang])
  const [verdict, why] = ended === 'hang' ? ['hang' as const, lastFault(proxy.injected)] : ended
  const ms = performance.now() - begunAt
  leave.abort()
  await proxy.close()
  const faults = proxy.injected.filter((injection) => injection.outcome === 'injected').length
  if (values.verbose)
    process.stderr.write(
      `${player.name} ${rate}% #${run}: ${verdict} ${why} (${faults} faults, ${(ms / 1_000).toFixed(1)} s)\n`,
    )
  return { client: player.name, rate, run, verdict, why, faults, ms }
}

function lastFault(injected: readonly Injection[]): string {
  return injected.at(-1)?.fault.kind ?? 'no fault'
}

function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, 160)
}

async function inParallel<T>(jobs: readonly (() => Promise<T>)[]): Promise<T[]> {
  const out: T[] = []
  const queue = jobs.entries()
  const worker = async (): Promise<void> => {
    for (const [index, job] of queue) out[index] = await job()
  }
  await Promise.all(Array.from({ length: Number(values.parallel) }, worker))
  return out
}

function publish(all: readonly Result[], ms: number): void {
  const of = (client: string, rate: number): Result[] => all.filter((r) => r.client === client && r.rate === rate)
  const share = (client: string, rate: number): number =>
    of(client, rate).filter((result) => result.verdict === 'exact').length / runs
  const cell = (client: string, rate: number): string => {
    if (of(client, rate).length === 0) return '–'
    const exact = of(client, rate).filter(({ verdict }) => verdict === 'exact').length
    return `${Math.round((exact / runs) * 100)} % (${exact}/${runs})`
  }
  const shares = (some: readonly Player[]): string =>
    table(
      ['exact runs (of n) at a fault rate of', 'drives', ...rates.map((rate) => `${rate} %`)],
      some.map(({ name, drives }) => [name, drives, ...rates.map((rate) => cell(name, rate))]),
    )
  const medianMs = (client: string, rate: number): number => median(of(client, rate).map(({ ms }) => ms))
  const times = table(
    ['median seconds of a run at', 'drives', ...rates.map((rate) => `${rate} %`)],
    ours.map(({ name, drives }) => [
      name,
      drives,
      ...rates.map((rate) => (of(name, rate).length === 0 ? '–' : (medianMs(name, rate) / 1_000).toFixed(1))),
    ]),
  )
  const verdicts = table(
    ['all runs with faults', 'drives', 'n', ...VERDICTS, 'faults met', 'last fault before lost, error or hang'],
    players.map(({ name, drives }) => {
      const theirs = all.filter((result) => result.client === name && result.rate > 0)
      const counts = VERDICTS.map((verdict) => theirs.filter((result) => result.verdict === verdict).length)
      return [
        name,
        drives,
        theirs.length,
        ...counts,
        theirs.reduce((sum, result) => sum + result.faults, 0),
        killers(theirs),
      ]
    }),
  )
  const clients = table(
    ['client', 'version', 'settings beyond its defaults'],
    players.map((player) => [player.name, versionOf(player.package), player.settings]),
  )
  const fewer = runs < RUNS ? `; ${RUNS} is the usual number, and this report was made with fewer to save time` : ''
  const text = `${runs} runs of ${steps} steps per client and rate (seed ${seed}${fewer}); the rate is that of one attempt at one request. The model is the
rehearsal model behind the fault proxy: step k of run r meets the same fault at the same attempt, whoever plays. Injected, each
equally often: ${FAULTS.map((fault) => `\`${fault}\``).join(', ')}. Every client may retry ${RETRIES_MAX} times.
${waits(all)} Took ${Math.round(ms / 1000)} s.

With Breakfall. "drives" says which part of it recovers: the library in the client's process, the daemon with its journal and
tools in real boxes (what \`breakfall run\` uses), or the gateway between an unchanged package and the model.

${shares(ours)}

${times}

The packages alone:

${shares(alone)}

exact: every text once, every tool once and in order. shown twice: nothing is missing and the tools are right, but some text is on
the screen twice. lost: it ended as if all were well, and text or a tool is missing or wrong. error: it stopped and said so.
hang: nothing happened for ${IDLE_MS_MAX / 1000} s.

${verdicts}

${clients}

None of the other packages retries once an answer has begun: that is by design, and left to the application. "openai, step retried"
shows what the usual loop around them adds: fewer errors, and text that is shown twice. Breakfall has a limit too: six answers in a row
that break after they began. At 50 % that happens once in about 250 steps. Then the library and the gateway end with a fault, and
the daemon parks the turn for a few seconds and continues.`
  const svg = linePlot(
    `Exact ${steps}-step runs by fault rate`,
    [daemon, breakfall, ...alone].filter(isWanted).map(({ name }) => ({
      name,
      points: rates.filter((rate) => of(name, rate).length > 0).map((rate) => [rate, share(name, rate) * 100] as const),
    })),
    { x: 'faults per attempt, %', y: 'exact runs, %', yMax: 100 },
  )
  // A run with some of the clients is for debugging; only a full comparison is kept.
  if (values.clients !== '') process.stdout.write(`${text}\n`)
  else report('survive', { title: 'Which clients survive: agent runs under faults', text, svg })
  const isExact = ({ name, drives }: Player): boolean =>
    rates.every((rate) => (rate > RATE_MAX && drives !== 'daemon') || share(name, rate) === 1)
  const highest = Math.max(...rates)
  const isQuick = ({ name, drives }: Player): boolean =>
    drives !== 'daemon' ||
    !rates.includes(RATE_MAX) ||
    highest <= RATE_MAX ||
    medianMs(name, highest) <= SLOWER_MAX * medianMs(name, RATE_MAX)
  if (!ours.every((player) => isExact(player) && isQuick(player))) process.exitCode = 1
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const [low, high] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted[Math.ceil((sorted.length - 1) / 2)]]
  return ((low ?? 0) + (high ?? 0)) / 2
}

/** Not every package lets its waits be set, so they are not equal. This counts whether that mattered. */
function waits(all: readonly Result[]): string {
  const others = all.filter(({ client }) => alone.some(({ name }) => name === client))
  const failed = others.filter(({ verdict }) => verdict === 'error' || verdict === 'hang')
  const unheard = failed.filter(({ why }) => BEFORE_CONTENT.has(why.split(':')[0] ?? ''))
  return `Waits between attempts are each package's own (\`openai\` and \`ai\` cannot be set): a run takes longer for them, but attempt n at step k meets
the same fault whenever it is made. Of the ${failed.length} runs in which another package stopped or hung, ${unheard.length} ended on a fault before the
answer began, which is where they retry.`
}

function killers(results: readonly Result[]): string {
  const counts = new Map<string, number>()
  for (const { verdict, why } of results) {
    if (verdict === 'exact' || verdict === 'shown twice') continue
    const kind = why.split(':')[0] ?? ''
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
  }
  const sorted = [...counts].sort((a, b) => b[1] - a[1])
  return sorted.map(([kind, count]) => `${kind} ${count}`).join(', ') || 'none'
}

function versionOf(name: string): string {
  const root = join(dirname(fileURLToPath(import.meta.url)), '..')
  const path = join(root, 'node_modules', name, 'package.json')
  return (JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version
}
