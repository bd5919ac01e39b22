/** The tools that a session's model is offered now: the built-in ones, the user's own and those of MCP servers. */
import type { ToolSpec } from '@breakfall/model'
import { Fault } from '@breakfall/faults'
import type { McpTool } from '@breakfall/mcp'
import type { SessionData } from '../rows.ts'
import type { OfferedTools } from '../turn/state.ts'
import { customSpec } from '../outside/custom-tool.ts'
import type { MissingTools } from '../outside/outside-tools.ts'
import type { LiveSession } from './live-session.ts'
import type { Ports } from './ports.ts'
import { toolSpecs } from './tools.ts'

export function offeredTools({ outside }: Pick<Ports, 'outside'>, session: LiveSession): OfferedTools {
  const { data } = session
  return session.offered.get([outside.version, data.tools, data.outside], () => {
    const mcp = outside.tools.filter((tool) => mayUse(data, tool.name, tool.server))
    const custom = [...outside.custom].filter(([name]) => mayUse(data, name))
    const specs = [
      ...toolSpecs(data.tools),
      ...custom.map(([name, config]) => customSpec(name, config)),
      ...mcp.map(specOf),
    ]
    return { specs, definitions: new Map(mcp.map(({ name, hash }) => [name, hash])) }
  })
}

/**
 * The same, for a request to the model. A session that wants only tools from outside, of which none is there, waits for their servers:
 * without a tool, a model makes things up. Throws a fault that parks the turn if they stay away.
 */
export async function toolsOnOffer(ports: Pick<Ports, 'outside'>, session: LiveSession): Promise<OfferedTools> {
  const { outside } = ports
  const offered = offeredTools(ports, session)
  const [wanted] = session.data.outside ?? []
  if (wanted === undefined || offered.specs.length > 0) return offered
  await outside.settled(0) // its code may be loading
  const servers = missingFor(ports, session).flatMap(({ server }) => outside.server(server) ?? [])
  await Promise.all(
    servers.map((server) => server.settled(AbortSignal.any([session.signal, AbortSignal.timeout(server.awayMs)]))),
  )
  session.signal.throwIfAborted()
  const later = offeredTools(ports, session)
  if (later.specs.length > 0) return later
  const faults = servers.map(
    ({ name, fault, missing }) =>
      fault ?? new Fault('mcp_server_failed', { facts: { name, detail: missing ?? 'it offers no tools' } }),
  )
  const fault =
    faults.find(({ report }) => report.next === 'park') ??
    faults[0] ??
    new Fault('tool_not_offered', {
      facts: {
        name: wanted.slice(0, 100),
        detail:
          outside.serverOf(wanted) === undefined
            ? 'the configuration does not define it'
            : 'its server does not offer it',
      },
      message: { advice: 'Correct the name or the configuration: the session has no other tools.' },
    })
  throw fault.with({ next: 'park' })
}

/** Servers that the session may use and that are not ready, with the reason. */
export function missingFor({ outside }: Pick<Ports, 'outside'>, { data }: LiveSession): readonly MissingTools[] {
  const { outside: names } = data
  return outside.missing.filter(
    ({ server }) => names?.some((name) => name === `mcp__${server}` || name.startsWith(`mcp__${server}__`)) ?? true,
  )
}

/** Whether the session may use this tool from outside. */
export function mayUse({ outside }: Pick<SessionData, 'outside'>, tool: string, server?: string): boolean {
  if (outside === undefined) return true
  return outside.includes(tool) || (server !== undefined && outside.includes(`mcp__${server}`))
}

// ---- details ----

const specOf = ({ name, description, inputSchema }: McpTool): ToolSpec => ({
  type: 'function',
  function: { name, description, parameters: inputSchema },
})
