/** How much of a long turn's input a provider's prompt cache serves: 50 steps through the daemon, counted as Anthropic counts. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startDaemon } from '../packages/daemon/src/index.ts'
import { Api } from '../packages/daemon/test/support/api.ts'
import { startCachingModel } from '../packages/daemon/test/support/caching-model.ts'
import { stopRunner } from '../packages/daemon/test/support/setup.ts'
import { type CountedInput, PromptCache } from '../test/kit/prompt-cache.ts'
import { report, round, table } from './kit.ts'

const STEPS = 50
const RESULT_BYTES = 4_000
const BIG_STEP = { step: 25, calls: 15 } // one step with more blocks than the provider looks back
const PRICES = { fresh: 1, read: 0.1, written: 1.25 } // of input, relative to the price of uncached input

async function run(): Promise<{ marked: readonly CountedInput[]; plain: readonly CountedInput[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-bench-'))
  const [workspace, stateDir] = [join(folder, 'work'), join(folder, 'state')]
  mkdirSync(workspace)
  writeFileSync(join(workspace, 'notes'), '0123456789abcde\n'.repeat(RESULT_BYTES / 16))
  const calls = (step: number): number => (step === BIG_STEP.step ? BIG_STEP.calls : 1)
  const model = await startCachingModel({ steps: STEPS, calls, path: 'notes' })
  const daemon = await startDaemon({
    stateDir,
    model: { baseUrl: model.baseUrl, name: 'claude', api: 'anthropic-messages' },
    runner: { allowWorkspace: [workspace] },
    policy: { stepsMax: STEPS * 2 },
    logLevel: 'silent',
  })
  try {
    const api = new Api(daemon)
    const { id } = await api.session({ box: { workspace } })
    await api.ended(id, await api.prompt(id, 'read the notes again and again'))
  } finally {
    await daemon.close()
    await stopRunner(stateDir)
    await model.close()
    rmSync(folder, { recursive: true, force: true })
  }
  const unmarked = new PromptCache()
  const bodies = model.plain.map((text) => JSON.parse(text) as Record<string, unknown>)
  return { marked: model.counted, plain: bodies.map((body) => unmarked.count(body)) }
}

function row(name: string, counted: readonly CountedInput[]): readonly (string | number)[] {
  const sum = (key: keyof CountedInput): number => counted.reduce((total, one) => total + one[key], 0)
  const [fresh, read, written] = [sum('fresh'), sum('read'), sum('written')]
  const all = fresh + read + written
  const cost = (fresh * PRICES.fresh + read * PRICES.read + written * PRICES.written) / all
  return [
    name,
    ...[all, read, written, fresh].map((count) => count.toLocaleString('en-US')),
    percent(read / all),
    round(cost),
  ]
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`

const { marked, plain } = await run()
const head = [
  'request',
  'input tokens',
  'read from cache',
  'written to it',
  'uncached',
  'share cached',
  'cost of the input',
]
const text = `A turn of ${STEPS} steps, each reading ${RESULT_BYTES / 1000} kB; step ${BIG_STEP.step} makes ${BIG_STEP.calls} calls. A scripted server counts by Anthropic's rules: a beginning is cached up to a mark, and found again if a mark of a later request is at most 20 blocks behind its end. Four bytes count as a token. The cost is relative to the same input without a cache (reading costs a tenth, writing 1.25 times). Goal: more than 85 % come from the cache.\n\n${table(head, [row('without marks', plain), row('as the daemon sends it', marked)])}`
report('prompt-cache', { title: 'Input that a prompt cache serves', text })
