/** The tools that the creator of a session names. Pure. */
import { TOOL_NAMES, type ToolName } from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import { isMcpTool } from './mcp-call.ts'

/** Built-in tools apart from those from outside. A list names all that the session may use; without one, it may use all. */
export function toolsIn(
  names: readonly string[] | undefined,
  custom: ReadonlyMap<string, unknown>,
): {
  readonly tools: readonly ToolName[]
  readonly outside: readonly string[] | undefined
  readonly needsBox: boolean
} {
  if (names === undefined) return { tools: [...TOOL_NAMES], outside: undefined, needsBox: true }
  const tools = TOOL_NAMES.filter((name) => names.includes(name))
  const outside = names.filter((name) => !TOOL_NAMES.some((known) => known === name))
  const unknown = outside.find((name) => !isMcpTool(name) && !custom.has(name))
  if (unknown !== undefined) {
    const expected = `${TOOL_NAMES.join(', ')}, mcp__SERVER, mcp__SERVER__TOOL, or a tool that [tools.NAME] defines`
    throw invalidRequest([
      { field: `tools.${names.indexOf(unknown)}`, expected, got: JSON.stringify(unknown.slice(0, 100)) },
    ])
  }
  return { tools, outside, needsBox: tools.length > 0 || outside.some((name) => !isMcpTool(name)) }
}
