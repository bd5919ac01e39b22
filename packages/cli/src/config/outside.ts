/** The tools from outside that the configuration names: MCP servers and the user's own commands. Pure. */
import { basename, resolve } from 'node:path'
import type { CustomToolConfig } from '@breakfall/engine'
import type { McpServerConfig } from '@breakfall/mcp'
import { type Environment, homeFolder } from '@breakfall/supervisor/platform'
import type { Config } from './schema.ts'

export type OutsideSetting = {
  readonly mcp: Readonly<Record<string, McpServerConfig>>
  readonly tools: Readonly<Record<string, CustomToolConfig>>
  /** Variables that `headersEnv` names and that are not set. */
  readonly unset: readonly { readonly server: string; readonly variable: string }[]
}

/** `loginAt`: when the user logged in at a server, if that is stored. */
export function resolveOutside(
  { mcp = {}, tools = {} }: Config,
  env: Environment,
  loginAt: (name: string, url: string) => string | undefined,
): OutsideSetting {
  const servers = Object.entries(mcp)
  const withLogin = (name: string, server: McpServerConfig): McpServerConfig => {
    const login = server.url === undefined ? undefined : loginAt(name, server.url)
    return login === undefined ? server : { ...server, login }
  }
  return {
    mcp: Object.fromEntries(servers.map(([name, table]) => [name, withLogin(name, serverOf(table, env))])),
    tools,
    unset: servers.flatMap(([server, { headersEnv = {} }]) =>
      Object.values(headersEnv).flatMap((variable) => ((env[variable] ?? '') === '' ? [{ server, variable }] : [])),
    ),
  }
}

/** The program's name, or undefined if it downloads nothing. */
export function launcherOf({ command = '' }: { readonly command?: string | undefined }): string | undefined {
  const name = basename(command).replace(/\.cmd$/, '')
  return LAUNCHERS.has(name) ? name : undefined
}

// ---- details, in the order they are used above ----

type ServerTable = NonNullable<Config['mcp']>[string]

function serverOf(
  { command, args = [], cwd, headersEnv = {}, ...rest }: ServerTable,
  env: Environment,
): McpServerConfig {
  const [program, ...first] = typeof command === 'string' ? [command] : (command ?? [])
  const headers = Object.entries(headersEnv).flatMap(([name, variable]) => {
    const value = env[variable] ?? ''
    return value === '' ? [] : [[name, value] as const]
  })
  return {
    ...rest,
    ...(program === undefined ? {} : { command: inHome(program, env), args: [...first, ...args] }),
    ...(cwd === undefined ? {} : { cwd: resolve(inHome(cwd, env)) }),
    ...(headers.length === 0 ? {} : { headers: Object.fromEntries(headers) }),
  }
}

const inHome = (path: string, env: Environment): string =>
  /^~(?:\/|$)/.test(path) ? `${homeFolder(env) ?? ''}${path.slice(1)}` : path

const LAUNCHERS = new Set(['npx', 'npm', 'pnpm', 'pnpx', 'yarn', 'bunx', 'uv', 'uvx', 'pipx', 'docker', 'podman'])
