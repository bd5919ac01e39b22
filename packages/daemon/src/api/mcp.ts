/** Servers of tools. */
import { randomUUID } from 'node:crypto'
import { Fault } from '@breakfall/faults'
import type { RequestContext } from '@breakfall/wire/node'
import type { McpServer } from '@breakfall/mcp'
import type { McpServers } from '@breakfall/engine'
import type { SomeHandlers } from './routes.ts'

export function mcpHandlers(servers: McpServers) {
  const serverIn = (context: RequestContext): McpServer => {
    const name = context.params['name'] ?? ''
    return servers.server(name) ?? notFound(name)
  }
  return {
    listMcpServers: () => servers.list,
    getMcpServer: async ({ params }) => (await servers.detail(params.name)) ?? notFound(params.name),
    restartMcpServer: async (context) => {
      await context.body()
      const server = serverIn(context)
      server.restart().catch(() => undefined) // its state says how it went
      return server.status
    },
    callMcpTool: async (context) => {
      const { tool, arguments: given = {} } = await context.body()
      const server = serverIn(context)
      const known = server.tools.find((entry) => entry.name === tool || entry.tool === tool)
      const gone = new AbortController()
      context.res.once('close', () => gone.abort()) // a caller that leaves cancels the call
      const end = await server.call(
        { tool: known?.name ?? tool, arguments: given, key: randomUUID() },
        { signal: gone.signal },
      )
      switch (end.kind) {
        case 'answered':
          return { outcome: end.isError ? 'failed' : 'ok', text: end.text }
        case 'lost':
        case 'refused':
          throw end.fault
        case 'cancelled':
        case 'task':
          return { outcome: 'cancelled', text: 'Cancelled.' }
      }
    },
  } satisfies SomeHandlers
}

// ---- details ----

function notFound(name: string): never {
  throw new Fault('not_found', { facts: { name: `MCP server ${name.slice(0, 100)}` } })
}
