/** The tools that a session's model is offered now: the built-in ones, the user's own and those of MCP servers. */
import type { ToolSpec } from '@breakfall/model'
import type { McpTool } from '@breakfall/mcp'
import type { SessionData } from '../store/store.ts'
import type { OfferedTools } from '../turn/state.ts'
import { customSpec } from '../outside/custom-tool.ts'
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
