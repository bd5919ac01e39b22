/**
 * `npm run agents`: real coding agents under faults, alone and behind the gateway. Each agent goes through `breakfall trial`; the
 * table of all of them is bench/reports/agents.md. Agents that cannot be installed or do not run here are skipped with a sentence.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { parseArgs, stripVTControlCharacters } from 'node:util'
import { report, table } from '../kit.ts'
import { type AgentRow, AGENTS } from './agents.ts'
import { cacheFolder, install } from './install.ts'

type Cell = { readonly fault: string; readonly through: string; readonly verdict: string; readonly why: string }
type Result = {
  readonly outcome: string
  readonly cells?: readonly Cell[]
  readonly scores?: Readonly<Record<string, { readonly exact: number; readonly of: number }>>
  readonly fault?: { readonly error: string; readonly errorRaw: string } | null
  readonly error?: string
}

const USAGE = `npm run agents -- [--agents "codex;pi, chat"] [--faults fin,early_end] [--timeout-ms 120000]

--agents      only those whose names begin so, separated by ";": ${AGENTS.map(({ name }) => name).join('; ')}
--faults      only these, as in breakfall trial --faults
--timeout-ms  how long one run may take

The table is printed. If all agents run under all faults, it is written to bench/reports/agents.md instead.
`
const values = options()
const MAIN = join(import.meta.dirname, '../../packages/cli/src/main.ts')
const COLUMNS = ['direct', 'gateway', 'gateway, hold answer'] as const

const wanted = values.agents.split(';').filter((name) => name !== '')
const rows = AGENTS.filter((agent) => wanted.length === 0 || wanted.some((name) => agent.name.startsWith(name)))
for (const name of wanted)
  if (!rows.some((agent) => agent.name.startsWith(name))) leave(`There is no agent ${name}.\n\n`)
const skipped: string[] = []
const results: { readonly agent: AgentRow; readonly cells: readonly Cell[] }[] = []
process.stderr.write(`agents are kept in ${cacheFolder()}\n`)
for (const agent of rows) {
  process.stderr.write(`\n── ${agent.name} ${agent.version} (${agent.api})\n`)
  const problem = install(agent)
  const result = problem === undefined ? await trial(agent) : { outcome: 'failed', error: problem }
  const said = result.fault?.errorRaw.trim().split('\n').at(-1)
  const why = result.error ?? `${result.fault?.error ?? 'it did not run'} It printed: ${said}`
  if (result.cells === undefined) skipped.push(`${agent.name} ${agent.version}: ${why}`)
  else results.push({ agent, cells: result.cells })
  process.stderr.write(result.cells === undefined ? `skipped: ${why}\n` : `${scoresText(result.cells)}\n`)
}
if (results.length === 0) {
  process.stderr.write(`\nNo agent ran.\n${skipped.join('\n')}\n`)
  process.exitCode = 1
} else {
  const written = {
    title: 'Real agents under faults, with and without the gateway',
    text: reportText(),
    command: 'npm run agents',
  }
  if (wanted.length > 0 || values.faults !== '') process.stdout.write(`${written.text}\n`)
  else report('agents', written)
}

// ---- details ----

function options(): { readonly agents: string; readonly faults: string; readonly 'timeout-ms': string } {
  try {
    const { values } = parseArgs({
      options: {
        agents: { type: 'string', default: '' },
        faults: { type: 'string', default: '' },
        'timeout-ms': { type: 'string', default: '120000' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    if (!values.help) return values
    process.stdout.write(USAGE)
    process.exit(0)
  } catch (error) {
    return leave(`${error instanceof Error ? error.message : String(error)}\n\n`)
  }
}

function leave(because: string): never {
  process.stderr.write(because + USAGE)
  process.exit(2)
}

async function trial(agent: AgentRow): Promise<Result> {
  const flags = ['--json', '--seed', '7', '--timeout-ms', values['timeout-ms'], '--through-gateway']
  flags.push('--hold', 'auto', '--hold', 'answer')
  if (values.faults !== '') flags.push('--faults', values.faults)
  const play = [process.execPath, join(import.meta.dirname, 'play.ts'), agent.name, '{url}']
  // An agent that hangs is killed and leaves its files behind.
  const scratch = mkdtempSync(join(tmpdir(), 'breakfall-agents-'))
  const child = spawn(process.execPath, [MAIN, 'trial', ...flags, '--', ...play], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TMPDIR: scratch },
  })
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')])
  rmSync(scratch, { recursive: true, force: true, maxRetries: 3 })
  const last = output.trim().split('\n').at(-1) ?? ''
  try {
    return JSON.parse(last) as Result
  } catch {
    return { outcome: 'failed', error: last.slice(0, 200) }
  }
}

function reportText(): string {
  const faults = [...new Set(results.flatMap(({ cells }) => cells.map((cell) => cell.fault)))]
  const sections = results.map(({ agent, cells }) => {
    const lines = COLUMNS.map((through) => [
      through,
      ...faults.map((fault) => verdictIn(cells, fault, through)),
      scoreText(cells, through),
    ])
    const whys = cells
      .filter((cell) => cell.verdict !== 'exact')
      .map((cell) => `- ${cell.through}, \`${cell.fault}\`: ${plain(cell.why)}`)
    const heading = `## ${agent.name} ${agent.version} (${agent.api})`
    return [heading, '', table(['', ...faults, 'exact'], lines), '', ...whys].join('\n')
  })
  return `Each agent runs headless against the scripted model of \`breakfall trial\`, which words every answer differently. One run per
cell; the fault breaks the second step and the last answer, once each. \`exact\`: every text once, every command once and in order.
\`echo\`: text of a broken answer is shown as well. \`wrong\`: it reported success, but a command or text is missing or ran twice.
\`error\`: it gave up. \`hang\`: it was still running after ${Number(values['timeout-ms']) / 1000} s. \`–\`: the fault does not exist in that API.
The gateway gives up on a silent stream after 5 s here.

${summary()}

${sections.join('\n\n')}
${skipped.length === 0 ? '' : `\n## Skipped\n${skipped.map((line) => `- ${line}`).join('\n')}\n`}`
}

/** Exact cells of each agent, and of all together. */
function summary(): string {
  const all = results.flatMap(({ cells }) => cells)
  const rows = results.map(({ agent, cells }) => [
    `${agent.name} ${agent.version}`,
    ...COLUMNS.map((through) => scoreText(cells, through)),
  ])
  return table(['', ...COLUMNS], [...rows, ['all', ...COLUMNS.map((through) => scoreText(all, through))]])
}

/** Without the colours of a terminal. */
function plain(text: string): string {
  return stripVTControlCharacters(text)
}

function verdictIn(cells: readonly Cell[], fault: string, through: string): string {
  return cells.find((cell) => cell.fault === fault && cell.through === through)?.verdict ?? '–'
}

function scoresText(cells: readonly Cell[]): string {
  return COLUMNS.map((through) => `${through}: ${scoreText(cells, through)}`).join('; ')
}

function scoreText(cells: readonly Cell[], through: string): string {
  const counted = cells.filter((cell) => cell.through === through)
  return `${counted.filter((cell) => cell.verdict === 'exact').length} of ${counted.length}`
}
