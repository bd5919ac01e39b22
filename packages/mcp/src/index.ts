/** MCP servers that fail well. */
export {}
