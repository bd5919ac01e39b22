/** `breakfall mcp`: the servers of tools, as the running daemon has them, or started here for one command. */
import { Fault, faultFrom, isFault } from '@breakfall/faults'
import { isObject } from '@breakfall/faults/internal'
import type { McpDetail, McpList } from '@breakfall/wire'
import type { Context } from '../../command-line/context.ts'
import { findDaemon, oneShotClient, requireDaemon } from '../../daemon/find.ts'
import { asTyped, cmd } from '../../process/command-name.ts'
import type { Output } from '../../terminal/output.ts'
import { counted, utcTime } from '../../text/amounts.ts'
import { printable } from '../../text/printable.ts'
import { shortened } from '../../text/table.ts'
import { calledHere, listedHere, rethrowUnsure, withServer } from './without-daemon.ts'

export async function mcpList({ config, out }: Context): Promise<void> {
  const daemon = await findDaemon(config)
  let servers = 0
  const onKnown = (server: McpList['servers'][number]): void => {
    if (!out.json && servers === 0) out.line(out.style('dim', HEAD))
    servers += 1
    if (out.json) out.data(server)
    else for (const line of serverLines(server)) out.line(line)
  }
  if (daemon === undefined) await listedHere(config, { onKnown, onWaiting: (sentence) => out.say(sentence) })
  else for (const server of (await oneShotClient(daemon.address).mcpServers()).servers) onKnown(server)
  if (out.json) return out.result({ outcome: 'finished', servers })
  if (servers === 0) out.line('no MCP server is configured; see docs/how-to/mcp.md')
}

export async function mcpTools(context: Context, name: string): Promise<void> {
  const { out } = context
  const { offered, refused, fault, log } = await serverDetail(context, name)
  if (fault !== undefined && offered.length === 0) throw withServerAdvice(faultFrom(fault), name, log)
  if (out.json) return out.result({ outcome: 'finished', tools: offered, refused })
  for (const tool of offered) {
    const hints = [tool.readOnly ? 'read-only' : '', tool.idempotent ? 'idempotent' : ''].filter((hint) => hint !== '')
    const trust = hints.length === 0 ? '' : ` (${hints.join(', ')}${tool.trusted ? '' : '; not trusted'})`
    out.line(`${tool.name}${trust}`)
    const [first = ''] = tool.description.split('\n')
    if (first !== '') out.line(`  ${shortened(printable(first), 120)}`)
  }
  for (const { tool, because } of refused) out.line(`${printable(tool)} is not offered: ${because}`)
}

export async function mcpLogs(context: Context, name: string): Promise<void> {
  const { log, fault } = await serverDetail(context, name)
  if (context.out.json) return context.out.result({ outcome: 'finished', log })
  for (const line of log) context.out.line(printable(line))
  if (log.length === 0) context.out.say(`${name} has printed nothing on stderr`)
  // Its advice is to look here.
  if (fault !== undefined) context.out.say(printable(asTyped(fault.message?.happened ?? fault.error)))
}

export async function mcpCall(context: Context, name: string, tool: string, argumentsText = '{}'): Promise<number> {
  const { config, out } = context
  const args = parsedArguments(argumentsText)
  const daemon = await findDaemon(config)
  const calling =
    daemon === undefined
      ? withServer(config, name, (server) => calledHere(server, tool, args, sayLast(out)))
      : oneShotClient(daemon.address).callMcp(name, tool, args).catch(rethrowUnsure)
  const called = await calling.catch((thrown: unknown) => {
    throw isFault(thrown) ? withServerAdvice(thrown, name) : thrown
  })
  if (out.json) out.result({ ...called, outcome: called.outcome === 'ok' ? 'finished' : 'failed' })
  else out.line(called.text)
  return called.outcome === 'ok' ? 0 : 1
}

export async function mcpRestart({ config, out }: Context, name: string): Promise<void> {
  const { address } = await requireDaemon(config)
  const server = await oneShotClient(address).restartMcp(name)
  if (out.json) out.result({ ...server, outcome: 'finished' })
  else out.line(`${name} is ${server.state}; "${cmd('mcp list')}" shows when it is ready`)
}

// ---- details ----

/** Says what helps with this server. A missing program and a silent one have no last lines. */
function withServerAdvice(fault: Fault, name: string, log?: readonly string[]): Fault {
  const advice = adviceFor(fault, name, log)
  return advice === undefined ? fault : fault.with({ message: { advice } })
}

function adviceFor({ category, report }: Fault, name: string, log?: readonly string[]): string | undefined {
  if (category === 'tool_not_offered') return `To see its tools: ${cmd('mcp tools')} ${name}`
  if (category !== 'mcp_server_failed') return undefined
  if (report.diagnostics.some(({ id }) => id === 'start.not_found'))
    return `Install it, or correct [mcp.${name}] command in your config.toml.`
  return log?.length === 0 ? 'It printed nothing on stderr.' : undefined
}

/** Each line is printed once its server is known, so the widths are fixed. */
const serverRow = (name: string, state: string, tools: string, era: string, since: string): string =>
  `${name.padEnd(20)}  ${state.padEnd(10)}  ${tools.padEnd(9)}  ${era.padEnd(10)}  ${since}`

const HEAD = serverRow('SERVER', 'STATE', 'OFFERS', 'PROTOCOL', 'SINCE')

function serverLines({ name, state, era, tools, since, error }: McpList['servers'][number]): readonly string[] {
  const why = error === undefined ? [] : [`  ${printable(asTyped(error))}`]
  return [serverRow(name, state, counted(tools, 'tool'), era ?? '-', utcTime(since)), ...why]
}

const LINES_SAID = 10

/** A server that was started for this command leaves no log behind. */
const sayLast =
  (out: Output) =>
  (log: readonly string[]): void => {
    for (const line of log.slice(-LINES_SAID)) out.say(out.styleErr('dim', `| ${printable(line)}`))
  }

async function serverDetail({ config }: Context, name: string): Promise<McpDetail> {
  const daemon = await findDaemon(config)
  if (daemon !== undefined) return oneShotClient(daemon.address).mcpServer(name)
  return withServer(config, name, (server) => Promise.resolve(server.detail))
}

function parsedArguments(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    if (isObject(value)) return value
  } catch {
    // Reported below, as anything else that is not an object.
  }
  throw new Fault('invalid_request', { error: `The arguments of a tool are a JSON object, got ${text.slice(0, 100)}` })
}
