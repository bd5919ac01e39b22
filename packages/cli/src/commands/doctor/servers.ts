/** The doctor's checks of what a run talks to: the daemon and its fleet, a remote runner, the model. Each is asked as a run would ask it. */
import type { DaemonAddress, DaemonClient } from '@breakfall/client'
import { remoteRunner } from '@breakfall/engine'
import { EXIT_CODES, exitCodeOf, isFault, POLICY_DEFAULTS } from '@breakfall/faults'
import { createRunnerClient } from '@breakfall/runner/client'
import { type DaemonList, type McpList, type RunnerView, systemSchema } from '@breakfall/wire'
import { z } from 'zod'
import { unusable } from '../../config/providers.ts'
import type { ResolvedConfig } from '../../config/resolve.ts'
import { findDaemon, oneShotClient } from '../../daemon/find.ts'
import { daemonSettings, NO_MODEL } from '../../daemon/options.ts'
import { chooseModel, describeModel, type ReachableModel } from '../../model/choose.ts'
import { firstListedModel, lacksPath, listModels, unreachableFault } from '../../model/list.ts'
import { asTyped, cmd } from '../../process/command-name.ts'
import { counted } from '../../text/amounts.ts'
import type { Finding } from './finding.ts'
import { boxesFinding } from './storage.ts'

export async function checkDaemon(config: ResolvedConfig): Promise<{
  finding: Finding
  url?: string
  client?: DaemonClient
  mcp?: McpList['servers']
  folders?: readonly string[]
}> {
  const check = 'daemon'
  try {
    const found = await findDaemon(config)
    if (found === undefined) return { finding: { check, verdict: 'ok', found: 'not running; a run starts its own' } }
    const { address, pid } = found
    const where = `${address.url}${pid === undefined ? '' : ` (pid ${pid})`}`
    const client = oneShotClient(address)
    await client.sessionPage({ limit: 1 }) // unlike the health check, this needs the token
    const { servers } = await client.mcpServers()
    const finding = { check, verdict: 'ok', found: `answers at ${where}` } as const
    return { finding, url: address.url, client, mcp: servers, folders: await foldersAt(address) }
  } catch (error) {
    return { finding: { check, verdict: 'bad', found: sentenceOf(error) } }
  }
}

/** Nothing to check for a local runner: it starts when it is needed. */
export async function checkRunner(config: ResolvedConfig): Promise<readonly Finding[]> {
  if (config.runner.kind === 'local') return []
  const check = 'runner'
  try {
    const found = await remoteRunner(daemonSettings(config, { kind: 'none' }).runner, RUNNER_MS)
    if (found === undefined) return []
    const ok = {
      check,
      verdict: 'ok',
      found: `${found.runnerId} answers at ${found.url} and accepts the token`,
    } as const
    return [ok, ...(await boxesAt(found))]
  } catch (error) {
    const fix = 'start it, or correct [runner] url, tokenFile, resolveCommand or resolveUrl'
    return [{ check, verdict: 'bad', found: sentenceOf(error), fix }]
  }
}

/** `daemon` is the address of a running one. */
export async function checkModel(config: ResolvedConfig, daemon: string | undefined): Promise<Finding> {
  const check = 'model'
  const badKey = config.model.kind === 'remote' ? unusable(config.model) : undefined
  if (badKey !== undefined) return { check, verdict: 'bad', found: badKey.what, fix: badKey.fix }
  const choice = await chooseModel(config.model, listModels)
  const theirs = daemon === undefined ? undefined : await daemonModel(config)
  if (choice.kind === 'none' && theirs !== undefined)
    return { check, verdict: 'ok', found: `none configured here; runs use the model of the daemon at ${daemon}` }
  if (choice.kind === 'none')
    return {
      check,
      verdict: 'warn',
      found: 'none configured, and none answers on this machine; a prompt would exit with code 2',
      fix: 'set model = "PROVIDER/NAME", [model] baseUrl, OPENAI_BASE_URL, OPENAI_API_KEY or ANTHROPIC_API_KEY, or start Ollama or llama-server',
    }
  const about = describeModel(choice)
  const problem = choice.kind === 'served' ? undefined : await problemWith(choice)
  return problem === undefined
    ? { check, verdict: 'ok', found: about }
    : { check, verdict: 'bad', found: `${about}${problem.what}`, fix: problem.fix }
}

/** Whether the fleet's daemons agree, and whether its runners can be used. Nothing if no daemon runs or its store is not shared: the check of the daemon says so. */
export async function checkFleet(config: ResolvedConfig): Promise<readonly Finding[]> {
  try {
    const found = await findDaemon(config)
    if (found === undefined) return []
    const client = oneShotClient(found.address)
    const { daemons } = await client.daemons()
    if (daemons.length === 0) return []
    const { runners } = await client.runners()
    return [
      daemonsFinding(daemons),
      ...runnerFindings(runners, { needsOne: config.runner.kind === 'local', now: Date.now() }),
    ]
  } catch {
    return [] // the check of the daemon reports that
  }
}

/** Pure, as is `runnerFindings`. */
export function daemonsFinding(daemons: DaemonList['daemons']): Finding {
  const living = daemons.filter(({ state }) => state !== 'dead')
  const isSame = new Set(living.map(({ configHash }) => configHash)).size <= 1
  const found = `${counted(living.length, 'daemon')} share the store`
  if (isSame) return { check: 'fleet', verdict: 'ok', found }
  const fix = 'give all of them the same configuration and the same [fleet] keyFile, then restart them'
  return { check: 'fleet', verdict: 'warn', found: `${found}, but their configurations differ`, fix }
}

export function runnerFindings(
  runners: readonly RunnerView[],
  { needsOne, now }: { readonly needsOne: boolean; readonly now: number },
): readonly Finding[] {
  const check = 'runners'
  const start = `start one: ${cmd('runner')} --join http://DAEMON:PORT`
  if (runners.length === 0)
    return needsOne ? [{ check, verdict: 'warn', found: 'none has joined: every tool call waits', fix: start }] : []
  const isSilent = ({ state, lastSeen }: RunnerView): boolean =>
    state !== 'lost' && now - Date.parse(lastSeen) > SILENT_MS
  const silent = runners.filter(isSilent)
  const usable = runners.filter((runner) => runner.state === 'live' && !isSilent(runner))
  const full = usable.filter(({ boxes, capacity }) => boxes >= capacity)
  const found = `${usable.length} of ${counted(runners.length, 'runner')} can be used`
  const all: Finding[] = [
    usable.length === 0 ? { check, verdict: 'bad', found, fix: start } : { check, verdict: 'ok', found },
  ]
  if (silent.length > 0)
    all.push({
      check,
      verdict: 'warn',
      found: `not heard of for more than a minute: ${silent.map(({ runnerId }) => runnerId).join(', ')}`,
      fix: `start it again in its folder; if it is gone for good: ${cmd('runners')} drop ID`,
    })
  if (full.length > 0 && full.length === usable.length)
    all.push({ check, verdict: 'warn', found: 'all of them are full', fix: 'raise --capacity, or start another one' })
  return all
}

// ---- details, in the order they are used above ----

/** The folders that callers of the daemon may use. */
async function foldersAt({ url, token }: DaemonAddress): Promise<readonly string[]> {
  const response = await fetch(`${url}/v1/system`, {
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(RUNNER_MS),
  })
  return systemSchema.parse(await response.json()).workspaces
}

const RUNNER_MS = 5_000

async function boxesAt(runner: { readonly url: string; readonly token: string }): Promise<readonly Finding[]> {
  const client = createRunnerClient(runner)
  try {
    const { boxes, limits } = runnerUseSchema.parse(await client.config({ signal: AbortSignal.timeout(RUNNER_MS) }))
    return boxesFinding(boxes.running, limits.boxesMax)
  } finally {
    await client.close()
  }
}

/** An older runner does not count its boxes. */
const runnerUseSchema = z.object({
  boxes: z.object({ running: z.number() }).default({ running: 0 }),
  limits: z.object({ boxesMax: z.number() }),
})

/** Undefined if it has none, or does not say. */
async function daemonModel(config: ResolvedConfig): Promise<string | undefined> {
  try {
    const found = await findDaemon(config)
    const model = found && (await oneShotClient(found.address).model())
    return model === undefined || model.baseUrl === NO_MODEL ? undefined : model.baseUrl
  } catch {
    return undefined // the check of the daemon reports that
  }
}

const MODEL_MS = 3_000

const sentenceOf = (error: unknown): string => (isFault(error) ? asTyped(error.error) : String(error))

type Problem = { readonly what: string; readonly fix: string }

async function problemWith(choice: ReachableModel): Promise<Problem | undefined> {
  const fix = 'start the server, or correct the base URL'
  if ((await unreachableFault(choice.baseUrl, MODEL_MS)) !== undefined) return { what: ' does not answer', fix }
  if (choice.api === 'anthropic-messages') return undefined // its list needs other headers
  try {
    const first = await firstListedModel(choice, { ...POLICY_DEFAULTS, attemptsMax: 1 })
    // A provider that needs a key may not list its models.
    if (first !== undefined || choice.apiKey !== undefined || choice.name !== undefined) return undefined
    const path = lacksPath(choice.baseUrl) ? 'most servers need /v1 at the end of the base URL; or ' : ''
    return { what: ' does not list its models', fix: `${path}name one: [model] name, or --model` }
  } catch (error) {
    const isKey = isFault(error) && exitCodeOf(error.report) === EXIT_CODES.credentials
    return { what: `: ${sentenceOf(error)}`, fix: isKey ? 'set a valid key' : fix }
  }
}

const SILENT_MS = 60_000 // the clocks of two machines may differ by a few seconds
