/** The doctor's checks of what the configuration names: mounts, folders, providers, the telemetry collector, MCP servers. */
import { readEarlierFolders } from '@breakfall/engine'
import { preflight } from '@breakfall/supervisor'
import type { Environment } from '@breakfall/supervisor/platform'
import type { McpList } from '@breakfall/wire'
import { isMissing } from '../../config/allowed-folders.ts'
import type { BoxSetting } from '../../config/box.ts'
import { looseMode } from '../../config/credentials.ts'
import type { OutsideSetting } from '../../config/outside.ts'
import { credentialsFile } from '../../config/paths.ts'
import { aboutKey, type ConfiguredProvider, unusable } from '../../config/providers.ts'
import type { ResolvedConfig } from '../../config/resolve.ts'
import { cmd } from '../../process/command-name.ts'
import { collectorProblem } from '../../telemetry/otlp.ts'
import type { Finding } from './finding.ts'

/** A mount that is missing makes every run fail. */
export function checkMounts({ mounts }: BoxSetting): readonly Finding[] {
  return mounts.filter(isMissing).map(({ path }) => ({
    check: 'mounts',
    verdict: 'bad',
    found: `${path} is in [box] mounts, but there is no such folder`,
    fix: 'create it, or remove it from your config.toml',
  }))
}

/** The folders that callers of the API may use, each once, with who allowed it. `atDaemon`: what the running daemon allows. */
export function checkFolders(
  { runner, stateDir }: Pick<ResolvedConfig, 'runner' | 'stateDir'>,
  atDaemon: readonly string[],
): readonly Finding[] {
  const named = new Set(runner.allowWorkspace)
  const folders = [
    ...[...named].map((folder) => `${folder} ([runner] allowWorkspace)`),
    ...atDaemon.filter((folder) => !named.has(folder)).map((folder) => `${folder} (the daemon's --allow-workspace)`),
  ]
  const { dropped } = readEarlierFolders(stateDir)
  return [
    ...(folders.length === 0
      ? []
      : [{ check: FOLDERS_CHECK, verdict: 'ok', found: `callers of the API may use ${folders.join(', ')}` } as const]),
    ...(dropped.length === 0
      ? []
      : [
          {
            check: FOLDERS_CHECK,
            verdict: 'warn',
            found: `runs of an earlier version had opened ${dropped.join(', ')} to every caller of the API; this is over`,
            fix: `if that was not your intention, look at what was done there; then remove ${stateDir}/earlier-folders.json`,
          } as const,
        ]),
  ]
}

/** Where each provider is, and where its key comes from. Never the key. */
export function checkProviders(providers: readonly ConfiguredProvider[], env: Environment): readonly Finding[] {
  const mode = looseMode(env)
  const file = credentialsFile(env)
  return [
    ...providers.map(findingOf),
    ...(mode === undefined
      ? []
      : [
          {
            check: 'credentials',
            verdict: 'bad',
            found: `other users can read ${file} (mode ${mode})`,
            fix: `chmod 600 ${file}`,
          } as const,
        ]),
  ]
}

/** Nothing if no collector is configured. */
export async function checkTelemetry(endpoint: string | undefined): Promise<readonly Finding[]> {
  if (endpoint === undefined) return []
  const check = 'telemetry'
  const problem = await collectorProblem(endpoint)
  if (problem === undefined) return [{ check, verdict: 'ok', found: `${endpoint} takes spans` }]
  const found = `${endpoint} takes no spans: ${problem}; turns work, but their traces and metrics are lost`
  const fix = 'start the collector, or correct [telemetry] otlpEndpoint: it is the address below which /v1/traces is'
  return [{ check, verdict: 'warn', found, fix }]
}

type McpStatus = McpList['servers'][number]

/**
 * The servers' state in the running daemon; without a daemon, whether their commands can be run and their variables are set.
 * `running`: as the daemon has them.
 */
export async function checkMcp(
  { mcp, unset }: OutsideSetting,
  env: Environment,
  running: readonly McpStatus[],
): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  for (const [name, { command, cwd, url }] of Object.entries(mcp)) {
    const status = running.find((server) => server.name === name)
    if (status !== undefined) {
      findings.push(stateFinding(status))
      continue
    }
    const missing = unset.filter(({ server }) => server === name).map(({ variable }) => variable)
    if (missing.length > 0) {
      const fix = `set ${missing.join(', ')}`
      findings.push({ check: 'mcp', verdict: 'warn', found: `${name}: a header has no value`, fix })
    } else if (command === undefined) findings.push(notStarted(name, url ?? ''))
    else {
      const failure = await preflight({ command, cwd: cwd ?? process.cwd(), env })
      findings.push(
        failure === undefined
          ? notStarted(name, command)
          : { check: 'mcp', verdict: 'bad', found: `${name}: ${failure.detail}`, fix: `correct [mcp.${name}] command` },
      )
    }
  }
  return findings
}

// ---- details, in the order they are used above ----

const FOLDERS_CHECK = 'folders'

function findingOf(provider: ConfiguredProvider): Finding {
  const { name, baseUrl, serve, apiKey, apiKeyVariable } = provider
  const where = serve === undefined ? baseUrl : `served by ${serve.command[0]}`
  const found = `${name}: ${where}, ${aboutKey(provider)}`
  const badKey = unusable(provider)
  if (badKey !== undefined)
    return { check: 'provider', verdict: 'bad', found: `${name}: ${where}. ${badKey.what}`, fix: badKey.fix }
  const isMissing = apiKey === undefined && apiKeyVariable !== undefined && !isLocal(baseUrl)
  if (!isMissing) return { check: 'provider', verdict: 'ok', found }
  return { check: 'provider', verdict: 'warn', found, fix: `set ${apiKeyVariable}, or run: ${cmd('login')} ${name}` }
}

/** A server on this machine rarely needs a key. */
const isLocal = (baseUrl = 'http://localhost'): boolean => /^https?:\/\/(?:localhost|127\.|\[::1\])/.test(baseUrl)

/** Nothing is known about it but its configuration. */
const notStarted = (name: string, what: string): Finding => ({
  check: 'mcp',
  verdict: 'ok',
  found: `${name}: configured (${what}), not started here; "${cmd('mcp list')}" tries it`,
})

function stateFinding({ name, state, tools, era, error }: McpStatus): Finding {
  const found = `${name}: ${state}`
  if (state === 'ready') return { check: 'mcp', verdict: 'ok', found: `${found}, ${tools} tools, MCP of ${era ?? '?'}` }
  const why = error === undefined ? '' : `; ${error}`
  const fix = `${cmd('mcp logs')} ${name}; then ${cmd('mcp restart')} ${name}`
  return { check: 'mcp', verdict: state === 'failed' ? 'bad' : 'warn', found: `${found}${why}`, fix }
}
