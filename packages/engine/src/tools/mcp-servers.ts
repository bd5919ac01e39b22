/** The MCP servers that the configuration names. The code of MCP is loaded with the first of them. */
import { createHash } from 'node:crypto'
import type { McpHost, McpLimits, McpServer, McpServerConfig, McpTool } from '@breakfall/mcp'
import type { McpDetail, McpList } from '@breakfall/wire'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Secrets } from '../secrets.ts'

export type MissingTools = { readonly server: string; readonly because: string }

export class McpServers {
  readonly #stateDir: string
  readonly #log: Log
  readonly #secrets: Pick<Secrets, 'set' | 'drop'>
  readonly #limits: Partial<McpLimits> | undefined
  #configs: Readonly<Record<string, McpServerConfig>> = {}
  #host: McpHost | undefined
  #loading: Promise<void> | undefined
  readonly #since: string
  #version = 0
  #isClosed = false

  constructor(parts: {
    readonly stateDir: string
    readonly log: Log
    readonly secrets: Pick<Secrets, 'set' | 'drop'>
    readonly clock: Pick<Clock, 'now'>
    readonly limits?: Partial<McpLimits> | undefined
  }) {
    this.#stateDir = parts.stateDir
    this.#since = new Date(parts.clock.now()).toISOString()
    this.#log = parts.log
    this.#secrets = parts.secrets
    this.#limits = parts.limits
  }

  configure(mcp: Readonly<Record<string, McpServerConfig>> = {}): void {
    if (this.#isClosed || JSON.stringify(mcp) === JSON.stringify(this.#configs)) return
    for (const name of Object.keys(this.#configs)) if (!Object.hasOwn(mcp, name)) this.#secrets.drop(ownerOf(name))
    this.#configs = mcp
    this.#version += 1
    if (this.#host !== undefined) this.#host.configure(mcp)
    else this.#loading ??= this.#load()
  }

  /** Changes whenever the tools may have changed. */
  get version(): number {
    return this.#version
  }

  /** Changes whenever the configuration of a server does. Reveals nothing about it. */
  get fingerprint(): string {
    return createHash('sha256').update(JSON.stringify(this.#configs)).digest('hex')
  }

  get tools(): readonly McpTool[] {
    return this.#host?.tools ?? []
  }

  tool(name: string): McpTool | undefined {
    return this.tools.find((tool) => tool.name === name)
  }

  serverOf(tool: string): McpServer | undefined {
    return this.#host?.serverOf(tool)
  }

  server(name: string): McpServer | undefined {
    return this.#host?.server(name)
  }

  /** Servers that are not ready, with the reason. */
  get missing(): readonly MissingTools[] {
    const host = this.#host
    return Object.keys(this.#configs).flatMap((server) => {
      const because = host === undefined ? 'it is still starting' : (host.server(server)?.missing ?? null)
      return because === null ? [] : [{ server, because }]
    })
  }

  /** Returns when every server is ready, has failed or keeps failing to start, at the latest after `graceMs`. */
  async settled(graceMs: number): Promise<void> {
    if (this.#loading !== undefined) await this.#loading
    await this.#host?.settled(graceMs)
  }

  get list(): McpList {
    const starting = (name: string) => ({ name, state: 'starting', era: null, tools: 0, since: this.#since }) as const
    return { servers: this.#host?.statuses ?? Object.keys(this.#configs).map(starting) }
  }

  async detail(name: string): Promise<McpDetail | undefined> {
    await this.#loading
    return this.#host?.server(name)?.detail
  }

  async stop(): Promise<void> {
    this.#isClosed = true
    await this.#loading
    await this.#host?.stop()
  }

  // ---- details ----

  async #load(): Promise<void> {
    const { McpHost } = await import('@breakfall/mcp')
    if (this.#isClosed) return
    this.#host = new McpHost({
      stateDir: this.#stateDir,
      limits: this.#limits,
      canAsk: true,
      onSecrets: (secrets, name) => this.#secrets.set(ownerOf(name), secrets),
      onChange: (name) => {
        this.#version += 1
        const status = this.#host?.server(name)?.status
        if (status !== undefined) this.#log.info({ mcp: status }, 'MCP server')
      },
    })
    this.#host.configure(this.#configs)
    this.#loading = undefined
  }
}

const ownerOf = (server: string): string => `MCP server ${server}`
