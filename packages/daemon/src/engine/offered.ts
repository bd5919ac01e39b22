/** The tools that a session's model is offered now: the built-in ones, the user's own and those of MCP servers. */
import type { ToolSpec } from '@breakfall/model'
import type { McpTool } from '@breakfall/mcp'
import type { SessionData } from '../store/store.ts'
import { customSpec } from '../outside/custom-tool.ts'
import type { LiveSession } from './live-session.ts'
import type { Ports } from './ports.ts'
import { toolSpecs } from './tools.ts'

export type Offered = {
  readonly specs: readonly ToolSpec[]
  /** Marks the definition of each tool of an MCP server. */
  readonly definitions: ReadonlyMap<string, string>
}

export function offeredTools({ outside }: Pick<Ports, 'outside'>, session: LiveSession): Offered {
  const { data } = session
  const known = KNOWN.get(session)
  if (known?.version === outside.version && known.tools === data.tools && known.outside === data.outside)
    return known.offered
  const mcp = outside.tools.filter((tool) => mayUse(data, tool.name, tool.server))
  const custom = [...outside.custom].filter(([name]) => mayUse(data, name))
  const specs = [
    ...toolSpecs(data.tools),
    ...custom.map(([name, config]) => customSpec(name, config)),
    ...mcp.map(specOf),
  ]
  const offered = { specs, definitions: new Map(mcp.map(({ name, hash }) => [name, hash])) }
  KNOWN.set(session, { version: outside.version, tools: data.tools, outside: data.outside, offered })
  return offered
}

/** Whether the session may use this tool from outside. */
export function mayUse({ outside }: Pick<SessionData, 'outside'>, tool: string, server?: string): boolean {
  if (outside === undefined) return true
  return outside.includes(tool) || (server !== undefined && outside.includes(`mcp__${server}`))
}

// ---- details ----

/** The same tools in every step of a turn, unless a server changes them. */
const KNOWN = new WeakMap<
  LiveSession,
  Pick<SessionData, 'tools' | 'outside'> & { readonly version: number; readonly offered: Offered }
>()

const specOf = ({ name, description, inputSchema }: McpTool): ToolSpec => ({
  type: 'function',
  function: { name, description, parameters: inputSchema },
})
