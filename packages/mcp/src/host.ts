/**
 * All configured MCP servers: started in parallel, followed through changes of the configuration, stopped together.
 *
 * I1  A server whose configuration did not change keeps running.
 */
import { join } from 'node:path'
import { sweepOrphans } from '@breakfall/supervisor'
import { MCP_LIMITS, type McpLimits, type McpServerConfig } from './config.ts'
import { Eras } from './eras.ts'
import { McpServer, type McpStatus } from './server.ts'
import { type McpTool, serverIn } from './tool.ts'

export type McpHostOptions = {
  /** Where the eras of servers and their running processes are recorded. */
  readonly stateDir?: string | undefined
  readonly limits?: Partial<McpLimits> | undefined
  /** Tokens that a server uses from now on, and that must not appear anywhere. */
  readonly onSecrets?: ((secrets: readonly string[], name: string) => void) | undefined
  /** Calls come with `onQuestion`. Otherwise servers learn that they cannot ask. */
  readonly canAsk?: boolean | undefined
  /** A server changed its state or its tools. */
  readonly onChange?: ((name: string) => void) | undefined
}

export class McpHost {
  readonly #options: McpHostOptions
  readonly #limits: McpLimits
  readonly #eras: Eras
  readonly #servers = new Map<string, McpServer>()
  #hasSwept = false

  constructor(options: McpHostOptions = {}) {
    this.#options = options
    this.#limits = { ...MCP_LIMITS, ...options.limits }
    this.#eras = new Eras(options.stateDir === undefined ? undefined : join(options.stateDir, 'mcp-eras.json'))
  }

  /** Starts what is new, stops what is gone, replaces what changed (I1). Does not wait for any of it. */
  configure(configs: Readonly<Record<string, McpServerConfig>>): void {
    for (const [name, server] of this.#servers) {
      const config = configs[name]
      if (config !== undefined && JSON.stringify(config) === JSON.stringify(server.config)) continue
      this.#servers.delete(name)
      void server.stop()
    }
    for (const [name, config] of Object.entries(configs)) {
      if (this.#servers.has(name)) continue
      this.#sweep()
      const { stateDir, onChange, canAsk = false, onSecrets = () => undefined } = this.#options
      const server = new McpServer({
        name,
        config,
        stateDir,
        eras: this.#eras,
        limits: this.#limits,
        canAsk,
        onSecrets: (secrets) => onSecrets(secrets, name),
        onState: () => onChange?.(name),
      })
      this.#servers.set(name, server)
      server.start()
    }
  }

  get servers(): readonly McpServer[] {
    return [...this.#servers.values()]
  }

  get statuses(): readonly McpStatus[] {
    return this.servers.map((server) => server.status)
  }

  get tools(): readonly McpTool[] {
    return this.servers.flatMap((server) => server.tools)
  }

  server(name: string): McpServer | undefined {
    return this.#servers.get(name)
  }

  /** The server that offers this tool, or whose name it carries. */
  serverOf(tool: string): McpServer | undefined {
    const offering = this.servers.find((server) => server.tools.some(({ name }) => name === tool))
    return offering ?? this.#servers.get(serverIn(tool) ?? '')
  }

  /** Returns when every server is ready, has failed or keeps failing to start, at the latest after `graceMs`. */
  async settled(graceMs: number): Promise<void> {
    const waiting = this.servers.filter(({ state }) => state === 'starting' || state === 'restarting')
    if (waiting.length === 0) return
    const limit = AbortSignal.timeout(graceMs)
    await Promise.all(waiting.map((server) => server.started(limit)))
  }

  async stop(): Promise<void> {
    const servers = this.servers
    this.#servers.clear()
    await Promise.all(servers.map((server) => server.stop()))
  }

  /** Servers of a daemon that was killed together with its reaper. */
  #sweep(): void {
    const { stateDir } = this.#options
    if (this.#hasSwept || stateDir === undefined) return
    this.#hasSwept = true
    sweepOrphans(stateDir)
  }
}
