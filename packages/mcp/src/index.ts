/** MCP servers that fail well: supervised processes, calls that never run twice. See docs/how-to/mcp.md. */
export { type CallEnd } from './call-end.ts'
export { type McpLimits, type McpServerConfig } from './config.ts'
export { McpHost, type McpHostOptions } from './host.ts'
export { logIn } from './login/log-in.ts'
export { revokeLogin, type Revocation } from './login/revoke.ts'
export { type McpState } from './link.ts'
export { McpServer, type McpStatus, type ToolCallOptions, type ToolCallRequest } from './server.ts'
export { type McpTool } from './tool.ts'
