/**
 * The doctor's view of the MCP servers: their state in the running daemon; without a daemon, whether their commands can be run
 * and their variables are set.
 */
import { preflight } from '@breakfall/supervisor'
import type { McpList } from '@breakfall/wire'
import type { OutsideSetting } from '../config/outside.ts'
import type { Environment } from '@breakfall/supervisor/platform'
import type { Finding } from './finding.ts'
import { cmd } from '../process/command-name.ts'

type McpStatus = McpList['servers'][number]

/** `running`: as the daemon has them. */
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

// ---- details ----

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
