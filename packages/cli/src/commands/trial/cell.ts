/** One run of an agent in a trial: servers, a scratch folder, the command, and what it left behind. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type * as Chaos from '@breakfall/chaos'
import type { AgentRun, Plan, TrialMode, TrialServers } from '@breakfall/chaos'
import { startGateway } from '@breakfall/gateway'
import type { Hold } from '@breakfall/model/names'
import { runAgent } from './agent.ts'

export type Column = { readonly name: string; readonly gateway: boolean; readonly hold?: Hold | undefined }

export const DIRECT: Column = { name: 'direct', gateway: false }

/** A hold needs a gateway, so it adds the column too. The first gateway is "gateway"; the others name what they hold back. */
export function columnsOf(options: {
  readonly throughGateway?: boolean
  readonly hold?: readonly Hold[]
}): readonly Column[] {
  const holds =
    options.hold === undefined ? (options.throughGateway === true ? [undefined] : []) : [...new Set(options.hold)]
  const gateways = holds.map((hold, i) => ({
    name: i === 0 ? 'gateway' : `gateway, hold ${hold}`,
    gateway: true,
    hold,
  }))
  return [DIRECT, ...gateways]
}

export type CellRun = {
  readonly run: AgentRun
  readonly seen: ReturnType<TrialServers['seen']>
  readonly ms: number
}

const KEY = 'breakfall-trial'
const STALL_MS = 5_000 // the gateway of a trial does not wait two minutes for a silent model, so a trial ends today

export async function runCell(
  chaos: typeof Chaos,
  options: {
    readonly command: readonly string[]
    readonly column: Column
    readonly plan?: Plan
    readonly mode?: TrialMode
    readonly msMax: number
    readonly signal: AbortSignal
  },
): Promise<CellRun> {
  await using started = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-trial-'))
  started.defer(() => rmSync(folder, { recursive: true, force: true }))
  const ledger = join(folder, 'ledger.txt')
  const servers = await chaos.startTrialServers({ plan: options.plan, mode: options.mode, ledger })
  started.defer(() => servers.close())
  let { origin } = servers
  if (options.column.gateway) {
    const gateway = await startGateway({
      upstream: servers.url,
      hold: options.column.hold,
      policy: { livenessMs: STALL_MS },
      logger: false,
    })
    started.defer(() => gateway.close())
    ;({ origin } = new URL(gateway.url))
  }
  const startedAt = performance.now()
  const { output, end } = await runAgent({
    command: options.command.map((word) => word.replaceAll('{url}', `${origin}/v1`).replaceAll('{origin}', origin)),
    cwd: folder,
    env: environmentFor(origin),
    msMax: options.msMax,
    signal: options.signal,
  })
  const ms = Math.round(performance.now() - startedAt)
  const seen = servers.seen()
  const lines = existsSync(ledger)
    ? readFileSync(ledger, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
    : []
  return { run: { mode: options.mode ?? seen.mode, output, ledger: lines, end }, seen, ms }
}

// ---- details ----

/** What the usual clients read. A proxy of the user's must not see requests to this machine. */
const environmentFor = (origin: string): Record<string, string> => ({
  OPENAI_BASE_URL: `${origin}/v1`,
  OPENAI_API_KEY: KEY,
  ANTHROPIC_BASE_URL: origin,
  ANTHROPIC_API_KEY: KEY,
  GOOGLE_GEMINI_BASE_URL: origin,
  GEMINI_API_KEY: KEY,
  NO_PROXY: '127.0.0.1,localhost',
  no_proxy: '127.0.0.1,localhost',
})
