/** The configuration of an MCP server, resolved at the door. */

export type McpServerConfig = {
  /** The program of a server that Breakfall runs. */
  readonly command?: string | undefined
  readonly args?: readonly string[] | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
  readonly cwd?: string | undefined
  /** The address of a server that runs elsewhere. */
  readonly url?: string | undefined
  /** Request headers, with their values. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** When the user logged in to it. A new login replaces the connection. */
  readonly login?: string | undefined
  /** The tools to offer. Default: all. */
  readonly tools?: readonly string[] | undefined
  /** The hints of these tools count: all of them, or those listed. Default: none. */
  readonly trust?: boolean | readonly string[] | undefined
  /** How long it may take to become ready. */
  readonly startMs?: number | undefined
  /** How long a call may go without an answer or progress. */
  readonly callMs?: number | undefined
  /** How long a call waits for a server that is away. */
  readonly awayMs?: number | undefined
}

export type McpLimits = { readonly [Name in keyof typeof MCP_LIMITS]: number }

export const MCP_LIMITS = {
  startMs: 60_000, // a first start through npx downloads the server
  callMs: 300_000, // without progress
  callMsMaxFactor: 12, // with progress, an hour at the default
  awayMs: 60_000, // a deploy
  quietMs: 2_000, // after that, a session over HTTP is checked before a call; a model takes longer than this between two calls
  checkMs: 10_000, // for that check
  probeMs: 3_000, // for a server of 2025 that never answers an unknown request; after that its era is remembered
  eraDays: 7, // then a server of 2025 is asked again, because it may have been updated
  messageBytesMax: 16 * 1024 * 1024, // one JSON-RPC message; a larger result belongs in a file
  messageValuesMax: 250_000, // of one message; a list of all tools has fewer, and more take too long to parse
  inputBytesMax: 8 * 1024 * 1024, // written, but not read by the server
  failuresMax: 20, // within ten minutes; then the server is given up
  garbageLinesMax: 1_000, // lines on stdout that are not JSON, per run; then the server is ended
  toolsMax: 4_096, // per server; the largest known server has 401
  pagesMax: 1_024, // of a list of tools
  toolBytesMax: 64 * 1024, // one definition: name, description and schema
  descriptionCharsMax: 8_192,
  textCharsMax: 400_000, // of a result; the engine shows the model less
  pollMs: 1_000, // between two looks at a task, unless the server says
  pollMsMax: 60_000,
  reconnectMsMax: 60_000, // between two attempts to reach a server at a URL
  reconnectWantedMsMax: 5_000, // the same while a call waits for it
  relistMs: 1_000, // from an error to a list of tools to the next request for it; doubles up to a minute
} as const
