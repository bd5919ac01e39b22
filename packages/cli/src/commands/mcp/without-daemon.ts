/**
 * MCP servers without a daemon: they run in this process, for one command.
 *
 * I1  A command starts only the server that it needs. The list starts all of them, and reports each once its state is known.
 * I2  A server that is starting has all of its `startMs`: npx leaves a broken cache if it is killed in the middle of a download.
 *     A server whose start has failed is stopped before its next one.
 */
import { randomUUID } from 'node:crypto'
import { Fault, isFault } from '@breakfall/faults'
import { duration } from '@breakfall/faults/internal'
import type { McpServer, McpServerConfig } from '@breakfall/mcp'
import type { McpCalled, McpList } from '@breakfall/wire'
import type { Context } from '../../command-line/context.ts'
import { launcherOf } from '../../config/outside.ts'

type Config = Context['config']

const QUIET_MS = 2_000 // most servers are ready by then
const MARGIN_MS = 10_000 // from the end of `startMs` to the report that the server has ended

type McpStatus = McpList['servers'][number]

/** Reports each server's state after its first attempt to start. */
export async function listedHere(
  { stateDir, outside }: Config,
  report: { readonly onKnown: (status: McpStatus) => void; readonly onWaiting: (sentence: string) => void },
): Promise<void> {
  const { McpHost } = await import('@breakfall/mcp')
  const host = new McpHost({ stateDir })
  const listed = async (server: McpServer): Promise<void> => {
    const notice = setTimeout(() => report.onWaiting(waitingFor(server)), QUIET_MS)
    await server.tried(AbortSignal.timeout(server.startMs + MARGIN_MS)) // I2
    clearTimeout(notice)
    report.onKnown(server.status)
    await server.stop()
  }
  try {
    host.configure(outside.mcp)
    await Promise.all(host.servers.map(listed))
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
    const [server] = host.servers
    if (server === undefined) throw new Fault('not_found', { facts: { name: `MCP server ${name}` } })
    await server.started(AbortSignal.timeout(2 * server.startMs + MARGIN_MS)) // I2
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

/** `sayLast` gets the server's last lines if it died during the call. */
export async function calledHere(
  server: McpServer,
  tool: string,
  args: Record<string, unknown>,
  sayLast: (log: readonly string[]) => void,
): Promise<McpCalled> {
  if (server.fault !== null) throw server.fault
  const known = server.tools.find((entry) => entry.tool === tool || entry.name === tool)
  const request = { tool: known?.name ?? tool, arguments: args, key: randomUUID() }
  const end = await server.call(request, { signal: new AbortController().signal })
  if (end.kind === 'answered') return { outcome: end.isError ? 'failed' : 'ok', text: end.text }
  if (end.kind === 'refused') throw end.fault
  if (end.kind === 'lost') {
    sayLast(server.log)
    const advice = server.log.length === 0 ? 'It printed nothing on stderr.' : 'Its last lines are above.'
    return rethrowUnsure(withLogAdvice(end.fault, advice))
  }
  return { outcome: 'cancelled', text: 'Cancelled.' }
}

/** Throws the fault of a call. If the call may have had an effect, the message says so. */
export function rethrowUnsure(thrown: unknown): never {
  if (!isFault(thrown) || thrown.report.sideEffects !== 'unknown') throw thrown
  const unsure = thrown.with({ message: { action: 'The call may have had an effect, and was not repeated.' } })
  throw thrown.errorRaw === thrown.error ? unsure.with({ errorRaw: unsure.error }) : unsure
}

// ---- details ----

/** Its log ends with this command, so `mcp logs` cannot show it. */
function withLogAdvice(fault: Fault, advice: string): Fault {
  const advised = fault.with({ message: { advice } })
  return fault.errorRaw === fault.error ? advised.with({ errorRaw: advised.error }) : advised
}

function waitingFor({ name, startMs, config }: McpServer): string {
  const launcher = launcherOf(config)
  const why = launcher === undefined ? '' : ` (${launcher} may be downloading)`
  return `${name} is starting${why}; waiting up to ${duration(startMs)}`
}
