/** Routes about servers of tools, as data. */
import { randomUUID } from 'node:crypto'
import { Fault } from '@breakfall/faults'
import {
  mcpCalledSchema,
  mcpCallSchema,
  mcpDetailSchema,
  mcpListSchema,
  mcpRestartSchema,
  mcpServerSchema,
} from '@breakfall/wire'
import { readJson, type RequestContext, type Route } from '@breakfall/wire/node'
import type { McpServer } from '@breakfall/mcp'
import type { DaemonLimits } from '../options.ts'
import type { OutsideTools } from '../outside/outside-tools.ts'

export function mcpRoutes(outside: OutsideTools, limits: DaemonLimits): readonly Route[] {
  const serverIn = (context: RequestContext): McpServer => {
    const name = context.params['name'] ?? ''
    return outside.server(name) ?? notFound(name)
  }
  return [
    {
      method: 'get',
      path: '/v1/mcp',
      operationId: 'listMcpServers',
      summary: 'The MCP servers, and how they are',
      answers: { 200: mcpListSchema },
      handle: () => ({ status: 200, json: outside.list }),
    },
    {
      method: 'get',
      path: '/v1/mcp/{name}',
      operationId: 'getMcpServer',
      summary: 'One MCP server, with its tools and its last lines',
      answers: { 200: mcpDetailSchema },
      faults: ['not_found'],
      handle: async ({ params: { name = '' } }) => ({
        status: 200,
        json: (await outside.detail(name)) ?? notFound(name),
      }),
    },
    {
      method: 'post',
      path: '/v1/mcp/{name}/restart',
      operationId: 'restartMcpServer',
      summary: 'Restarts an MCP server, or connects to it again',
      body: mcpRestartSchema,
      answers: { 202: mcpServerSchema },
      faults: ['not_found'],
      handle: async (context) => {
        await readJson(context.req, mcpRestartSchema)
        const server = serverIn(context)
        server.restart().catch(() => undefined) // its state says how it went
        return { status: 202, json: server.status }
      },
    },
    {
      method: 'post',
      path: '/v1/mcp/{name}/call',
      operationId: 'callMcpTool',
      summary: "Calls a server's tool once, outside of any session",
      body: mcpCallSchema,
      answers: { 200: mcpCalledSchema },
      faults: ['not_found', 'tool_not_offered', 'mcp_server_failed', 'mcp_unreachable', 'mcp_auth_failed'],
      handle: async (context) => {
        const { tool, arguments: given = {} } = await readJson(context.req, mcpCallSchema)
        const server = serverIn(context)
        const known = server.tools.find((entry) => entry.name === tool || entry.tool === tool)
        const gone = new AbortController()
        context.res.once('close', () => gone.abort()) // a caller that leaves cancels the call
        const end = await server.call(
          { tool: known?.name ?? tool, arguments: given, key: randomUUID() },
          { signal: gone.signal, waitMs: limits.mcpCallWaitMs },
        )
        switch (end.kind) {
          case 'answered':
            return { status: 200, json: { outcome: end.isError ? 'failed' : 'ok', text: end.text } }
          case 'lost':
          case 'refused':
            throw end.fault
          case 'cancelled':
          case 'task':
            return { status: 200, json: { outcome: 'cancelled', text: 'Cancelled.' } }
        }
      },
    },
  ]
}

// ---- details ----

function notFound(name: string): never {
  throw new Fault('not_found', { facts: { name: `MCP server ${name.slice(0, 100)}` } })
}
