/**
 * MCP servers without a daemon: they run in this process, for one command.
 *
 * I1  A command starts only the server that it needs. The list starts all of them, and a slow or broken server does not block it.
 */
import { randomUUID } from 'node:crypto'
import { Fault } from '@breakfall/faults'
import type { McpServer, McpServerConfig } from '@breakfall/mcp'
import type { McpCalled, McpList } from '@breakfall/wire'
import type { Context } from '../context.ts'

type Config = Context['config']

const START_MS = 60_000
const LIST_MS = 5_000 // as long as a turn waits

/** Each server's state after its first attempt to start, or when the time is up. */
export async function listedHere({ stateDir, outside }: Config): Promise<McpList> {
  const { McpHost } = await import('@breakfall/mcp')
  const host = new McpHost({ stateDir })
  try {
    host.configure(outside.mcp)
    const limit = AbortSignal.timeout(LIST_MS)
    await Promise.all(host.servers.map((server) => server.tried(limit)))
    return { servers: [...host.statuses] }
  } finally {
    await host.stop()
  }
}

export async function withServer<T>(
  { stateDir, outside }: Config,
  name: string,
  act: (server: McpServer) => Promise<T>,
): Promise<T> {
  const config = configOf(outside.mcp, name)
  const { McpHost } = await import('@breakfall/mcp')
  const host = new McpHost({ stateDir })
  try {
    host.configure({ [name]: config }) // I1
    await Promise.all(host.servers.map((server) => server.tried(AbortSignal.timeout(config.startMs ?? START_MS))))
    const [server] = host.servers
    if (server === undefined) throw new Fault('not_found', { facts: { name: `MCP server ${name}` } })
    return await act(server)
  } finally {
    await host.stop()
  }
}

/** Throws if the configuration does not define it. */
export function configOf(servers: Config['outside']['mcp'], name: string): McpServerConfig {
  const config = Object.hasOwn(servers, name) ? servers[name] : undefined
  if (config !== undefined) return config
  const error = `No MCP server is called ${name}; [mcp.NAME] in your config.toml defines one`
  throw new Fault('not_found', { error })
}

export async function calledHere(server: McpServer, tool: string, given: Record<string, unknown>): Promise<McpCalled> {
  const known = server.tools.find((entry) => entry.tool === tool || entry.name === tool)
  const request = { tool: known?.name ?? tool, arguments: given, key: randomUUID() }
  const end = await server.call(request, { signal: new AbortController().signal, waitMs: START_MS })
  if (end.kind === 'answered') return { outcome: end.isError ? 'failed' : 'ok', text: end.text }
  if (end.kind === 'lost' || end.kind === 'refused') throw end.fault
  return { outcome: 'cancelled', text: 'Cancelled.' }
}
