/** A tool as its server defines it: checked, bounded, and named so that no two servers collide. Pure. */
import { createHash } from 'node:crypto'
import { sorted } from '@breakfall/faults/internal'
import type { Tool } from '@modelcontextprotocol/client'
import { MCP_LIMITS, type McpServerConfig } from './config.ts'

export type McpTool = {
  /** `mcp__SERVER__TOOL`, as the model calls it. */
  readonly name: string
  readonly server: string
  /** As the server calls it. */
  readonly tool: string
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
  /** Changes whenever the name or the schema does. */
  readonly hash: string
  /** What the server declares. It counts only if the configuration trusts the tool. */
  readonly isReadOnly: boolean
  readonly isIdempotent: boolean
  readonly isTrusted: boolean
  /** Doing it twice does no harm, by the word of a trusted server. */
  readonly mayRepeat: boolean
  /** It changes nothing, by the word of a trusted server. */
  readonly isSafe: boolean
  /** The server only runs it as a task. */
  readonly needsTask: boolean
}

/** Tools that cannot be offered, with the reason. */
export type RefusedTool = { readonly tool: string; readonly because: string }

export type ToolList = { readonly tools: readonly McpTool[]; readonly refused: readonly RefusedTool[] }

export function toolsOf(
  server: string,
  listed: readonly Tool[],
  config: Pick<McpServerConfig, 'tools' | 'trust'>,
): ToolList {
  const tools: McpTool[] = []
  const refused: RefusedTool[] = []
  const names = new Set<string>()
  for (const tool of listed) {
    if (config.tools !== undefined && !config.tools.includes(tool.name)) continue
    const made = toolOf(server, tool, config.trust)
    const because = refusal(made, tool, names, tools.length)
    if (because === undefined) tools.push(made)
    else if (refused.length < MCP_LIMITS.toolsMax) refused.push({ tool: tool.name.slice(0, 100), because })
    names.add(made.name)
  }
  return { tools, refused }
}

/** The server in a tool's name. */
export function serverIn(name: string): string | undefined {
  return /^mcp__(.+?)__./.exec(name)?.[1]
}

// ---- details ----

/** What model providers accept. */
const NAME_CHARS_MAX = 64
const HASH_CHARS = 8

function toolOf(server: string, tool: Tool, trust: McpServerConfig['trust']): McpTool {
  const inputSchema = { ...tool.inputSchema }
  const { readOnlyHint = false, idempotentHint, destructiveHint } = tool.annotations ?? {}
  const isTrusted = trust === true || (Array.isArray(trust) && trust.includes(tool.name))
  const isTrustworthy = isTrusted && !(readOnlyHint && destructiveHint === true) // it contradicts itself
  const description = (tool.description ?? tool.title ?? '').slice(0, MCP_LIMITS.descriptionCharsMax).toWellFormed()
  return {
    name: qualifiedName(server, tool.name),
    server,
    tool: tool.name,
    description,
    inputSchema,
    hash: hashOf(JSON.stringify([tool.name, sorted(inputSchema)])),
    isReadOnly: readOnlyHint,
    isIdempotent: idempotentHint === true,
    isTrusted,
    mayRepeat: isTrustworthy && (idempotentHint ?? readOnlyHint),
    isSafe: isTrustworthy && readOnlyHint,
    needsTask: tool.execution?.taskSupport === 'required',
  }
}

/** Providers accept letters, digits, `_` and `-`, up to 64 characters. What was changed is told apart by a hash. */
function qualifiedName(server: string, tool: string): string {
  const plain = `mcp__${server}__${tool}`
  const clean = plain.replace(/[^\w-]/g, '_')
  if (clean === plain && clean.length <= NAME_CHARS_MAX) return clean
  return `${clean.slice(0, NAME_CHARS_MAX - HASH_CHARS - 1)}_${hashOf(plain).slice(0, HASH_CHARS)}`
}

function refusal(made: McpTool, tool: Tool, names: ReadonlySet<string>, count: number): string | undefined {
  if (count >= MCP_LIMITS.toolsMax) return `a server may offer ${MCP_LIMITS.toolsMax} tools`
  if (names.has(made.name)) return 'another tool of this server has the same name'
  const bytes = Buffer.byteLength(JSON.stringify(tool.inputSchema)) + made.description.length
  if (bytes > MCP_LIMITS.toolBytesMax)
    return `its definition has ${bytes} bytes; the limit is ${MCP_LIMITS.toolBytesMax}`
  return made.inputSchema['type'] === 'object' ? undefined : 'its schema does not describe an object'
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 32)
