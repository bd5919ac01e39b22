/** The doctor's view of the MCP servers: whether their commands can be run, and whether their variables are set. */
import { preflight } from '@breakfall/supervisor'
import type { OutsideSetting } from '../config/outside.ts'
import type { Env } from '../config/env.ts'
import type { Finding } from './finding.ts'

export async function checkMcp({ mcp, unset }: OutsideSetting, env: Env): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  for (const [name, { command, cwd, url }] of Object.entries(mcp)) {
    const missing = unset.filter(({ server }) => server === name).map(({ variable }) => variable)
    if (missing.length > 0) {
      const fix = `set ${missing.join(', ')}`
      findings.push({ check: 'mcp', verdict: 'warn', found: `${name}: a header has no value`, fix })
    } else if (command === undefined) findings.push({ check: 'mcp', verdict: 'ok', found: `${name}: ${url ?? ''}` })
    else {
      const failure = await preflight({ command, cwd: cwd ?? process.cwd(), env })
      findings.push(
        failure === undefined
          ? { check: 'mcp', verdict: 'ok', found: `${name}: ${command}` }
          : { check: 'mcp', verdict: 'bad', found: `${name}: ${failure.detail}`, fix: `correct [mcp.${name}] command` },
      )
    }
  }
  return findings
}
