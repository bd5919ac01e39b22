/** Tools from outside, in the daemon's API: the states of MCP servers, their tools, and calls. */
import { z } from 'zod'
import { body, record, text, time } from './fields.ts'
import { faultReportSchema } from './fault-schema.ts'
import { MCP_STATES, TOOL_OUTCOMES } from './names.ts'

export const mcpServerSchema = record({
  name: z.string(),
  state: z.enum(MCP_STATES),
  era: z.string().nullable().describe('the version of the protocol that it speaks'),
  tools: z.int(),
  since: time,
  lastExit: record({ code: z.int().nullable(), signal: z.string().nullable(), error: z.string() }).optional(),
  error: z.string().optional().describe('why it is restarting or has failed'),
})
export const mcpListSchema = record({ servers: z.array(mcpServerSchema).readonly() })
export type McpList = z.infer<typeof mcpListSchema>

export const mcpToolSchema = record({
  name: z.string().describe('as the model calls it'),
  tool: z.string().describe('as its server calls it'),
  description: z.string(),
  inputSchema: z.record(z.string(), z.unknown()),
  readOnly: z.boolean().describe('what its server declares'),
  idempotent: z.boolean().describe('what its server declares'),
  trusted: z.boolean().describe('whether the configuration trusts that'),
})
export const mcpDetailSchema = record({
  ...mcpServerSchema.shape,
  offered: z.array(mcpToolSchema).readonly(),
  refused: z.array(record({ tool: z.string(), because: z.string() })).readonly(),
  log: z.array(z.string()).readonly().describe('its last lines besides the protocol'),
  fault: faultReportSchema.optional().describe('why it takes no calls now'),
})
export type McpDetail = z.infer<typeof mcpDetailSchema>
export const mcpRestartSchema = body({})
export const mcpCallSchema = body({
  tool: text(500, 'the name of a tool'),
  arguments: z.record(z.string(), z.unknown()).optional(),
})
export const mcpCalledSchema = record({ outcome: z.enum(TOOL_OUTCOMES), text: z.string() })
export type McpCalled = z.infer<typeof mcpCalledSchema>
